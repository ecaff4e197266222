package leases

import (
	"context"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// look reads the table, or a part of it, and acts on that. It returns when to look again.
//
// What to read, and how much of it, is the Reader's to say; most looks at a part of the table lead to nothing but the next one.
func (t *LeaseTaker) look(ctx context.Context) (next time.Duration, err error) {
	clock := loop.ClockOf(ctx)
	began := clock.Now()
	event := config.LookEvent{Worker: t.opts.Worker}
	defer func() {
		if f := t.hooks.WorkerLooked; f != nil && ctx.Err() == nil {
			event.Elapsed, event.Err = clock.Since(began), err
			f(event)
		}
	}()
	scope := t.reader.Scope()
	listing, err := t.list(ctx, scope)
	if err != nil {
		return 0, err
	}
	at := clock.Now() // after the answer: nothing that it shows is younger
	if err := t.findNamesake(listing.Leases, at); err != nil {
		return 0, err
	}
	rows := t.renewer.overlaid(t.marked(listing.Leases))
	view := t.see(func(v View) View {
		t.reader, v = t.reader.Look(v, scope, rows, listing.ReadUnits, at, t.cfg)
		if !scope.Whole() {
			v = v.Own(t.renewer.own(), at)
		}
		return v
	})
	if scope.Whole() {
		t.compareFailover(listing.Leases, at)
	}
	t.resume(ctx, view)
	var moves Moves
	t.reader, moves, next = t.reader.Plan(t.opts.Worker, t.wanted(view), t.cfg, t.opts.Strategy)
	if moves.Workers > 0 { // it was looked at for a plan
		t.planned = moves
		t.lacking(ctx, at)
	}
	event.Leases, event.Workers, event.Held, event.Target = view.Len(), t.planned.Workers, t.planned.Held, t.planned.Target
	event.Unassigned = t.planned.Unassigned
	moves.Take = append(t.strays(view), t.unasked(moves.Take)...)
	moves.Ask = t.unasked(moves.Ask)
	if moves.Workers > 0 {
		t.forgetFailures(moves)
	}
	next = t.spread(next)
	if t.execute(ctx, moves) {
		next = min(next, paceOf(t.cfg.FailoverTime).fast)
	}
	return next, nil
}

// compareFailover reports peers whose failover time is not ours.
func (t *LeaseTaker) compareFailover(rows []Lease, at time.Time) {
	for _, o := range t.rhythms.look(rows, at) {
		if f := t.hooks.FailoverDiffers; f != nil {
			f(config.FailoverEvent{Worker: t.opts.Worker, Peer: o.peer, Java: o.java, Own: t.cfg.FailoverTime, Peers: o.time})
		}
	}
}

// maxPatience bounds how long a listing may take, in LeaseTakerIntervals.
const maxPatience = 12

// list reads the table, or a part of it. Rows that expire meanwhile need single reads only: they do not wait for a listing that is
// slow or does not get through.
//
// A large table, or a slow way to it, may need longer for a listing than passes between two looks. So the time that a listing may
// take doubles when one was given up, and follows what the last one took.
func (t *LeaseTaker) list(ctx context.Context, scope Scope) (listing Listing, err error) {
	clock := loop.ClockOf(ctx)
	began := clock.Now()
	limit := max(t.patience, t.cfg.LeaseTakerInterval)
	bounded, cancel := loop.Timeout(ctx, limit, "list leases")
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		listing, err = t.table.ListScope(bounded, scope)
	}()
	expiring := clock.NewTimer(t.untilExpiry(clock))
	defer expiring.Stop()
	for {
		select {
		case <-done:
			switch {
			case err == nil:
				t.patience = min(2*clock.Since(began), maxPatience*t.cfg.LeaseTakerInterval)
			case bounded.Err() != nil && ctx.Err() == nil:
				t.patience = min(2*limit, maxPatience*t.cfg.LeaseTakerInterval)
			}
			return listing, err
		case <-expiring.C:
			again := t.expire(ctx)
			expiring.Reset(max(again, t.untilExpiry(clock), shortest(t.cfg)))
		}
	}
}

// spread draws the time of the next look, so that a fleet does not look in step: up to a tenth sooner while something is going on,
// up to a tenth later while all is calm, when looks are most of what is asked of the table beside renewals.
func (t *LeaseTaker) spread(next time.Duration) time.Duration {
	if next == t.cfg.LeaseTakerInterval {
		next += next / 10
	}
	return loop.Jitter(next, 0.1)
}

// wanted is the view without the rows that this worker must not take.
func (t *LeaseTaker) wanted(view View) View {
	if t.opts.Busy == nil {
		return view
	}
	for _, key := range t.opts.Busy() {
		if _, held := t.renewer.Get(key); !held {
			view = view.Gone(key)
		}
	}
	return view
}

// lacking warns, once each time that it begins, that leases stay unread because everybody is at its limit. It waits for a
// FailoverTime: others may be about to start.
func (t *LeaseTaker) lacking(ctx context.Context, at time.Time) {
	switch n := t.planned.Unassigned; {
	case n == 0:
		t.full, t.warned = time.Time{}, false
	case t.full.IsZero():
		t.full = at
	case !t.warned && at.Sub(t.full) >= t.cfg.FailoverTime:
		t.warned = true
		t.log.WarnContext(ctx, "leases stay unread because every worker in sight is at its limit",
			"leases", n, "workers", t.planned.Workers, "limit", t.cfg.MaxLeasesForWorker)
	}
}

// Glance looks at the table without acting on what it shows, after Run has returned: see [LeaseTaker.View]. A look that fails
// changes nothing.
func (t *LeaseTaker) Glance(ctx context.Context) {
	list, cancel := loop.Timeout(ctx, t.cfg.LeaseTakerInterval, "list leases")
	defer cancel()
	listing, err := t.table.List(list)
	if err != nil {
		return
	}
	at := loop.ClockOf(ctx).Now()
	t.see(func(v View) View { return v.Look(t.renewer.overlaid(listing.Leases), at) })
}
