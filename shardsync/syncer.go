package shardsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// leaseTable is what shard sync needs of the lease table. *leases.Table has it; its calls repeat transient faults until
// their context is done.
type leaseTable interface {
	List(ctx context.Context) (leases.Listing, error)
	Get(ctx context.Context, key string) (leases.Lease, bool, error)
	Create(ctx context.Context, l leases.Lease) (created bool, err error)
	UpdateMetadata(ctx context.Context, key string, m leases.Metadata) error
}

// SyncerOptions are what a [HierarchicalShardSyncer] works with.
type SyncerOptions struct {
	Stream       string
	Worker       string // for hooks
	From         config.InitialPosition
	FailoverTime time.Duration // how long another worker that creates rows may be silent before this one takes over; default 10s
	Logger       *slog.Logger  // may be nil
	Hooks        *config.Hooks // may be nil: LeaseCreated, Synced, Retried
}

// HierarchicalShardSyncer creates the leases of one stream. Its methods may run at the same time, in one worker and in
// many; what they leave in the table is the same as if one worker had done it all. (KCL: HierarchicalShardSyncer)
type HierarchicalShardSyncer struct {
	table    leaseTable
	detector ShardDetector
	opts     SyncerOptions
	log      *slog.Logger
}

// NewHierarchicalShardSyncer makes a syncer over t, usually a *leases.Table. It does no I/O.
func NewHierarchicalShardSyncer(t leaseTable, d ShardDetector, opts SyncerOptions) *HierarchicalShardSyncer {
	s := &HierarchicalShardSyncer{table: t, detector: d, opts: opts, log: opts.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Hooks == nil {
		s.opts.Hooks = &config.Hooks{}
	}
	if s.opts.FailoverTime <= 0 {
		s.opts.FailoverTime = 10 * time.Second
	}
	return s
}

// Sync sees to it that every part of the stream's key space has a lease, or a lease whose end will bring one. Every worker
// calls it once, when it starts, and may take leases meanwhile. If the table's leases cover the ring of hash keys, Sync
// lists no shards.
//
// Of several workers that start on an empty table one creates the rows: whoever loses the race for the first row, or finds
// a table that lacks some, waits for them to appear, and goes on by itself only when none has appeared for a FailoverTime
// (and a part of another, so that not all do so at once).
//
// The result is also given to Hooks.Synced. An error for which errors.As finds a *[PermanentError] or a
// *[leases.PermanentError] will not go away by itself; after any other one, as [ErrInconsistent], call Sync again later.
// (KCL: HierarchicalShardSyncer.checkAndCreateLeaseForNewShards)
func (s *HierarchicalShardSyncer) Sync(ctx context.Context) (config.SyncEvent, error) {
	clock := loop.ClockOf(ctx)
	start := clock.Now()
	ev := config.SyncEvent{Worker: s.opts.Worker, Stream: s.opts.Stream}
	err := s.sync(ctx, &ev)
	if err != nil {
		err = fmt.Errorf("compare shards and leases of stream %q: %w", s.opts.Stream, err)
	}
	ev.Elapsed, ev.Err = clock.Since(start), err
	if f := s.opts.Hooks.Synced; f != nil {
		f(ev)
	}
	return ev, err
}

func (s *HierarchicalShardSyncer) sync(ctx context.Context, ev *config.SyncEvent) error {
	for patient := true; ; patient = false {
		have, err := s.rows(ctx)
		if err != nil {
			return err
		}
		ev.Leases = len(have)
		if covered(have) {
			return nil
		}
		missing, err := s.missing(ctx, have, ev)
		if err != nil || len(missing) == 0 {
			return err
		}
		var done bool
		if patient && len(have) > 0 {
			done, err = s.await(ctx, missing) // most likely somebody is about to create them
		} else {
			done, err = s.fill(ctx, missing, ev)
		}
		if done || err != nil {
			return err
		}
		// Whoever began has stopped. What it created decides what is missing now, and from what time.
	}
}

// covered reports whether the leases say by themselves that none is missing.
func covered(have []leases.Lease) bool {
	for _, l := range have {
		if !l.Finished() && !l.HashKeyRange.Known {
			return false
		}
	}
	_, hole := FindHole(have)
	return !hole
}

// rows lists the leases of our stream.
func (s *HierarchicalShardSyncer) rows(ctx context.Context) ([]leases.Lease, error) {
	l, err := s.table.List(ctx)
	return l.Leases, err
}

// missing determines the leases to create, from as many listings as it takes to see a consistent one.
func (s *HierarchicalShardSyncer) missing(ctx context.Context, have []leases.Lease, ev *config.SyncEvent) ([]leases.Lease, error) {
	const listings = 3
	pause := loop.Backoff{Base: time.Second, Max: 2 * time.Second}
	for {
		missing, err := s.missingNow(ctx, have, ev)
		if !errors.Is(err, ErrInconsistent) || pause.Tries() == listings-1 {
			return missing, err
		}
		wait := pause.Next()
		if f := s.opts.Hooks.Retried; f != nil {
			f(config.RetryEvent{Worker: s.opts.Worker, What: "list shards", Attempt: pause.Tries(), Wait: wait, Err: err})
		}
		if err := loop.ClockOf(ctx).Sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("list shards again: %w", err)
		}
	}
}

func (s *HierarchicalShardSyncer) missingNow(ctx context.Context, have []leases.Lease, ev *config.SyncEvent) ([]leases.Lease, error) {
	var missing []leases.Lease
	if len(have) == 0 {
		shards, err := s.detector.ListShards(ctx, s.opts.Stream, filterOf(s.opts.From))
		if err != nil {
			return nil, err
		}
		ev.Shards = len(shards)
		if missing, err = firstLeases(shards, s.opts.From); err != nil {
			return nil, err
		}
	} else {
		shards, err := s.allShards(ctx)
		if err != nil {
			return nil, err
		}
		ev.Shards = len(shards)
		if missing, err = DetermineNewLeases(shards, have, s.opts.From); err != nil {
			return nil, err
		}
	}
	s.pin(missing)
	return missing, nil
}

// allShards lists the whole stream. The error wraps [ErrInconsistent] if the listing shows only a part of it.
func (s *HierarchicalShardSyncer) allShards(ctx context.Context) ([]Shard, error) {
	shards, err := s.detector.ListShards(ctx, s.opts.Stream, Filter{})
	if err != nil {
		return nil, err
	}
	return shards, checkRing(shards)
}

// pin gives the leases that start at LATEST the time that it means. A second less than the service's clock shows: its Date
// header has no fractions, and the clocks of its hosts differ a little. Without the service's time they stay unpinned: our
// own clock may be ahead, and what is put until then would be missed.
func (s *HierarchicalShardSyncer) pin(missing []leases.Lease) {
	for i := range missing {
		l := &missing[i]
		if l.Checkpoint != checkpoint.Latest || l.StartAtMillis != 0 {
			continue
		}
		now, ok := s.detector.ServiceTime()
		if !ok {
			s.log.Warn("leases start at LATEST without a time, because the service does not tell its own; what is put before their first checkpoint is missed after a restart",
				"stream", s.opts.Stream)
			return
		}
		l.StartAtMillis = now.Add(-time.Second).UnixMilli()
	}
}
