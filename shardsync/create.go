package shardsync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// writers is how many rows are created at the same time: 10,000 rows at 5 ms each take a second and a half.
const writers = 32

// fill creates missing rows, or waits while somebody else does. It is not done if that one stopped half way.
//
// A fleet that starts on an empty table would try to create every row once per worker. So the first row decides: whoever
// creates it creates the rest.
func (s *HierarchicalShardSyncer) fill(ctx context.Context, missing []leases.Lease, ev *config.SyncEvent) (done bool, err error) {
	created, err := s.create(ctx, missing[0])
	if err != nil {
		return false, err
	}
	if !created {
		return s.await(ctx, missing[1:])
	}
	n, err := s.createAll(ctx, missing[1:])
	ev.Created += 1 + n
	return true, err
}

// createAll creates rows of which none is an ancestor of another. After an error it starts no more; since each subset of
// them is a state from which the next run determines the rest, what was created stays.
func (s *HierarchicalShardSyncer) createAll(ctx context.Context, missing []leases.Lease) (created int, err error) {
	done := make([]bool, len(missing))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, l := range missing {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() (err error) {
			done[i], err = s.create(ctx, l)
			return err
		})
	}
	err = group.Wait()
	for _, d := range done {
		if d {
			created++
		}
	}
	return created, err
}

func (s *HierarchicalShardSyncer) create(ctx context.Context, l leases.Lease) (bool, error) {
	created, err := s.table.Create(ctx, l)
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
