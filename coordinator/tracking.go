package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

const (
	// A leader asks now and then whether streams without a configured epoch are still those that they were: each of them once a
	// minute, but no more than one in resolveGap. The service allows 20 such requests a second in an account.
	resolveGap = 3 * time.Second
	// jobGap is the pause between the beginnings of two jobs that ask the service for a stream. Each is at its own pace then,
	// so that one stream that is throttled, or does not answer, keeps no other waiting.
	jobGap = 60 * time.Millisecond
	// wakeGap is the least time between two looks of the taker that new leases ask for.
	wakeGap = time.Second
	// snapshotAge is how old the rows may be that audits look at.
	snapshotAge = 500 * time.Millisecond
)

// tracking looks after the streams of a worker of several: which are to be read, what their leases are called, whether some
// are missing or may go. What a worker of one stream has loops for, it does for each stream.
type tracking struct {
	d     *directory
	o     Options
	rows  func() ([]leases.Lease, bool) // as last seen
	leads func() bool
	wake  func() // has the taker look

	leading  atomic.Bool
	snapshot atomic.Pointer[snapshot]
	jobs     sync.WaitGroup
	again    chan struct{} // gets a value when a job has ended

	// Of the goroutine of run.
	wanted   []wanted
	named    map[config.StreamIdentifier]*naming // of wanted streams, by what their configurations say
	former   formerStreams
	inquiry  *inquiry // the last one
	asking   bool     // its outcome is waited for
	answered bool     // the tracker has answered once
	warned   bool     // that it behaves badly, since its last answer
	nextAsk  time.Time
	pause    loop.Backoff // counts failures in a row
	tidying  bool
	nextTidy time.Time
	untidy   int // cleanups in a row that failed
	deleting bool
	kept     map[string]int // by former stream: failures in a row to delete its leases
	looked   time.Time      // when snapshot was taken
	woken    time.Time
	sleeper  bool // the taker is to be woken
	turn     int  // where the next search for a job begins

	mu      sync.Mutex
	results []func(now time.Time) // of jobs that have ended, for the goroutine of run
}

// snapshot is the table as a leader's audits see it.
type snapshot struct {
	byStream map[string][]leases.Lease
	ok       bool
}

// naming is about the identifier of a wanted stream.
type naming struct {
	busy bool
	next time.Time // when to ask for it
	back loop.Backoff
}

func newTracking(d *directory, o Options, rows func() ([]leases.Lease, bool), leads func() bool, wake func()) *tracking {
	t := &tracking{d: d, o: o, rows: rows, leads: leads, wake: wake, again: make(chan struct{}, 1), named: map[config.StreamIdentifier]*naming{}, kept: map[string]int{}, pause: loop.Backoff{Base: firstPause, Max: askInterval}, turn: rand.IntN(1 << 16)}
	t.snapshot.Store(&snapshot{})
	d.leads, d.rows = t.leading.Load, rows
	d.rowsOf = func(id string) ([]leases.Lease, bool) {
		s := t.snapshot.Load()
		return s.byStream[id], s.ok
	}
	return t
}

// run works until ctx is done, and then returns nil. What fails is told to Hooks.Retried and tried again.
func (t *tracking) run(ctx context.Context) error {
	clock := loop.ClockOf(ctx)
	poll := t.o.Config.LeaseManagement.FailoverTime / 4
	timer := clock.NewTimer(0)
	defer timer.Stop()
	defer t.jobs.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.again:
		case <-t.d.created:
			t.sleeper = true
		}
		timer.Reset(min(poll, t.pass(ctx, clock)))
	}
}

// job does something that may wait; what it returns is called by the goroutine of run afterwards.
func (t *tracking) job(f func() (after func(now time.Time))) {
	t.jobs.Go(func() {
		after := f()
		t.mu.Lock()
		t.results = append(t.results, after)
		t.mu.Unlock()
		select {
		case t.again <- struct{}{}:
		default:
		}
	})
}

// pass starts what is due, and returns when to come again.
func (t *tracking) pass(ctx context.Context, clock *loop.Clock) (wait time.Duration) {
	now := clock.Now()
	t.mu.Lock()
	results := t.results
	t.results = nil
	t.mu.Unlock()
	for _, after := range results {
		after(now)
	}
	if !t.asking && !now.Before(t.nextAsk) {
		t.ask(ctx, now)
	}
	wait = t.o.Config.LeaseManagement.FailoverTime / 4
	if !t.asking {
		wait = min(wait, t.nextAsk.Sub(now))
	}
	if t.sleeper { // leases were created: nobody would look before it is time to
		if soon := t.woken.Add(wakeGap).Sub(now); soon <= 0 {
			t.woken, t.sleeper = now, false
			t.wake()
		} else {
			wait = min(wait, soon)
		}
	}
	led := t.leading.Swap(t.leads())
	if t.leading.Load() && (!led || now.Sub(t.looked) >= snapshotAge) {
		rows, ok := t.rows()
		t.looked = now
		t.snapshot.Store(&snapshot{leases.ByStream(rows), ok})
	}
	switch {
	case !t.leading.Load():
		if led {
			t.lostLead(ctx)
		}
		return wait
	case !t.tidying && !now.Before(t.nextTidy):
		t.tidy(ctx)
	}
	start, next := t.due(ctx, now)
	if start == nil {
		return min(wait, next)
	}
	start()
	return min(wait, jobGap)
}

