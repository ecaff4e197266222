package shardsync

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// repair creates the leases that are missing, without waiting for another worker that might do so. The rows that raised the
// alarm are old by now: the table is read first, and if its ring is whole nothing is listed.
//
// The error wraps [ErrOtherHistory] if open shards are left that nobody will read because their leases are finished.
func (s *HierarchicalShardSyncer) repair(ctx context.Context, ev *config.SyncEvent) error {
	for {
		d := decisionAt(loop.ClockOf(ctx))
		have, err := s.rows(ctx)
		if err != nil {
			return err
		}
		ev.Leases = len(have)
		if _, hole := FindHole(have); !hole && len(have) > 0 && !s.opts.ByLineage {
			return nil
		}
		if err := s.check(ctx); err != nil {
			return err
		}
		if err := s.decide(ctx, &d, have, ev); err != nil {
			return err
		}
		if len(d.missing) > 0 {
			done, err := s.fillNow(ctx, d, ev)
			if err != nil {
				return err
			}
			if !done {
				continue // it took too long
			}
		}
		if err := unread(d.shards, have); err != nil && !s.opts.ByLineage {
			return s.explained(err)
		}
		return nil
	}
}

// fillRanges gives unfinished leases without a range of hash keys theirs, in the table and in what it returns, if there are
// such and their shards are listed. A row that cannot be written is left to the next audit.
func (s *HierarchicalShardSyncer) fillRanges(ctx context.Context, have []leases.Lease, ev *config.SyncEvent) ([]leases.Lease, error) {
	lacks := func(l leases.Lease) bool { return !l.Finished() && !l.HashKeyRange.Known }
	if s.opts.ByLineage || !slices.ContainsFunc(have, lacks) {
		return have, nil
	}
	shards, err := s.detector.ListShards(ctx, s.opts.Stream, Filter{})
	if err != nil {
		return nil, err
	}
	ev.Shards = len(shards)
	index := make(map[string]int, len(shards))
	for i, shard := range shards {
		index[shard.ID] = i
	}
	have = slices.Clone(have)
	var (
		group  errgroup.Group
		failed atomic.Pointer[error]
	)
	group.SetLimit(s.writers)
	for i := range have {
		l := &have[i]
		n, listed := index[l.Shard()]
		if !lacks(*l) || !listed || !shards[n].HashKeyRange.Known {
			continue
		}
		l.HashKeyRange = shards[n].HashKeyRange
		key, m := l.Key, leases.Metadata{HashKeyRange: l.HashKeyRange}
		group.Go(func() error {
			if err := s.table.UpdateMetadata(ctx, key, m); err != nil && !errors.Is(err, leases.ErrLeaseLost) {
				failed.Store(&err)
			}
			return nil // one row's fault keeps no other from being written
		})
	}
	_ = group.Wait()
	if err := failed.Load(); err != nil {
		if f := s.opts.Hooks.Retried; f != nil {
			f(config.RetryEvent{Worker: s.opts.Worker, What: "write hash key ranges", Attempt: 1, Err: *err})
		}
	}
	return have, ctx.Err()
}
