package leases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// asking is one lease that this worker has asked its owner for, until it is ours, or somebody else's.
//
// Some goroutine follows it: of Run as long as the worker wants leases, then of Settle. Only it touches the fields, but row,
// which the taker's mutex guards.
type asking struct {
	row     Lease // as last read
	since   time.Time
	counter int64     // when we asked: what the owner's next write moves
	claim   *claim    // the try to own it, once there was one
	noticed time.Time // when we first saw that the owner has written since, and so knows; zero if it has not
}

// noticeTime is how often the row is read before its owner has noticed that it is asked for, and how long an owner goes on at
// least after its counter has moved, so that the one who asks reads often when it matters. Reading often all the time would
// cost a fleet that grows tenfold more than everything else together.
func noticeTime(failover time.Duration) time.Duration { return paceOf(failover).fast }

// pollTime is how often the row is read after that: what a shard stands still for, at most, besides writes.
func pollTime(failover time.Duration) time.Duration {
	return min(100*time.Millisecond, noticeTime(failover)/2)
}

// NoticeTime is how long an owner that has learnt that it is asked for a lease goes on before it stops, so that the one who asked
// notices and is quick when the row is handed over.
func NoticeTime(cfg config.LeaseManagementConfig) time.Duration { return noticeTime(cfg.FailoverTime) }

// HandoffGrace is how long the processor of an owner that was asked for a lease may take to finish. It ends before the one who
// asked, whose GracefulHandoffTimeout began up to a RenewInterval earlier, takes the lease by its counter.
func HandoffGrace(cfg config.LeaseManagementConfig) time.Duration {
	all := cfg.GracefulHandoffTimeout
	return max(all-toLearn(cfg), all/2)
}

// toLearn is how long it takes until an owner knows that it was asked: its next renewal, and a little for a slow one.
func toLearn(cfg config.LeaseManagementConfig) time.Duration {
	return cfg.RenewInterval + cfg.FailoverTime/20
}

// patience is how long the one who asked waits at least before it takes the lease by its counter: GracefulHandoffTimeout, but
// never less than FailoverTime. By then no owner acts that does not know that it was asked:
//
//  1. Its right to act counts from the last write of which it got an answer.
//  2. If that write landed after the ask, the answer has shown the mark.
//  3. If before, it was sent before the ask landed, and the right ends within a FailoverTime of that.
func patience(cfg config.LeaseManagementConfig) time.Duration {
	return max(cfg.GracefulHandoffTimeout, cfg.FailoverTime)
}

// overdue reports whether an owner that knows has had its time. One whose counter has not moved does not know: its row becomes
// stale soon, if it does not learn.
func (a *asking) overdue(now time.Time, cfg config.LeaseManagementConfig) bool {
	wait := patience(cfg)
	if a.row.TenureSpeaks() { // an owner may have been promised more than we would grant
		wait = max(wait, a.row.Tenure.Failover)
	}
	return !a.noticed.IsZero() && now.Sub(a.since) >= wait && now.Sub(a.noticed) >= HandoffGrace(cfg)+cfg.FailoverTime/20
}

