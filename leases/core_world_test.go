package leases_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// core is one schedule: a stream, a table, workers, and what is to happen when.
type core struct {
	random  *rand.Rand
	cfg     config.Config
	timing  leases.Timing
	lacks   coreGuard
	now     time.Duration
	events  coreEvents
	stream  *coreStream
	table   *coreTable
	workers []*coreWorker
	old     []leases.Lease // what a stale listing shows
	faults  bool
	caller  *coreWorker // whose request is under way
	writes  int
	hash    uint64 // of all that has happened so far
	verbose bool
	log     []string
	broken  string
	retired map[string]bool // nonces of tenures that were replaced
}

// coreGuard is something that the design needs, taken away to see what is found.
type coreGuard int

const (
	coreWhole       coreGuard = iota
	withoutCounters           // conditions do not compare the counter
	withoutMargin             // an owner trusts its lease for ever
	withoutWaiting
	withoutChildren
	withoutKeeping
	withoutHandled
)

const (
	coreLasts = time.Minute // of faults; then everything is mended
	// coreLate is how long a request may be under way at most, and coreKeeps how long a finished row stays: for a decision, and a request
	// that comes late.
	coreLate  = 15 * time.Second
	coreKeeps = leases.DecisionLife + coreLate + time.Second
	coreClean = 3 * time.Second // between two looks for rows that may go
)

var coreBase = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newCore(seed uint64, lacks coreGuard, verbose bool) *core {
	c := &core{
		verbose: verbose, lacks: lacks, random: rand.New(rand.NewPCG(seed, 0xc04e)), faults: true, retired: map[string]bool{}, hash: 14695981039346656037,
	}
	c.cfg = config.Default("app", "orders")
	c.cfg.LeaseManagement.FailoverTime = time.Duration(3+c.random.IntN(5)) * time.Second
	c.cfg = c.cfg.Complete()
	c.timing = leases.TimingOf(c.cfg.LeaseManagement)
	c.stream = newCoreStream(c, 1+c.random.IntN(3))
	c.table = &coreTable{rows: map[string]*coreRow{}, programs: corePrograms, wrote: c.judge, fate: c.fate}
	if lacks == withoutCounters {
		c.table.ignores = "leaseCounter"
	}
	for i := range 2 + c.random.IntN(2) {
		w := &coreWorker{c: c, id: fmt.Sprintf("w%d", i)}
		c.workers = append(c.workers, w)
		w.start()
	}
	for range 3 + c.random.IntN(8) {
		c.after(c.between(0, coreLasts), c.fault)
	}
	for range c.random.IntN(3) {
		c.after(c.between(0, coreLasts*2/3), c.stream.reshard)
	}
	return c
}

func (c *core) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.random.Int64N(int64(high-low)+1))
}

func (c *core) after(d time.Duration, do func()) { c.events.push(c.now+d, do) }

