package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// directory knows the streams of a worker: of one stream that one alone, whatever the lease; of several those that are
// tracked and those whose leases this worker met. Its methods may be called from any goroutine.
type directory struct {
	o    Options
	only *reading // of a worker of one stream

	// Of a worker of several streams; set before the first lease comes.
	leads  func() bool
	rows   func() ([]leases.Lease, bool)                  // as this worker last saw them
	rowsOf func(identifier string) ([]leases.Lease, bool) // as the audits and cleanups see them

	created chan struct{} // gets a value when leases were created

	mu     sync.Mutex
	wanted []wanted // what was answered last
	known  map[config.StreamIdentifier]*reading
}

// wanted is a stream that is to be read.
type wanted struct {
	cfg   config.StreamConfig
	id    config.StreamIdentifier // what is known of it
	whole bool                    // that is all of it
	fault error                   // what is wrong with cfg; nobody looks after such a stream, but its leases stay
	again bool                    // the stream was named before, in the same answer and way, but with another position; that is a fault

	added  bool   // Hooks.StreamAdded was called
	blamed string // the fault that Hooks.StreamFaulty told last, since the stream had none
}

// is reports whether the stream with this identifier is the wanted one, or may be.
func (w wanted) is(id config.StreamIdentifier) bool {
	return w.id.StreamName == id.StreamName && (w.id.AccountID == id.AccountID || w.id.AccountID == "") &&
		(w.id.CreationEpoch == id.CreationEpoch || w.id.CreationEpoch == 0)
}

func newDirectory(o Options) *directory {
	d := &directory{o: o, known: map[config.StreamIdentifier]*reading{}, created: make(chan struct{}, 1)}
	if o.Streams == nil {
		d.only = &reading{Stream: o.Stream}
	}
	return d
}

// of returns the stream of a lease.
func (d *directory) of(l leases.Lease) *reading {
	if d.only != nil {
		return d.only
	}
	id, err := config.ParseStreamIdentifier(l.Stream())
	if err != nil {
		id = config.StreamIdentifier{StreamName: l.Stream()} // listings leave such rows out
	}
	return d.at(id)
}

// at returns the stream with an identifier, and makes it if it is not known yet or is configured in another way now.
func (d *directory) at(id config.StreamIdentifier) *reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	cfg := config.StreamConfig{StreamName: id.StreamName, AccountID: id.AccountID, CreationEpoch: id.CreationEpoch}
	var asked bool
	if i := slices.IndexFunc(d.wanted, func(w wanted) bool { return w.is(id) }); i >= 0 {
		cfg = d.wanted[i].cfg
		asked = cfg.CreationEpoch == 0
	} else {
		asked = slices.ContainsFunc(d.wanted, func(w wanted) bool { return w.cfg.CreationEpoch == 0 && w.cfg.IsOf(id) })
	}
	if r := d.known[id]; r != nil && r.cfg == cfg && r.asked == asked {
		return r
	}
	r := d.make(id, cfg, asked)
	d.known[id] = r
	return r
}

// suspect returns an error if a stream's epoch is the service's own, and leases of a later stream of its name are there: then
// what the service has under that name is not the stream whose leases these are.
func (d *directory) suspect(id config.StreamIdentifier) error {
	rows, _ := d.rows()
	for _, l := range rows {
		o, err := config.ParseStreamIdentifier(l.Stream())
		if err == nil && o.AccountID == id.AccountID && o.StreamName == id.StreamName && o.CreationEpoch > id.CreationEpoch {
			return fmt.Errorf("stream %s: %w: there are leases of %s", id, shardsync.ErrOtherHistory, o)
		}
	}
	return nil
}

func (d *directory) make(id config.StreamIdentifier, cfg config.StreamConfig, asked bool) *reading {
	c := d.o.Config
	hooks := d.hooks(id.String())
	r := &reading{Stream: d.o.Streams.Make(id, cfg, asked, hooks), id: id, cfg: cfg, asked: asked, back: loop.Backoff{Base: goneBase, Max: goneMax}}
	if asked {
		r.wrong = d.suspect(id) // and the first consumer looks
	}
	local := func() ([]leases.Lease, bool) {
		rows, ok := d.rowsOf(id.String())
		own := make([]leases.Lease, 0, len(rows))
		for _, l := range rows {
			own = append(own, r.local(l))
		}
		return own, ok
	}
	r.audit = shardsync.NewPeriodicShardSyncManager(r.Syncer, shardsync.PeriodicOptions{
		Interval: c.LeaseManagement.ShardSyncInterval, Confidence: c.LeaseManagement.ShardSyncConfidence, IsLeader: d.leads, Rows: local,
	})
	r.cleanup = cleanup.NewLeaseCleanupManager(r.Table, c.Cleanup, cleanup.Options{
		Worker: c.WorkerID, IsLeader: d.leads, Shards: r.Shards, Hooks: hooks,
		Rows: func() []leases.Lease { rows, _ := local(); return rows },
	})
	return r
}

// hooks are those of a stream, whose parts speak of shards: leases have keys again there.
func (d *directory) hooks(identifier string) *config.Hooks {
	h := *d.o.Config.Hooks
	global := func(f func(config.LeaseEvent), before func()) func(config.LeaseEvent) {
		return func(e config.LeaseEvent) {
			before()
			if f != nil {
				e.LeaseKey = identifier + ":" + e.LeaseKey
				f(e)
			}
		}
	}
	created := func() {
		select {
		case d.created <- struct{}{}:
		default:
		}
	}
	h.LeaseCreated = global(h.LeaseCreated, created)
	synced := h.Synced
	h.Synced = func(e config.SyncEvent) {
		if rows, ok := d.rowsOf(identifier); e.Err == nil && ok && len(rows) == 0 {
			created() // be it that another worker was faster with each of them
		}
		if synced != nil {
			synced(e)
		}
	}
	h.LeaseDeleted = global(h.LeaseDeleted, func() {})
	return &h
}

// want takes in which streams are to be read now.
func (d *directory) want(w []wanted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = slices.Clone(w)
}

// isWanted reports whether a stream is to be read.
func (d *directory) isWanted(id config.StreamIdentifier) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.wanted, func(w wanted) bool { return w.is(id) })
}

// all are the streams that are known.
func (d *directory) all() []*reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.known))
}

// forget drops what is known of a stream that is not wanted and has no leases.
func (d *directory) forget(id config.StreamIdentifier) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}
