package cleanup

import (
	"context"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// leaseTable is what cleanup needs of the lease table. *leases.Table has it; its calls repeat transient faults until their
// context is done, and Get reads consistently.
type leaseTable interface {
	Get(ctx context.Context, key string) (leases.Lease, bool, error)
	Delete(ctx context.Context, seen leases.Lease) error
}

// ShardLister lists all shards of the stream that the service still knows, closed ones too; it fails rather than leave some
// out.
type ShardLister func(ctx context.Context) ([]Shard, error)

// Options are what a [LeaseCleanupManager] works with. All are required but Hooks.
type Options struct {
	Worker string // for hooks
	// Rows are the leases as this worker last saw them. They only tell which rows to look at, so they may be some seconds
	// old; nil if the table was not read yet. The slice is not changed.
	Rows func() []leases.Lease
	// IsLeader reports whether this worker cleans up for the fleet. It is asked before each pass. More than one leader does no
	// harm but costs reads.
	IsLeader func() bool
	Shards   ShardLister
	// ByLineage says that the stream's shards have no hash keys: a finished row goes when the service has forgotten its shard, even if
	// no row covers what it covered.
	ByLineage bool
	Hooks     *config.Hooks // nil: none; called: LeaseDeleted, Retried
}

// LeaseCleanupManager deletes the rows of finished shards when nobody needs them any more, and not before it has seen them
// finished for [config.LeaseCleanupConfig].KeepFinished. Apart from that time, for which the next leader waits anew, it
// remembers nothing of them: each pass finds them in the table, so that nothing is forgotten with a worker. (KCL:
// LeaseCleanupManager, whose queue is lost with its process, and which deletes at once)
//
// A row that somebody owns is deleted too. Its owner's next renewal finds it gone and drops the lease, under which nothing
// runs any more.
type LeaseCleanupManager struct {
	table leaseTable
	cfg   config.LeaseCleanupConfig
	opts  Options

	atOnce  int                  // rows in work at the same time
	garbage time.Time            // when shards are to be listed next
	since   map[string]time.Time // when the rows that are finished were first seen so, by key
}

const (
	// rowsAtOnce is how many rows are in work at the same time. Each costs two small reads and one for each parent and child;
	// at 5 ms a request the 5,000 rows that a reshard of a large stream leaves go in some fifteen seconds, and renewals, of
	// which each worker may have 20 under way, keep the better part of a table's capacity.
	rowsAtOnce = 8
	// passLimit is how long a pass may take if Interval is less: a table that answers slowly must not keep passes from ending,
	// but what was begun should have a chance. What a pass leaves is left to the next one.
	passLimit = time.Minute
	// glance is how often the rows that this worker knows are looked through for ones that have been finished. It costs no request.
	glance = 5 * time.Second
)

// NewLeaseCleanupManager makes a manager over t, usually a *leases.Table. It does no I/O.
func NewLeaseCleanupManager(t leaseTable, cfg config.LeaseCleanupConfig, opts Options) *LeaseCleanupManager {
	m := &LeaseCleanupManager{table: t, cfg: cfg, opts: opts, atOnce: rowsAtOnce}
	if m.opts.Hooks == nil {
		m.opts.Hooks = &config.Hooks{}
	}
	return m
}

// Run makes a pass every LeaseCleanupConfig.Interval while this worker leads, the first one after an Interval, until ctx is
// done; then it returns nil. Between passes it looks, without a request, which rows have been finished. What fails, for want
// of a permission too, is told to Hooks.Retried and tried again in the next pass: a table with rows too many is no reason to
// stop reading. Call it once.
func (m *LeaseCleanupManager) Run(ctx context.Context) error {
	clock := loop.ClockOf(ctx)
	// Anywhere in the first interval, so that fleets which restart more often than that come to it as well.
	m.garbage = clock.Now().Add(loop.Jitter(m.cfg.GarbageInterval, 1))
	failed := 0
	next := clock.Now().Add(loop.Jitter(m.cfg.Interval, 0.1))
	for {
		leads := m.opts.IsLeader()
		if !leads {
			m.since = nil
		}
		if wait := next.Sub(clock.Now()); wait > 0 {
			if leads {
				m.watch(clock.Now(), m.opts.Rows())
			}
			if err := clock.Sleep(ctx, min(wait, glance)); err != nil {
				return nil //nolint:nilerr // the end of ctx is how Run ends
			}
			continue
		}
		next = clock.Now().Add(loop.Jitter(m.cfg.Interval, 0.1))
		if !leads {
			continue
		}
		pass, cancel := loop.Timeout(ctx, max(m.cfg.Interval, passLimit), "clean up leases")
		_, err := m.Pass(pass)
		cancel()
		switch {
		case err == nil:
			failed = 0
		case ctx.Err() == nil:
			failed++
			if f := m.opts.Hooks.Retried; f != nil {
				f(config.RetryEvent{Worker: m.opts.Worker, What: "clean up leases", Attempt: failed, Wait: m.cfg.Interval, Err: err})
			}
		}
	}
}

// Forget is told, by a worker that calls Pass in a loop of its own, that it does not lead any more: rows that were seen finished
// may be deleted and made again before it leads the next time. It must not overlap a Pass.
func (m *LeaseCleanupManager) Forget() { m.since = nil }

// watch notes which of the rows are finished, and since when they are known to be. What is not among them any more is forgotten: a
// row that appears once more counts anew.
func (m *LeaseCleanupManager) watch(now time.Time, rows []leases.Lease) {
	var since map[string]time.Time
	for _, l := range rows {
		if !l.Finished() {
			continue
		}
		if since == nil {
			since = make(map[string]time.Time, len(m.since)+1)
		}
		first, known := m.since[l.Key]
		if !known {
			first = now
		}
		since[l.Key] = first
	}
	m.since = since
}

// justFinished reports whether a row must still be kept for requests to create it that may be under way: see
// [config.LeaseCleanupConfig].KeepFinished. The monotonic clock stands still while the machine sleeps; then rows stay longer.
func (m *LeaseCleanupManager) justFinished(now time.Time, key string) bool {
	first, known := m.since[key]
	return !known || now.Sub(first) < m.cfg.KeepFinished
}
