package shardsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// PeriodicOptions are what a [PeriodicShardSyncManager] works with.
type PeriodicOptions struct {
	Interval   time.Duration // between two audits; default 120s
	Confidence int           // in how many audits in a row the same hole must be seen; default 3
	// IsLeader reports whether this worker audits for the fleet. It is asked about four times in a FailoverTime. More than one
	// leader does no harm; nil means that this worker always leads.
	IsLeader func() bool
	// Rows are the stream's leases as this worker last saw them, ok is false if it has not seen them yet. They only tell
	// whether to look closer, so they may be some seconds old. The slice is not changed.
	Rows func() (have []leases.Lease, ok bool)
}

// PeriodicShardSyncManager audits the lease table: it looks for a part of the ring of hash keys that no unfinished lease
// covers, and creates what is missing there, as [DetermineNewLeases] says. A ring that is whole costs no request. Leases
// without a range of hash keys, which early KCL versions made, get theirs from a listing.
//
// Only the leader audits. Nothing depends on there being exactly one: several, each of which may die at any time, leave the
// same table as one. (KCL: PeriodicShardSyncManager)
type PeriodicShardSyncManager struct {
	syncer   *HierarchicalShardSyncer
	opts     PeriodicOptions
	requests chan struct{}
	watch    watch // of Run, or Step
}

// NewPeriodicShardSyncManager makes a manager that repairs with s, whose Stream, Worker, Logger and Hooks (LeaseCreated,
// Synced, Retried) are also the manager's. It does no I/O.
func NewPeriodicShardSyncManager(s *HierarchicalShardSyncer, opts PeriodicOptions) *PeriodicShardSyncManager {
	if opts.Interval <= 0 {
		opts.Interval = 120 * time.Second
	}
	if opts.Confidence <= 0 {
		opts.Confidence = 3
	}
	if opts.IsLeader == nil {
		opts.IsLeader = func() bool { return true }
	}
	return &PeriodicShardSyncManager{syncer: s, opts: opts, requests: make(chan struct{}, 1)}
}

// Request makes the leader compare the table with the ring soon, and repair a hole at once. It never blocks. A request that
// arrives while an audit runs is followed by another audit; many of them by one. In a worker that does not lead it does
// nothing: when it comes to lead, it audits anyway.
func (m *PeriodicShardSyncManager) Request() {
	select {
	case m.requests <- struct{}{}:
	default:
	}
}

// requestGap is the least time between two audits that were asked for.
const requestGap = time.Second

// watch is what is remembered between two steps.
type watch struct {
	leading   bool
	sure      bool // the next audit needs no second one
	requested bool
	audit     audit
	last      time.Time // when the last audit ended
	next      time.Time // when the next one is due
	pause     loop.Backoff
	over      error // for good
}

// Run audits every Interval while this worker leads, and at once when it comes to lead, until ctx is done; then it returns
// nil. It ends with a *[PermanentError] that wraps [ErrStreamNotFound] if a stream by lineage is gone and all of its leases are
// finished: nobody reads it then who would notice. What else fails is told to Hooks.Synced and Hooks.Retried and tried again, after pauses that grow up to an Interval; after an
// Interval if it is a *[PermanentError]. Shards that have leases are read meanwhile. Call it once.
func (m *PeriodicShardSyncManager) Run(ctx context.Context) error {
	clock := loop.ClockOf(ctx)
	timer := clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-m.requests:
			m.watch.requested = true
		}
		timer.Reset(m.step(ctx, clock, &m.watch))
		if m.watch.over != nil {
			return m.watch.over
		}
	}
}

// Step does what Run does once, and returns when it is to be called again: for a worker of several streams, whose loop calls
// it for each of them, and at once when this worker comes to lead or does not lead any more. Steps of one manager must not
// overlap; call Run or Step, not both.
func (m *PeriodicShardSyncManager) Step(ctx context.Context) (again time.Duration) {
	select {
	case <-m.requests:
		m.watch.requested = true
	default:
	}
	clock := loop.ClockOf(ctx)
	again = m.step(ctx, clock, &m.watch)
	if m.watch.leading { // the caller watches that
		again = max(m.watch.next.Sub(clock.Now()), 0)
	}
	return again
}

