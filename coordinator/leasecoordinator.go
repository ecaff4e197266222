package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

const (
	// modeCheckInterval is how often KCL's mode is read. That of KCL 3.5 stands in the lease table, where looks show it, and is read
	// by itself only where looks may take longer or show parts. That of KCL 3.0 to 3.4 stands in a table of its own: it is read by
	// all while Java workers are in sight, else by the leader, and by the others in each idleModeChecks'th interval only. A worker
	// that has found out stops, and another one leads.
	modeCheckInterval = time.Minute
	idleModeChecks    = 10
	// startBase and startMax bound the pauses between tries to start. A fleet that waits for its table tries every few
	// seconds, so that it goes on soon after the table is back.
	startBase = 200 * time.Millisecond
	startMax  = 5 * time.Second
)

// LeaseCoordinator gets leases and keeps them: it makes the table usable, regains what is ours, and looks for more. Every
// lease that it gets goes to the consumers. (KCL: LeaseCoordinator)
type LeaseCoordinator struct {
	o       Options
	renewer *leases.LeaseRenewer
	taker   *leases.LeaseTaker
	leader  LeaderDecider
	audit   *shardsync.PeriodicShardSyncManager // of the only stream
	cleanup *cleanup.LeaseCleanupManager        // likewise
	several *tracking                           // of several streams
	got     func(*leases.Held)
}

// newLeaseCoordinator wires renewer, taker and consumers of one run. User code's contexts end with user.
func newLeaseCoordinator(user context.Context, o Options, shards *consumers) *LeaseCoordinator {
	c := &LeaseCoordinator{o: o, got: func(h *leases.Held) { shards.start(user, h) }}
	cfg := o.Config
	c.renewer = leases.NewRenewer(o.Table, cfg.LeaseManagement, leases.RenewerOptions{
		Worker: cfg.WorkerID, Logger: cfg.Logger, Hooks: cfg.Hooks, Lost: shards.dropped,
		Asked: func(h *leases.Held) { shards.asked(user, h) },
	})
	c.taker = leases.NewTaker(o.Table, c.renewer, cfg.LeaseManagement, leases.TakerOptions{
		Worker: cfg.WorkerID, Strategy: o.Strategy, Logger: cfg.Logger, Hooks: cfg.Hooks, Acquired: c.got,
		Pin:  func(l leases.Lease) int64 { return c.pin(shards.streams.of(l), l) },
		Busy: shards.lost,
	})
	c.leader = NewDeterministicLeader(cfg.WorkerID, c.taker.View)
	if o.Streams != nil {
		c.several = newTracking(shards.streams, o, c.rows, c.leader.IsLeader, c.taker.Wake)
	} else {
		c.audit = shardsync.NewPeriodicShardSyncManager(o.Stream.Syncer, shardsync.PeriodicOptions{
			Interval: cfg.LeaseManagement.ShardSyncInterval, Confidence: cfg.LeaseManagement.ShardSyncConfidence,
			IsLeader: c.leader.IsLeader, Rows: c.rows,
		})
		c.cleanup = cleanup.NewLeaseCleanupManager(o.Table, cfg.Cleanup, cleanup.Options{
			Worker: cfg.WorkerID, Rows: c.knownRows, IsLeader: c.leader.IsLeader, Shards: o.Stream.Shards, Hooks: cfg.Hooks,
			ByLineage: o.Stream.ByLineage,
		})
	}
	shards.release, shards.forsake, shards.onFinish = c.renewer.Release, c.renewer.Forsake, c.taker.Wake
	return c
}

