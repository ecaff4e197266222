package shardsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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
	// ByLineage says that the stream's shards have no hash keys, as those of DynamoDB tables' streams: nothing is concluded from
	// ranges, leases with ranges are refused, and each audit lists the shards.
	ByLineage bool
	// StreamARN is written into each row, with ByLineage: ids of shards do not tell to which stream they belong, nor do ranges there.
	StreamARN string
	Logger    *slog.Logger  // may be nil
	Hooks     *config.Hooks // may be nil: LeaseCreated, Synced, Retried
}

// HierarchicalShardSyncer creates the leases of one stream. Its methods may run at the same time, in one worker and in
// many; what they leave in the table is the same as if one worker had done it all. (KCL: HierarchicalShardSyncer)
type HierarchicalShardSyncer struct {
	table    leaseTable
	detector ShardDetector
	opts     SyncerOptions
	log      *slog.Logger
	writers  int // how many rows are created at the same time

	moved, timeless atomic.Bool // what is warned about once was

	recent listed // of a stream by lineage

	mu     sync.Mutex
	latest int64 // what LATEST means for rows that do not say it; 0 before it is asked for
}

// NewHierarchicalShardSyncer makes a syncer over t, usually a *leases.Table. It does no I/O.
func NewHierarchicalShardSyncer(t leaseTable, d ShardDetector, opts SyncerOptions) *HierarchicalShardSyncer {
	s := &HierarchicalShardSyncer{table: t, detector: d, opts: opts, log: opts.Logger, writers: writers, recent: listed{turn: make(chan struct{}, 1)}}
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
// lists no shards; a detector that has a method Check is asked in any case whether the stream exists.
//
// Of several workers that start on an empty table one creates the rows: whoever loses the race for the first row, or finds
// a table that lacks some, waits for them to appear, and goes on by itself only when none has appeared for a FailoverTime
// (and a part of another, so that not all do so at once).
//
// Leases that exist are not moved. If they tell that the application began at another position than From, that is logged.
//
// The result is also given to Hooks.Synced, unless it is that ctx has ended. An error for which errors.As finds a *[PermanentError] or a
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
	if f := s.opts.Hooks.Synced; f != nil && (err == nil || ctx.Err() == nil) {
		f(ev)
	}
	return ev, err
}

func (s *HierarchicalShardSyncer) sync(ctx context.Context, ev *config.SyncEvent) error {
	checked := false
	for patient := true; ; patient = false {
		d := decisionAt(loop.ClockOf(ctx))
		have, err := s.rows(ctx)
		if err != nil {
			return err
		}
		ev.Leases = len(have)
		if err := s.foreign(have); err != nil {
			return err
		}
		if patient {
			s.warnOfOtherPosition(have)
		}
		if !s.opts.ByLineage && covered(have) {
			if checked {
				return nil
			}
			return s.checkBriefly(ctx)
		}
		if !checked {
			if err := s.check(ctx); err != nil {
				return err
			}
			checked = true
		}
		if err := s.decide(ctx, &d, have, ev); err != nil || len(d.missing) == 0 {
			return err
		}
		var done bool
		if patient && len(have) > 0 {
			done, err = s.await(ctx, d.missing) // most likely somebody is about to create them
		} else {
			done, err = s.fill(ctx, d, ev)
		}
		if done || err != nil {
			return err
		}
		// Whoever began has stopped, or we have. What was created decides what is missing now, and from what time.
	}
}

// check fails with a *[PermanentError] if there is no stream to read.
func (s *HierarchicalShardSyncer) check(ctx context.Context) error {
	if c, ok := s.detector.(checker); ok {
		return c.Check(ctx, s.opts.Stream)
	}
	return nil
}

// checkBriefly is check for a worker that could start without: a fleet that starts together is throttled, and must not wait.
func (s *HierarchicalShardSyncer) checkBriefly(ctx context.Context) error {
	ctx, cancel := loop.Timeout(ctx, 2*time.Second, "look at the stream")
	defer cancel()
	err := s.check(ctx)
	if _, permanent := errors.AsType[*PermanentError](err); err != nil && !permanent {
		s.log.Debug("nothing is known of the stream's status", "stream", s.opts.Stream, "err", err)
		return nil
	}
	return err
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

// decide determines the leases to create, from as many listings as it takes to see a consistent one. The decision was begun before
// the table was read.
func (s *HierarchicalShardSyncer) decide(ctx context.Context, d *decision, have []leases.Lease, ev *config.SyncEvent) error {
	const listings = 3
	pause := loop.Backoff{Base: time.Second, Max: 2 * time.Second}
	for {
		err := s.decideNow(ctx, have, ev, d)
		if !errors.Is(err, ErrInconsistent) || pause.Tries() == listings-1 {
			return err
		}
		wait := pause.Next()
		if f := s.opts.Hooks.Retried; f != nil {
			f(config.RetryEvent{Worker: s.opts.Worker, What: "list shards", Attempt: pause.Tries(), Wait: wait, Err: err})
		}
		if err := loop.ClockOf(ctx).Sleep(ctx, wait); err != nil {
			return fmt.Errorf("list shards again: %w", err)
		}
	}
}

func (s *HierarchicalShardSyncer) decideNow(ctx context.Context, have []leases.Lease, ev *config.SyncEvent, d *decision) (err error) {
	if len(have) == 0 {
		if d.shards, err = s.list(ctx, filterOf(s.opts.From)); err != nil {
			return err
		}
		ev.Shards = len(d.shards)
		if err := s.future(); err != nil {
			return err
		}
		d.missing, err = s.firstLeases(d.shards)
	} else {
		if d.shards, err = s.allShards(ctx); err != nil {
			return err
		}
		ev.Shards = len(d.shards)
		if err := s.foreign(have); err != nil {
			return err
		}
		if s.opts.ByLineage {
			err = current(d.shards, have)
		} else if err = otherHistory(d.shards, have); err != nil {
			err = s.explained(err)
		}
		if err != nil {
			return err
		}
		d.missing, err = DetermineNewLeases(d.shards, have, s.opts.From)
	}
	s.pin(d.missing)
	return err
}

// explained makes a *[PermanentError] of one that wraps [ErrOtherHistory].
func (s *HierarchicalShardSyncer) explained(err error) error {
	doing := fmt.Sprintf("find the leases' places in stream %q", s.opts.Stream)
	if c, ok := s.detector.(checker); ok {
		if t, known := c.Created(); known {
			doing += ", created at " + timeText(t)
		}
	}
	return &PermanentError{Doing: doing, Advice: HistoryAdvice, Err: err}
}

// allShards lists the whole stream. The error wraps [ErrInconsistent] if the listing shows only a part of it.
func (s *HierarchicalShardSyncer) allShards(ctx context.Context) ([]Shard, error) {
	shards, err := s.list(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	return shards, s.checkListing(shards)
}

func (s *HierarchicalShardSyncer) list(ctx context.Context, f Filter) ([]Shard, error) {
	shards, err := s.detector.ListShards(ctx, s.opts.Stream, f)
	if err == nil && s.opts.ByLineage {
		shards = closeParents(shards)
	}
	return shards, err
}

// firstLeases returns the leases of an empty table.
func (s *HierarchicalShardSyncer) firstLeases(shards []Shard) ([]leases.Lease, error) {
	if !s.opts.ByLineage {
		return firstLeases(shards, s.opts.From)
	}
	if err := s.checkListing(shards); err != nil {
		return nil, err
	}
	return DetermineNewLeases(shards, nil, s.opts.From)
}