// ask gets a live owner's lease: a Go worker is asked to hand it over, and the row followed until it has. A Java worker cannot
// be asked; its lease is taken by the counter, after reading it once more: the owner that was to give something must still
// have it.
func (t *LeaseTaker) ask(ctx context.Context, c claim) (claim, bool) {
	if c.first != nil { // a take under way
		return t.finish(ctx, c)
	}
	// A checkpointOwner that is no live mark cannot be asked past: only a take removes it.
	if !c.seen.TenureSpeaks() || c.seen.CheckpointOwner != "" && !c.seen.MarkIsLive() {
		now, ok := t.read(ctx, c.seen)
		if !ok || now.Owner != c.seen.Owner || now.CheckpointOwner != c.seen.CheckpointOwner || now.TenureSpeaks() != c.seen.TenureSpeaks() {
			return claim{}, false
		}
		c.seen = now
		return t.finish(ctx, c)
	}
	what := "ask for lease " + c.seen.Key
	outlive, end := loop.Outlive(ctx, lastWrite, what)
	defer end()
	asking, cancel := loop.Timeout(outlive, t.cfg.FailoverTime/2, what)
	defer cancel()
	row, err := t.renewer.table.StartHandoff(asking, c.seen, t.opts.Worker)
	switch {
	case errors.Is(err, ErrLeaseLost):
		t.log.DebugContext(ctx, "the lease cannot be asked for any more", "lease", c.seen.Key, "err", err)
		return claim{}, false
	// 1. We ask; it lands, and there is no answer.
	// 2. We are told to stop, and see no mark of ours that we would have to wait for.
	// 3. The owner hands over to a worker that is gone.
	// So the row is followed all the same; the next reading tells whether there is anything to follow.
	case err != nil:
		if ctx.Err() == nil {
			t.rowFailed("ask for lease", c.seen.Key, err)
		}
		t.follow(ctx, c.seen)
		return claim{}, false
	}
	t.rowDone(row.Key)
	now := loop.ClockOf(ctx).Now()
	t.see(func(v View) View { return v.Row(row, now) })
	t.follow(ctx, row)
	return claim{}, true
}

// follow follows a row that bears our mark, or may bear it, unless that is being done.
func (t *LeaseTaker) follow(ctx context.Context, row Lease) {
	now := loop.ClockOf(ctx).Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked[row.Key] != nil {
		return
	}
	a := &asking{row: row, since: now, counter: row.Counter}
	t.asked[row.Key] = a
	t.followers.Go(func() { t.pursue(ctx, a, false) })
}

// resume follows the rows of a look that bear a mark of ours and are not being followed: those that were asked for by a
// request whose answer was lost, or by an earlier process with our worker id.
func (t *LeaseTaker) resume(ctx context.Context, view View) {
	for _, s := range view.rows {
		l := s.Lease
		if l.HandoffTo == t.opts.Worker && (l.MarkIsLive() && l.CheckpointOwner != t.opts.Worker || l.InTransit()) {
			if _, held := t.renewer.Get(l.Key); !held {
				t.follow(ctx, *l)
			}
		}
	}
}

// asks returns what is being followed, by key.
func (t *LeaseTaker) asks() []*asking {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*asking, 0, len(t.asked))
	for _, a := range t.asked {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *asking) int { return strings.Compare(a.row.Key, b.row.Key) })
	return all
}

// unasked are the leases that are not being followed: nothing else may be done about those that are.
func (t *LeaseTaker) unasked(leases []Lease) []Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(leases), func(l Lease) bool { return t.asked[l.Key] != nil })
}

// marked returns the rows of a listing, those that are being followed as last read: a replica that is late shows them without
// our mark, and the counter does not tell.
func (t *LeaseTaker) marked(listed []Lease) []Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range listed {
		if a := t.asked[l.Key]; a != nil && l.Counter <= a.row.Counter {
			listed[i] = a.row
		}
	}
	return listed
}

// Settle waits, after Run has returned, until what was asked for before has been handed over, and releases it at once: an owner
// that hands over to a worker that is gone would leave the shard unread until the row is stale. It ends with ctx, and when an owner's time
// is over (see patience) in any case, also if the rows cannot be read.
func (t *LeaseTaker) Settle(ctx context.Context) {
	var group sync.WaitGroup
	for _, a := range t.asks() {
		group.Go(func() { t.pursue(ctx, a, true) })
	}
	group.Wait()
}

