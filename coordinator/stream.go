package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// Stream is one stream that a worker reads, and what works on its leases.
type Stream struct {
	Name   string // for people and hooks
	Syncer *shardsync.HierarchicalShardSyncer
	Open   OpenFunc
	Shards cleanup.ShardLister // for the cleanup of leases
	// ByLineage says that the shards have no hash keys; Syncer knows it, too.
	ByLineage bool

	// Of one of several streams.
	Identifier string              // account:name:epoch
	Table      *leases.StreamTable // its part of the lease table; Syncer works on it
	// Check fails with a *shardsync.PermanentError if there is no such stream, or if the service has another one of its name.
	Check func(ctx context.Context) error
}

// local is a lease as the stream's Syncer knows it.
func (s *Stream) local(l leases.Lease) leases.Lease {
	if s.Table == nil {
		return l
	}
	return s.Table.Local(l)
}

// StreamSource is what a worker of several streams has in place of its one Stream. Its functions may be called from several
// goroutines at once. Nobody else writes into the slices that they return.
type StreamSource struct {
	// Tracked returns the streams to read now. It may take its time, but ends with ctx.
	Tracked func(ctx context.Context) ([]config.StreamConfig, error)
	// Listed returns identifiers of streams that config.DeleteListed is about, beside those of the configuration; nil: none.
	Listed func(ctx context.Context) ([]string, error)
	// Resolve asks the service for what the stream's configuration does not say of its identifier.
	Resolve func(ctx context.Context, c config.StreamConfig) (config.StreamIdentifier, error)
	// Make makes what works on a stream, with these hooks. It does no I/O. If nobody has named the stream, because its leases
	// stand in the table only, c is made of their keys. asked says that the service was asked for the epoch of id, so that a
	// stream which was created at another time is another one.
	Make func(id config.StreamIdentifier, c config.StreamConfig, asked bool, hooks *config.Hooks) *Stream
}

// reading is a stream that this worker knows.
type reading struct {
	*Stream
	id      config.StreamIdentifier
	cfg     config.StreamConfig
	asked   bool                                // the service was asked for the epoch in id
	audit   *shardsync.PeriodicShardSyncManager // nil for the only stream
	cleanup *cleanup.LeaseCleanupManager        // likewise

	mu    sync.Mutex
	wrong error // why the stream cannot be read: it was deleted, or is another one now
	until time.Time
	back  loop.Backoff

	// Of the goroutine of tracking.run.
	busy bool
	next time.Time // when the next audit is due
}

// The pauses between two looks whether a stream is there again that was deleted. It need not be soon: one that is created
// anew has leases of its own, unless its identifier was made up.
const (
	goneBase = time.Minute
	goneMax  = 15 * time.Minute
)

// isGone reports whether an error says that a whole stream cannot be read, as far as this worker knows it.
func isGone(err error) bool {
	return errors.Is(err, shardsync.ErrStreamNotFound) || errors.Is(err, shardsync.ErrOtherHistory)
}

// fail notes that the stream cannot be read, and says when to look again.
func (r *reading) fail(now time.Time, err error) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == nil || !now.Before(r.until) {
		r.until = now.Add(r.back.Next())
	}
	r.wrong = err
	return r.until.Sub(now)
}

// blocked returns for how long the stream cannot be read, and why; the error is nil if it can. check is set for the one
// caller who is to look whether it can be read again.
func (r *reading) blocked(now time.Time) (wait time.Duration, check bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == nil {
		return 0, false, nil
	}
	if now.Before(r.until) {
		return r.until.Sub(now), false, r.wrong
	}
	r.until = now.Add(r.back.Next())
	return r.until.Sub(now), true, r.wrong
}

// mended notes that the stream can be read.
func (r *reading) mended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = nil
	r.back.Reset()
}

// usable reports whether a shard of the stream may be read, and for how long not otherwise. A stream that was deleted is
// looked at now and then by one of its consumers, so that all of them together are no more than a request a minute.
func (r *reading) usable(ctx context.Context) (wait time.Duration, err error) {
	clock := loop.ClockOf(ctx)
	wait, check, err := r.blocked(clock.Now())
	if err == nil || !check || r.Check == nil {
		return wait, err
	}
	bounded, cancel := loop.Timeout(ctx, 5*time.Second, "look whether stream "+r.Name+" is there again")
	defer cancel()
	if again := r.Check(bounded); again != nil {
		return wait, again
	}
	r.mended()
	return 0, nil
}