// lostLead tells audits and cleanups that this worker is not leading any more, which makes them forget what they saw. One that
// is at work now is told when it has ended.
func (t *tracking) lostLead(ctx context.Context) {
	for _, r := range t.d.all() {
		if !r.busy {
			t.notLeading(ctx, r)
		}
		if !t.tidying {
			r.cleanup.Forget()
		}
	}
}

func (t *tracking) notLeading(ctx context.Context, r *reading) {
	r.next = time.Time{}
	r.audit.Step(ctx)
}

// due is a job that is to be started now: a look for an identifier, or an audit; nil if there is none before next has passed.
// Each worker begins its search at another stream, so that several which lead an empty table do not do the same.
func (t *tracking) due(ctx context.Context, now time.Time) (job func(), next time.Duration) {
	next = time.Minute
	for i := range t.wanted {
		w := t.wanted[(t.turn+i)%len(t.wanted)]
		if w.fault != nil {
			continue
		}
		if n := t.naming(w.cfg); w.cfg.CreationEpoch == 0 || w.id.AccountID == "" {
			if !n.busy && !now.Before(n.next) {
				n.busy = true
				return func() { t.name(ctx, w, n) }, 0
			}
			if !n.busy {
				next = min(next, n.next.Sub(now))
			}
		}
		if !w.whole {
			continue
		}
		r := t.d.at(w.id)
		if !r.busy && !now.Before(r.next) {
			r.busy = true
			t.turn += i + 1
			return func() { t.audit(ctx, r) }, 0
		}
		if !r.busy {
			next = min(next, r.next.Sub(now))
		}
	}
	return nil, next
}

// audit makes one step of a stream's audit.
func (t *tracking) audit(ctx context.Context, r *reading) {
	t.job(func() func(time.Time) {
		again := r.audit.Step(ctx)
		return func(now time.Time) {
			r.busy, r.next = false, now.Add(again)
			if !t.leading.Load() {
				t.notLeading(ctx, r)
			}
		}
	})
}

func (t *tracking) naming(cfg config.StreamConfig) *naming {
	id, _ := cfg.Identifier()
	n := t.named[id]
	if n == nil {
		n = &naming{back: loop.Backoff{Base: time.Second, Max: time.Minute}}
		t.named[id] = n
	}
	return n
}

// name asks the service for a stream's identifier.
func (t *tracking) name(ctx context.Context, w wanted, n *naming) {
	t.job(func() func(time.Time) {
		id, err := t.o.Streams.Resolve(ctx, w.cfg)
		return func(now time.Time) {
			n.busy = false
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				n.back.Reset()
				n.next = now.Add(loop.Jitter(max(askInterval, time.Duration(len(t.wanted))*resolveGap), 0.2))
			default:
				wait := n.back.Next()
				n.next = now.Add(wait)
				t.retried("look up the identifier of a stream", err, n.back.Tries(), wait)
				var found bool
				if id, found = t.fallback(w, err); !found {
					return
				}
			}
			t.rename(w.cfg, id)
		}
	})
}

// fallback is the identifier of a stream that the service may not be asked about: that of the newest leases with its name.
func (t *tracking) fallback(w wanted, err error) (newest config.StreamIdentifier, found bool) {
	if w.whole || !errors.Is(err, shardsync.ErrNotAllowed) {
		return newest, false
	}
	for key := range t.snapshot.Load().byStream {
		if id, err := config.ParseStreamIdentifier(key); err == nil && w.is(id) && id.CreationEpoch > newest.CreationEpoch {
			newest, found = id, true
		}
	}
	return newest, found
}

// rename takes in which identifier a stream has: at first, or since it was deleted and created anew.
func (t *tracking) rename(cfg config.StreamConfig, id config.StreamIdentifier) {
	i := slices.IndexFunc(t.wanted, func(w wanted) bool { return w.cfg == cfg })
	if i < 0 || t.wanted[i].whole && t.wanted[i].id == id {
		return
	}
	old := t.wanted[i]
	t.wanted[i].id, t.wanted[i].whole = id, true
	t.d.want(t.wanted)
	if old.whole { // it was deleted and created anew
		t.told(t.o.Config.Hooks.StreamRemoved, old)
		t.told(t.o.Config.Hooks.StreamAdded, t.wanted[i])
	}
}