// pursue reads a row that was asked for until it is ours or somebody else's, or ctx ends; then it may be called again. If
// leaving, what it gets it releases.
func (t *LeaseTaker) pursue(ctx context.Context, a *asking, leaving bool) {
	clock := loop.ClockOf(ctx)
	for {
		pause := noticeTime(t.cfg.FailoverTime)
		if !a.noticed.IsZero() || a.row.InTransit() {
			pause = pollTime(t.cfg.FailoverTime)
		}
		if clock.Sleep(ctx, pause) != nil {
			return
		}
		if t.attempt(ctx, a, leaving) || leaving && clock.Since(a.since) >= patience(t.cfg) {
			t.mu.Lock()
			delete(t.asked, a.row.Key)
			t.mu.Unlock()
			return
		}
	}
}

// attempt looks at the row once and does what it calls for. It reports whether nothing is left to be done.
func (t *LeaseTaker) attempt(ctx context.Context, a *asking, leaving bool) (done bool) {
	if a.claim != nil && !leaving { // whether it is ours already is what the next call finds out
		return t.own(ctx, a)
	}
	key := a.row.Key
	row, ok := t.read(ctx, a.row)
	if !ok {
		return t.View().Get(key).Knowledge == Unseen // the row is gone
	}
	t.mu.Lock()
	a.row = row
	t.mu.Unlock()
	now := loop.ClockOf(ctx).Now()
	if a.noticed.IsZero() && row.Counter != a.counter {
		a.noticed = now
	}
	switch next := t.nextOf(a, row, now); {
	case leaving && a.claim != nil && a.claim.me.ours(row):
		return t.freed(ctx, row, a.claim.me)
	case next == askWait:
		return false
	case next == askLost:
		return true
	case leaving && row.MarkIsLive(): // stale, or its time is over: for others to take
		return true
	case leaving:
		return t.freed(ctx, row, t.renewer.claim(row).me)
	}
	c := t.renewer.claim(row)
	a.claim = &c
	return t.own(ctx, a)
}

// askStep is what a row that was asked for calls for.
type askStep int

const (
	askWait askStep = iota // its owner goes on
	askOwn                 // it is ours, or nobody hands it over: make it ours
	askLost                // it is somebody else's
)

// nextOf decides what to do about a row that was asked for. Each way in which a hand-off can get stuck ends here:
//
//   - The owner has handed over: nobody reads the shard, and all wait for us.
//   - The owner is dead: the row becomes stale, as any other.
//   - The owner lives and its processor does not finish: when its time is over (see overdue) the lease is taken by its counter,
//     which fences the owner.
//   - A Java worker has written under the mark, which is dead by that: we are leaseOwner, and nobody will hand over.
func (t *LeaseTaker) nextOf(a *asking, row Lease, now time.Time) askStep {
	switch {
	case row.Owner != t.opts.Worker || row.HandoffTo != t.opts.Worker:
		return askLost
	case !row.MarkIsLive():
		return askOwn
	case a.overdue(now, t.cfg), t.View().Get(row.Key).Knowledge == Stale:
		return askOwn
	}
	return askWait
}

// own makes the row ours: by the first renewal of a row that was handed over, else by a take.
func (t *LeaseTaker) own(ctx context.Context, a *asking) (done bool) {
	before := a.claim.me.Nonce
	c, ok := t.finish(ctx, *a.claim)
	switch {
	case ok:
		return true
	case c.first != nil: // no answer; the same claim finds out
		a.claim = &c
		return false
	}
	// Somebody has written in between; perhaps only the owner, by a renewal under the mark. The next reading tells.
	t.log.DebugContext(ctx, "the lease that was asked for has changed", "lease", a.row.Key, "nonce", before)
	a.claim = nil
	return false
}

// freed gives up a row that came to us when we do not want it any more.
func (t *LeaseTaker) freed(ctx context.Context, row Lease, me Tenure) (done bool) {
	write, cancel := loop.Timeout(ctx, t.cfg.FailoverTime/2, "give back lease "+row.Key)
	defer cancel()
	_, err := t.renewer.giveUp(write, row, me)
	if err == nil || errors.Is(err, ErrLeaseLost) {
		return true
	}
	t.retried("give back lease", row.Key, 1, 0, err)
	return false
}
