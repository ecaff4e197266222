package fleettest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/processor"
)

type record struct {
	key string
	n   int
}

// Audit is told every delivery, in the order in which they happen.
type Audit struct {
	mu         sync.Mutex
	killed     map[string]bool
	seen       map[record]bool
	newest     map[string]int // largest first delivery of each key
	tenures    map[tenure]map[string]int
	tokens     map[string]int64 // largest token of each lease
	owner      map[string]tenure
	duplicates int
	overlaps   int
	faults     []string
	last       time.Time
	firstOf    map[string]time.Time // first delivery by lease key and worker
	latest     map[string]delivery  // last delivery of each lease
	moves      []Move
	watches    map[string][]*Silence // by lease
}

// Silence is the longest time without a delivery of a lease since it began to be watched.
type Silence struct {
	a     *Audit
	lease string
	last  time.Time
	most  time.Duration
	by    string // who ended that time
}

// Watch begins to measure how long no worker is given records of a lease. It means something while records are put there all
// the time.
func (a *Audit) Watch(lease string) *Silence {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &Silence{a: a, lease: lease, last: time.Now()}
	a.watches[lease] = append(a.watches[lease], s)
	return s
}

// Longest is that time so far, the one that has not ended included, and the worker that ended it.
func (s *Silence) Longest() (time.Duration, string) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if now := time.Since(s.last); now > s.most {
		return now, "nobody"
	}
	return s.most, s.by
}

func (s *Silence) broken(now time.Time, by string) {
	if d := now.Sub(s.last); d > s.most {
		s.most, s.by = d, by
	}
	s.last = now
}

// Move is a lease that went from one worker to another, as its records show it.
type Move struct {
	Lease, From, To string
	At              time.Time     // of the first delivery to the new owner
	Gap             time.Duration // since the last delivery to the old one
}

type delivery struct {
	worker string
	at     time.Time
}

// tenure is one owner's time with one lease.
type tenure struct {
	lease  string
	token  int64
	worker string
}

func newAudit() *Audit {
	return &Audit{
		killed: map[string]bool{}, seen: map[record]bool{}, newest: map[string]int{}, tenures: map[tenure]map[string]int{},
		tokens: map[string]int64{}, owner: map[string]tenure{}, firstOf: map[string]time.Time{},
		latest: map[string]delivery{}, watches: map[string][]*Silence{},
	}
}

func (a *Audit) kill(worker string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.killed[worker] = true
}

// Distinct is how many records were delivered at least once.
func (a *Audit) Distinct() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// Last is when a record was delivered for the first time most recently.
func (a *Audit) Last() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// First is when that worker was given its first record of that lease.
func (a *Audit) First(worker, lease string) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.firstOf[worker+" "+lease]
	return at, ok
}

// FirstOf is when any worker was given the first record of that lease.
func (a *Audit) FirstOf(lease string) (at time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, t := range a.firstOf {
		if strings.HasSuffix(key, " "+lease) && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

// Token is the largest token that was seen for a lease.
func (a *Audit) Token(lease string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens[lease]
}

// Moves are the leases that went from one worker to another, in order. The gaps mean something where every shard is given
// records all the time.
func (a *Audit) Moves() []Move {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.moves)
}

// Gaps sorts the gaps of moves and describes them.
func Gaps(moves []Move) (sorted []time.Duration, text string) {
	for _, m := range moves {
		sorted = append(sorted, m.Gap)
	}
	slices.Sort(sorted)
	if len(sorted) == 0 {
		return nil, "no moves"
	}
	at := func(q float64) time.Duration {
		return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond)
	}
	return sorted, fmt.Sprintf("%d moves; gap p50 %v, p90 %v, p99 %v, max %v", len(sorted), at(0.5), at(0.9), at(0.99), at(1))
}

// Overlaps is how many batches a worker was given under a token after a larger one had been seen for that lease: the owner
// that was replaced, and had not noticed yet, went on beside the new one.
func (a *Audit) Overlaps() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.overlaps
}

// deliver judges one batch: within a tenure a key's numbers rise one by one or begin again where they were (a repeated
// batch), and first deliveries of a key come in order.
func (a *Audit) deliver(worker string, in processor.ProcessRecordsInput) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killed[worker] {
		return
	}
	now := time.Now()
	t := tenure{in.Grant.LeaseKey, in.Grant.Token, worker}
	if t.token > a.tokens[t.lease] {
		a.tokens[t.lease] = t.token
	} else if t.token < a.tokens[t.lease] {
		a.overlaps++
	}
	if before := a.latest[t.lease]; before.worker != "" && before.worker != worker {
		a.moves = append(a.moves, Move{Lease: t.lease, From: before.worker, To: worker, At: now, Gap: now.Sub(before.at)})
	}
	a.latest[t.lease] = delivery{worker, now}
	for _, s := range a.watches[t.lease] {
		s.broken(now, worker)
	}
	if a.tenures[t] == nil {
		a.tenures[t] = map[string]int{}
	}
	if key := worker + " " + t.lease; a.firstOf[key].IsZero() {
		a.firstOf[key] = now
	}
	for _, r := range in.Records {
		key, num, _ := strings.Cut(string(r.Data), ":")
		n, err := strconv.Atoi(num)
		if err != nil || key != r.PartitionKey {
			a.fault("worker %s was given %q with key %q", worker, r.Data, r.PartitionKey)
			continue
		}
		if last, ok := a.tenures[t][key]; ok && n > last+1 {
			a.fault("worker %s was given %s:%d of %s after %d under one token", worker, key, n, t.lease, last)
		}
		a.tenures[t][key] = n
		rec := record{key, n}
		if a.seen[rec] {
			a.duplicates++
			continue
		}
		a.seen[rec] = true
		a.last = now
		if last, ok := a.newest[key]; ok && n != last+1 || !ok && n != 0 {
			a.fault("worker %s was given %s:%d of %s, the first delivery after %d", worker, key, n, t.lease, a.newest[key])
		}
		a.newest[key] = n
	}
}

func (a *Audit) fault(format string, args ...any) {
	if len(a.faults) < 20 {
		a.faults = append(a.faults, fmt.Sprintf(format, args...))
	}
}

// Processor is the fleet's usual processor for one worker: it reports to the audit, then checkpoints each batch.
func (a *Audit) Processor(worker string) processor.Factory {
	return func(processor.Shard) processor.RecordProcessor { return &auditor{a: a, worker: worker} }
}

type auditor struct {
	processor.Base
	a      *Audit
	worker string
}

func (p *auditor) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	p.a.deliver(p.worker, in)
	return in.Checkpointer.Checkpoint(ctx)
}

// Deliver lets a test's own processor report to the audit.
func (a *Audit) Deliver(worker string, in processor.ProcessRecordsInput) { a.deliver(worker, in) }