// part looks for streams whose leases may go, and has the leader delete them.
func (t *tracking) part(ctx context.Context, now time.Time, listed []string) {
	rows, ok := t.rows()
	if !ok || t.deleting {
		return
	}
	byStream := leases.ByStream(rows)
	var ids []string
	for key := range byStream {
		ids = append(ids, key)
	}
	wanted := func(key string) bool {
		id, err := config.ParseStreamIdentifier(key)
		return err != nil || t.d.isWanted(id)
	}
	policy := t.o.Config.FormerStreams
	listed = append(slices.Clone(policy.Listed), listed...)
	never := func(string) bool { return false }
	t.former = t.former.look(now, policy, listed, ids, wanted, never)
	t.prune(byStream)
	if !t.leading.Load() || len(t.former.Since) == 0 || policy.Deletion == config.KeepLeases {
		return
	}
	former := t.former
	t.deleting = true
	t.job(func() func(time.Time) {
		gone := t.deletedStreams(ctx, former)
		due := former.look(now, policy, listed, ids, wanted, func(id string) bool { return gone[id] }).Due
		failed := map[string]error{}
		for _, id := range due {
			if ctx.Err() == nil && t.leads() && !wanted(id) {
				failed[id] = t.remove(ctx, id)
			}
		}
		return func(time.Time) {
			t.deleting = false
			t.removed(ctx, failed)
		}
	})
}

// prune forgets streams that are neither wanted nor have leases.
func (t *tracking) prune(byStream map[string][]leases.Lease) {
	for _, r := range t.d.all() {
		if _, there := byStream[r.id.String()]; !there && !r.busy && !t.d.isWanted(r.id) {
			t.d.forget(r.id)
		}
	}
}

// checksInARound bounds how many former streams the service is asked about in a minute.
const checksInARound = 20

// deletedStreams are those former streams that the service does not know any more.
func (t *tracking) deletedStreams(ctx context.Context, former formerStreams) map[string]bool {
	gone := map[string]bool{}
	checks := 0
	for key := range former.Since {
		id, err := config.ParseStreamIdentifier(key)
		if err != nil || slices.Contains(former.Due, key) || checks >= checksInARound {
			continue
		}
		checks++
		bounded, cancel := loop.Timeout(ctx, 5*time.Second, "look whether stream "+key+" exists")
		gone[key] = errors.Is(t.d.at(id).Check(bounded), shardsync.ErrStreamNotFound)
		cancel()
	}
	return gone
}

// removed takes in how the deletion of former streams' leases went. Of those that were not tried nothing is known any more.
func (t *tracking) removed(ctx context.Context, failed map[string]error) {
	before := t.kept
	t.kept = map[string]int{}
	for id, err := range failed {
		if err != nil && ctx.Err() == nil {
			t.kept[id] = before[id] + 1
			t.retried("delete the leases of a former stream", fmt.Errorf("stream %s: %w", id, err), t.kept[id], askInterval)
		}
	}
}

// remove deletes the leases of a former stream. Whoever holds one is told by its next renewal.
func (t *tracking) remove(ctx context.Context, identifier string) error {
	table := t.o.Table.OfStream(identifier)
	rows, err := table.List(ctx)
	if err != nil {
		return err
	}
	for _, l := range rows.Leases {
		if err := t.removeRow(ctx, table, l.Key); err != nil {
			return fmt.Errorf("shard %s: %w", l.Key, err)
		}
	}
	return nil
}

// removeRow deletes one row as it is now. Its owner may write between the look and the deletion.
func (t *tracking) removeRow(ctx context.Context, table *leases.StreamTable, shard string) error {
	const tries = 5
	for try := 1; ; try++ {
		row, there, err := table.Get(ctx, shard)
		if err != nil || !there {
			return err
		}
		err = table.Delete(ctx, row)
		if err == nil {
			if f := t.o.Config.Hooks.LeaseDeleted; f != nil {
				f(config.LeaseEvent{Worker: t.o.Config.WorkerID, LeaseKey: table.Key(shard), Counter: row.Counter, Reason: "its stream is not to be read any more"})
			}
			return nil
		}
		if !errors.Is(err, leases.ErrLeaseLost) || try == tries {
			return err
		}
	}
}

// tidy makes one pass of cleanup over every stream that has leases.
func (t *tracking) tidy(ctx context.Context) {
	t.tidying = true
	every := t.o.Config.Cleanup.Interval
	byStream := t.snapshot.Load().byStream
	t.job(func() func(time.Time) {
		var last error
		for key, rows := range byStream {
			id, err := config.ParseStreamIdentifier(key)
			if err != nil || !slices.ContainsFunc(rows, leases.Lease.Finished) || ctx.Err() != nil {
				continue
			}
			pass, cancel := loop.Timeout(ctx, time.Minute, "clean up leases of stream "+key)
			_, err = t.d.at(id).cleanup.Pass(pass)
			cancel()
			if err != nil && ctx.Err() == nil {
				last = fmt.Errorf("stream %s: %w", key, err)
			}
		}
		return func(now time.Time) {
			wait := loop.Jitter(every, 0.1)
			t.tidying, t.nextTidy = false, now.Add(wait)
			if !t.leading.Load() {
				for _, r := range t.d.all() {
					r.cleanup.Forget()
				}
			}
			if last == nil {
				t.untidy = 0
				return
			}
			t.untidy++
			t.retried("clean up leases", last, t.untidy, wait)
		}
	})
}

func (t *tracking) retried(what string, err error, attempt int, wait time.Duration) {
	if f := t.o.Config.Hooks.Retried; f != nil {
		f(config.RetryEvent{Worker: t.o.Config.WorkerID, What: what, Attempt: attempt, Wait: wait, Err: err})
	}
}
