package shardsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// writers is how many rows are created at the same time: 10,000 rows at 5 ms each take a second and a half.
const writers = 32

// decision is which leases to create, and what of. It is good for [leases.DecisionLife]: see the package's documentation.
type decision struct {
	missing []leases.Lease
	shards  []Shard

	clock      *loop.Clock
	mono, wall time.Time // before the first look at what it rests on
}

// decisionAt begins a decision. It must be called before the first look at what the decision rests on.
func decisionAt(c *loop.Clock) decision { return decision{clock: c, mono: c.Now(), wall: c.Wall()} }

// stale reports whether the decision must not be followed any more. The monotonic clock stands still during a suspend, the
// other one may be set back.
func (d decision) stale() bool {
	return d.clock.Since(d.mono) >= leases.DecisionLife || d.clock.Wall().Sub(d.wall) >= leases.DecisionLife
}

// errStale ends the creation of rows that were decided on too long ago. Decide again.
var errStale = errors.New("what was decided is too old to be done")

// fill creates missing rows, or waits while somebody else does. It is not done if that one stopped half way, or if we took
// too long.
//
// A fleet that starts on an empty table would try to create every row once per worker. So the first row decides: whoever
// creates it creates the rest.
func (s *HierarchicalShardSyncer) fill(ctx context.Context, d decision, ev *config.SyncEvent) (done bool, err error) {
	first, err := s.create(ctx, d, d.missing[0])
	switch {
	case err == nil && !first:
		return s.await(ctx, d.missing[1:])
	case err == nil:
		ev.Created++
		err = s.createAll(ctx, d, d.missing[1:], ev)
	}
	if errors.Is(err, errStale) {
		return false, nil
	}
	return err == nil, err
}

// fillNow is fill without waiting for anybody, for a repair. Others may do the same, but all must mean the same time by
// LATEST. So the first row that starts there decides that too: whoever finds it made takes over its time.
func (s *HierarchicalShardSyncer) fillNow(ctx context.Context, d decision, ev *config.SyncEvent) (done bool, err error) {
	first := max(slices.IndexFunc(d.missing, func(l leases.Lease) bool { return l.Checkpoint == checkpoint.Latest }), 0)
	d.missing[0], d.missing[first] = d.missing[first], d.missing[0]
	created, err := s.create(ctx, d, d.missing[0])
	switch {
	case created:
		ev.Created++
	case err == nil && d.missing[0].Checkpoint == checkpoint.Latest:
		var row leases.Lease
		if row, _, err = s.table.Get(ctx, d.missing[0].Key); err == nil {
			adopt(d.missing[1:], row.StartAtMillis)
		}
	}
	if err == nil {
		err = s.createAll(ctx, d, d.missing[1:], ev)
	}
	if errors.Is(err, errStale) {
		return false, nil
	}
	return err == nil, err
}

// createAll creates rows of which none is an ancestor of another. After an error it starts no more; since each subset of
// them is a state from which the next run determines the rest, what was created stays.
func (s *HierarchicalShardSyncer) createAll(ctx context.Context, d decision, missing []leases.Lease, ev *config.SyncEvent) error {
	var created atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.writers)
	for _, l := range missing {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			made, err := s.create(ctx, d, l)
			if made {
				created.Add(1)
			}
			return err
		})
	}
	err := group.Wait()
	ev.Created += int(created.Load())
	return err
}

// create creates a row that was decided on, if there is none. Every row is created here: the request, which may be repeated again
// and again, is given up when the decision is too old. Then the error wraps [errStale].
func (s *HierarchicalShardSyncer) create(ctx context.Context, d decision, l leases.Lease) (bool, error) {
	if d.stale() {
		return false, errStale
	}
	l.StreamARN = s.opts.StreamARN
	bounded, cancel := loop.Timeout(ctx, leases.DecisionLife-d.clock.Since(d.mono), "create lease "+l.Key)
	created, err := s.table.Create(bounded, l)
	cancel()
	if err != nil && ctx.Err() == nil && d.stale() {
		return false, fmt.Errorf("%w: %w", errStale, err)
	}
	if err != nil {
		return false, err
	}
	if f := s.opts.Hooks.LeaseCreated; created && f != nil {
		f(config.LeaseEvent{Worker: s.opts.Worker, LeaseKey: l.Key, Counter: l.Counter})
	}
	return created, nil
}

// await watches another worker create rows. It returns true when all are there, and false when none has appeared for
// about a FailoverTime.
func (s *HierarchicalShardSyncer) await(ctx context.Context, missing []leases.Lease) (done bool, err error) {
	clock := loop.ClockOf(ctx)
	// Workers that lost the same race must not lose patience together, or they would stampede then.
	patience := s.opts.FailoverTime + loop.Jitter(s.opts.FailoverTime/2, 1)
	pause := loop.Backoff{Base: min(200*time.Millisecond, patience/8), Max: patience / 4}
	last := clock.Now()
	for len(missing) > 0 {
		if err := clock.Sleep(ctx, pause.Next()); err != nil {
			return false, fmt.Errorf("wait for another worker to create %d leases: %w", len(missing), err)
		}
		have, err := s.rows(ctx)
		if err != nil {
			return false, err
		}
		there := make(map[string]bool, len(have))
		for _, l := range have {
			there[l.Key] = true
		}
		before := len(missing)
		missing = slices.DeleteFunc(missing, func(l leases.Lease) bool { return there[l.Key] })
		if len(missing) < before {
			last = clock.Now()
			pause.Reset()
		} else if clock.Since(last) >= patience {
			return false, nil
		}
	}
	return true, nil
}