// seek starts the worker and then looks for leases until ctx ends or a fault is final. It calls started after the first
// look.
func (c *LeaseCoordinator) seek(ctx context.Context, started func()) error {
	if err := c.start(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.taker.Run(ctx) })
	group.Go(func() error { return c.watchMode(ctx) })
	if c.several != nil {
		group.Go(func() error { return c.track(leases.InBackground(ctx)) })
	} else {
		group.Go(func() error { return c.audit.Run(leases.InBackground(ctx)) })
		group.Go(func() error { return c.cleanup.Run(leases.InBackground(ctx)) })
	}
	group.Go(func() error {
		select {
		case <-c.taker.FirstRound():
			started()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return group.Wait()
}

// track looks after several streams, from the first look on.
func (c *LeaseCoordinator) track(ctx context.Context) error {
	select {
	case <-c.taker.FirstRound():
		return c.several.run(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pin is where a lease of a stream starts that is taken for the first time, see [shardsync.HierarchicalShardSyncer.Pin].
func (c *LeaseCoordinator) pin(s *reading, l leases.Lease) int64 {
	return s.Syncer.Pin(l, func() (own []leases.Lease, ok bool) {
		all, ok := c.rows()
		if s.Table == nil {
			return all, ok
		}
		return leases.ByStream(all)[s.Identifier], ok
	})
}

// leave waits, after seek has ended, until peers have asked for everything that this worker holds and it is handed over; at
// most for limit, and no longer than Go workers are in sight that could ask. Everything goes on meanwhile.
func (c *LeaseCoordinator) leave(ctx context.Context, limit time.Duration, shards *consumers) {
	ctx, cancel := loop.Timeout(ctx, limit, "be asked for leases")
	defer cancel()
	for c.taker.View().GoPeers() > 0 {
		pause, cancel := loop.Timeout(ctx, c.o.Config.LeaseManagement.LeaseTakerInterval/2, "look at the peers again")
		idle := shards.idle(pause)
		cancel()
		if idle || ctx.Err() != nil {
			return
		}
		c.taker.Glance(ctx)
	}
}

// rows are the leases as the taker last saw them, ok is false before its first look. What only a leader does needs no
// listing of its own.
func (c *LeaseCoordinator) rows() (rows []leases.Lease, ok bool) {
	seen := c.taker.View().All()
	if len(seen) == 0 {
		select {
		case <-c.taker.FirstRound():
			return nil, true
		default:
			return nil, false
		}
	}
	rows = make([]leases.Lease, 0, len(seen))
	for _, s := range seen {
		rows = append(rows, *s.Lease)
	}
	return rows, true
}

func (c *LeaseCoordinator) knownRows() []leases.Lease {
	rows, _ := c.rows()
	return rows
}

// start does, in this order, what must have happened before this worker may look for leases.
func (c *LeaseCoordinator) start(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"prepare the lease table", c.o.Table.Ensure},
		{"check the table's KCL mode", c.checkMode},
		{"create the first leases", c.sync},
		{"regain leases", c.regain},
	} {
		if err := c.untilDone(ctx, step.what, step.do); err != nil {
			return err
		}
	}
	c.o.Table.LeaveOtherKeysOut()
	return nil
}

// untilDone repeats do until it succeeds, ctx ends, or the error is one that repeating does not cure.
func (c *LeaseCoordinator) untilDone(ctx context.Context, what string, do func(context.Context) error) error {
	back := loop.Backoff{Base: startBase, Max: startMax}
	clock := loop.ClockOf(ctx)
	began := clock.Now()
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if final(err) && (!missing(err) || clock.Since(began) >= c.o.Config.LeaseManagement.FailoverTime) {
			return fmt.Errorf("%s: %w", what, err)
		}
		wait := back.Next()
		c.retried(what, err, back.Tries(), wait)
		if err := clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// missing reports whether a table that was there when the start began with it was not found: a request or two may miss one that is
// new.
func missing(err error) bool {
	p, ok := errors.AsType[*leases.PermanentError](err)
	return ok && p.TableMissing()
}

// final reports whether an error of the start ends Run: somebody has to do something first.
func final(err error) bool {
	if _, ok := errors.AsType[*leases.PermanentError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*leases.KCL3ModeError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*leases.MixedKeysError](err); ok {
		return true
	}
	_, ok := errors.AsType[*shardsync.PermanentError](err)
	return ok
}

// sync creates the first leases of the only stream. Those of several are created while the worker works, so that none has to wait
// for another; at the start only the table's keys are looked at.
func (c *LeaseCoordinator) sync(ctx context.Context) error {
	if c.o.Streams != nil {
		_, err := c.o.Table.List(ctx)
		return err
	}
	_, err := c.o.Stream.Syncer.Sync(ctx)
	return err
}

func (c *LeaseCoordinator) checkMode(ctx context.Context) error {
	return c.o.Table.CheckMode(ctx, c.o.Config.ApplicationName, false)
}

// watchMode ends with an error when Java workers have moved the table to KCL 3.x mode. Anything else that the check meets is
// ridden out, as renewals and takes ride it out: what the worker holds goes on.
func (c *LeaseCoordinator) watchMode(ctx context.Context) error {
	clock, failed, passed := loop.ClockOf(ctx), 0, 0
	for {
		if err := clock.Sleep(ctx, loop.Jitter(modeCheckInterval, 0.1)); err != nil {
			return err
		}
		passed++
		listed := c.looksShowMode()
		if passed < idleModeChecks && listed && failed == 0 && !c.taker.View().JavaInSight() && !c.leader.IsLeader() {
			continue
		}
		passed = 0
		err := c.o.Table.CheckMode(ctx, c.o.Config.ApplicationName, listed)
		if _, ok := errors.AsType[*leases.KCL3ModeError](err); ok {
			return err
		}
		if err == nil || ctx.Err() != nil {
			failed = 0
			continue
		}
		failed++
		c.retried("check the table's KCL mode", err, failed, modeCheckInterval)
	}
}

// looksShowMode tells whether each row of the lease table is read in less than a modeCheckInterval anyway. A worker of a fleet at its
// ReadBudget looks each 2 × FailoverTime at the least, and at parts.
func (c *LeaseCoordinator) looksShowMode() bool {
	cfg := c.o.Config.LeaseManagement
	return max(cfg.LeaseTakerInterval, 2*cfg.FailoverTime) < modeCheckInterval && !c.taker.View().Sparse()
}

// regain takes back at once what an earlier process with this worker id held.
func (c *LeaseCoordinator) regain(ctx context.Context) error {
	held, err := c.renewer.Regain(ctx)
	for _, h := range held {
		c.got(h)
	}
	return err
}

func (c *LeaseCoordinator) retried(what string, err error, attempt int, wait time.Duration) {
	if f := c.o.Config.Hooks.Retried; f != nil {
		f(config.RetryEvent{Worker: c.o.Config.WorkerID, What: what, Attempt: attempt, Wait: wait, Err: err})
	}
}