// step audits if it is time to, and returns when to come again.
func (m *PeriodicShardSyncManager) step(ctx context.Context, clock *loop.Clock, w *watch) time.Duration {
	poll := m.syncer.opts.FailoverTime / 4
	if !m.opts.IsLeader() {
		*w = watch{}
		return poll
	}
	now := clock.Now()
	if !w.leading {
		// The audits of the leader before are lost with it. Leaders that change often would never be sure.
		*w = watch{leading: true, sure: true, requested: w.requested, next: now, pause: loop.Backoff{Base: min(5*time.Second, m.opts.Interval), Max: m.opts.Interval}}
	}
	if w.requested {
		if at := w.last.Add(requestGap); at.Before(w.next) {
			w.next = at
		}
	}
	if !now.Before(w.next) {
		m.turn(ctx, clock, w)
	}
	return min(poll, max(w.next.Sub(clock.Now()), 0))
}

// turn makes one audit and says when the next one is due.
func (m *PeriodicShardSyncManager) turn(ctx context.Context, clock *loop.Clock, w *watch) {
	asked := w.requested
	have, ok := m.opts.Rows()
	if !ok && !asked {
		w.next = clock.Now().Add(m.syncer.opts.FailoverTime / 4)
		return
	}
	w.sure = w.sure || asked
	w.requested = false // one that arrives from here on waits in the channel
	ev := config.SyncEvent{Worker: m.syncer.opts.Worker, Stream: m.syncer.opts.Stream}
	start := clock.Now()
	err := m.once(ctx, w, have, asked, &ev)
	w.last = clock.Now()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = fmt.Errorf("audit the leases of stream %q: %w", m.syncer.opts.Stream, err)
	}
	ev.Elapsed, ev.Err = w.last.Sub(start), err
	if err != nil {
		ev.Attempt = w.pause.Tries() + 1
		if m.over(ctx, err) {
			w.over = err
		}
	}
	if f := m.syncer.opts.Hooks.Synced; f != nil {
		f(ev)
	}
	wait := loop.Jitter(m.opts.Interval, 0.1)
	if err == nil {
		w.sure = false
		w.pause.Reset()
		w.next = w.last.Add(wait)
		return
	}
	soon := w.pause.Next()
	if _, permanent := errors.AsType[*PermanentError](err); !permanent {
		wait = soon
	}
	w.next = w.last.Add(wait)
	if f := m.syncer.opts.Hooks.Retried; f != nil {
		f(config.RetryEvent{Worker: m.syncer.opts.Worker, What: "audit leases", Attempt: w.pause.Tries(), Wait: wait, Err: err})
	}
}

// over reports whether an audit's error ends everything: the stream is gone, and nothing is left to read or to hand over. While a lease
// is not finished its reader finds out by itself, once its processor has had everything that was read before.
func (m *PeriodicShardSyncManager) over(ctx context.Context, err error) bool {
	if !m.syncer.opts.ByLineage || !errors.Is(err, ErrStreamNotFound) {
		return false
	}
	have, err := m.syncer.rows(ctx)
	return err == nil && !slices.ContainsFunc(have, func(l leases.Lease) bool { return !l.Finished() })
}

// once is one audit. Whoever asked for one knows more than the rows that were last seen, so the table is read.
func (m *PeriodicShardSyncManager) once(ctx context.Context, w *watch, have []leases.Lease, asked bool, ev *config.SyncEvent) (err error) {
	if asked {
		if have, err = m.syncer.rows(ctx); err != nil {
			return err
		}
	}
	ev.Leases = len(have)
	if w.sure {
		m.syncer.warnOfOtherPosition(have)
	}
	if have, err = m.syncer.fillRanges(ctx, have, ev); err != nil {
		return err
	}
	needed := m.opts.Confidence
	if w.sure || m.syncer.opts.ByLineage {
		needed = 1
	}
	w.audit = w.audit.look(have, needed)
	if w.audit.state != confirmed {
		return nil
	}
	return m.syncer.repair(ctx, ev)
}