// note is what happened: every run of a seed notes the same. What is of no interest to people is a hash only.
func (c *core) note(format string, args ...any) {
	c.mix(uint64(c.now))
	c.mix(uint64(len(format)))
	if c.verbose {
		c.log = append(c.log, fmt.Sprintf("%9.3fs ", c.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

func (c *core) mix(x uint64) { c.hash = (c.hash ^ x) * 1099511628211 }

func (c *core) mixString(s string) {
	for i := range len(s) {
		c.hash = (c.hash ^ uint64(s[i])) * 1099511628211
	}
}

func (c *core) breaks(format string, args ...any) {
	if c.broken == "" {
		c.broken = fmt.Sprintf(format, args...)
		c.note("BROKEN %s", c.broken)
	}
}

// run lives through the schedule: faults, then peace, until all is as if nothing had happened, or for as long as that may take.
func (c *core) run() {
	if c.until(coreLasts); c.broken != "" {
		return
	}
	c.faults = false
	c.note("everything is mended")
	d := c.cfg.LeaseManagement.FailoverTime
	limit := coreLasts + 12*d
	for c.now < limit && c.broken == "" && c.unsettled() != "" {
		c.until(c.now + d/2)
	}
	if why := c.unsettled(); why != "" && c.broken == "" {
		c.breaks("L1, L2: %v after the last fault %s", c.now-coreLasts, why)
	}
	// Finished rows go oldest first, each a look after the one before at the earliest.
	limit = c.now + coreKeeps + 8*coreClean + 12*d
	for c.now < limit && c.broken == "" && (len(c.table.rows) != c.stream.open() || c.unsettled() != "") {
		c.until(c.now + d)
	}
	if n := c.stream.open(); len(c.table.rows) != n && c.broken == "" {
		c.breaks("L4: there are %d rows for %d open shards", len(c.table.rows), n)
	}
}

func (c *core) until(end time.Duration) {
	for len(c.events.heap) > 0 && c.events.heap[0].at <= end && c.broken == "" {
		e := c.events.pop()
		c.now = e.at
		e.do()
	}
	if c.broken == "" {
		c.now = end
	}
}

// unsettled says what is not yet as if there had been no faults, "" if everything is: every open shard is read up to its tip, every
// closed one to its end, and the leases are shared evenly.
func (c *core) unsettled() string {
	for _, s := range c.stream.shards {
		switch {
		case s.closed && !s.ended:
			return fmt.Sprintf("shard %s is not read to its end: %d of %d", s.id, s.handled, s.put())
		case s.closed:
			continue
		}
		row := c.table.rows[s.id]
		if row == nil {
			return fmt.Sprintf("shard %s has no row", s.id)
		}
		w := c.worker(row.lease.ActualOwner())
		if w == nil || w.find(s.id) == nil {
			return fmt.Sprintf("nobody acts under lease %s of %q", s.id, row.lease.ActualOwner())
		}
		if s.put()-s.handled > 20 {
			return fmt.Sprintf("shard %s is read up to record %d of %d", s.id, s.handled, s.put())
		}
	}
	least, most := 1<<30, 0
	for _, w := range c.workers {
		n := 0
		for _, h := range w.held {
			if !h.lease.Finished() {
				n++
			}
		}
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		return fmt.Sprintf("one worker holds %d leases and another %d", most, least)
	}
	return ""
}

func (c *core) worker(id string) *coreWorker {
	for _, w := range c.workers {
		if w.id == id {
			return w
		}
	}
	return nil
}

// leases are the rows, by key.
func (c *core) leases() []leases.Lease {
	all := make([]leases.Lease, 0, len(c.table.rows))
	for _, s := range c.stream.shards {
		if r := c.table.rows[s.id]; r != nil {
			all = append(all, r.lease)
		}
	}
	return all
}

// fault is one thing that happens to one worker.
func (c *core) fault() {
	w := c.workers[c.random.IntN(len(c.workers))]
	lasts := c.between(0, 3*c.cfg.LeaseManagement.FailoverTime)
	switch c.random.IntN(5) {
	case 0:
		c.note("%s crashes for %v", w.id, lasts)
		w.end(lasts)
	case 1:
		c.note("%s stands still for %v", w.id, lasts)
		w.until = max(w.until, c.now+lasts)
	case 2:
		c.note("%s is cut off for %v", w.id, lasts)
		w.cut = max(w.cut, c.now+lasts)
	case 3:
		c.note("%s is suspended for %v", w.id, lasts)
		if end := c.now + lasts; end > w.until {
			w.lag += end - max(w.until, c.now)
			w.until = end
		}
	case 4:
		c.note("%s stops, and is started again %v later", w.id, lasts)
		w.stop(lasts)
	}
}

// fate is what becomes of a write. One that is unheard may yet be served, much later.
func (c *core) fate(late func()) coreFate {
	if !c.faults {
		return coreServed
	}
	if c.now < c.caller.cut {
		return coreUnheard
	}
	switch c.random.IntN(20) {
	case 0, 1:
		return coreUnanswered
	case 2:
		return coreUnheard
	case 3, 4:
		c.after(c.between(0, min(coreLate, 3*c.cfg.LeaseManagement.FailoverTime)), late)
		return coreUnheard
	}
	return coreServed
}

// judge looks at a write that has taken effect.
func (c *core) judge(key string, before, after *coreRow) {
	c.writes++
	c.mixString(key)
	s := c.stream.byID[key]
	switch {
	case after == nil:
		c.note("%s is deleted", key)
		c.judgeDelete(s, before.lease)
		return
	case before == nil:
		c.note("%s is created", key)
		if s.ended {
			c.breaks("S7: the row of %s is made again, whose shard was read to its end", key)
		}
		s.created = true
		return
	case after.lease.Checkpoint.IsZero():
		c.breaks("the row of %s cannot be read", key)
		return
	}
	a, b := &before.lease, &after.lease
	if a.Counter == b.Counter {
		c.note("%s is asked of %s by %s, or its children become known", key, b.CheckpointOwner, b.Owner)
		if a.Checkpoint != b.Checkpoint {
			c.breaks("S1: the checkpoint of %s changes without the counter", key)
		}
		return
	}
	n := b.Tenure.Nonce
	c.note("%s %d->%d of %s, owner %q, checkpoint %s", key, a.Counter, b.Counter, n, b.Owner, b.Checkpoint.SequenceNumber)
	c.mixString(n)
	c.mixString(b.Checkpoint.SequenceNumber)
	c.mix(uint64(b.Counter))
	switch {
	case b.Counter != a.Counter+1 || b.Tenure.At != b.Counter:
		c.breaks("S1: the counter of %s goes from %d to %d, its tenure says %d", key, a.Counter, b.Counter, b.Tenure.At)
	case c.retired[n]:
		c.breaks("S1: tenure %s writes %s after %s has", n, key, s.nonce)
	case b.Checkpoint.Compare(a.Checkpoint) < 0:
		c.breaks("S2: the checkpoint of %s goes back from %v to %v", key, a.Checkpoint, b.Checkpoint)
	case coreNumber(b.Checkpoint) > s.handled:
		c.breaks("S3: the checkpoint of %s is %v, and %d were handled", key, b.Checkpoint, s.handled)
	}
	if b.Finished() && !s.ended {
		c.judgeEnd(s)
	}
	if n != s.nonce {
		if s.nonce != "" {
			c.retired[s.nonce] = true
		}
		s.nonce, s.epoch = n, b.Counter
	}
}

// judgeEnd looks at the first SHARD_END of a shard: S3, S5.
func (c *core) judgeEnd(s *coreShard) {
	s.ended = true
	if !s.closed || s.handled < s.put() {
		c.breaks("S3: shard %s is finished, and %d of its %d records were handled", s.id, s.handled, s.put())
	}
	for _, child := range c.stream.children(s) {
		if !child.created {
			c.breaks("S5: shard %s is finished, and its child %s has no row", s.id, child.id)
		}
	}
}

// judgeDelete is S6.
func (c *core) judgeDelete(s *coreShard, l leases.Lease) {
	if !l.Finished() {
		c.breaks("S6: the row of %s is deleted, whose shard was not read to its end", s.id)
	}
	for _, p := range s.parents {
		if c.table.rows[p.id] != nil {
			c.breaks("S6: the row of %s is deleted before that of its parent %s", s.id, p.id)
		}
	}
	for _, child := range c.stream.children(s) {
		if r := c.table.rows[child.id]; !child.ended && (r == nil || r.lease.Checkpoint.IsSentinel()) {
			c.breaks("S6: the row of %s is deleted before its child %s has begun", s.id, child.id)
		}
	}
}

// coreEvents are what is to happen, by time, and at one time as they were made.
type coreEvents struct {
	heap  []coreEvent
	order int
}

type coreEvent struct {
	at    time.Duration
	order int
	do    func()
}

func (a coreEvent) before(b coreEvent) bool { return a.at < b.at || a.at == b.at && a.order < b.order }

func (e *coreEvents) push(at time.Duration, do func()) {
	e.order++
	e.heap = append(e.heap, coreEvent{at, e.order, do})
	for i := len(e.heap) - 1; i > 0 && e.heap[i].before(e.heap[(i-1)/2]); i = (i - 1) / 2 {
		e.heap[i], e.heap[(i-1)/2] = e.heap[(i-1)/2], e.heap[i]
	}
}

func (e *coreEvents) pop() coreEvent {
	first, last := e.heap[0], len(e.heap)-1
	e.heap[0] = e.heap[last]
	e.heap[last] = coreEvent{}
	e.heap = e.heap[:last]
	for i := 0; ; {
		least := i
		for _, j := range [...]int{2*i + 1, 2*i + 2} {
			if j < last && e.heap[j].before(e.heap[least]) {
				least = j
			}
		}
		if least == i {
			return first
		}
		e.heap[i], e.heap[least] = e.heap[least], e.heap[i]
		i = least
	}
}

// timeline is the end of what a verbose run has noted.
func (c *core) timeline() string { return strings.Join(c.log[max(0, len(c.log)-60):], "\n") }

func without[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(all, func(o T) bool { return o == one })
}
