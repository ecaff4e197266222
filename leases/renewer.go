package leases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// renewTable is what a LeaseRenewer needs of a [Table].
type renewTable interface {
	takeTable
	Renew(ctx context.Context, held Lease, me Tenure, r Renewal) (Written, error)
	Update(ctx context.Context, held Lease, me Tenure, u Update) (Written, error)
	Evict(ctx context.Context, held Lease, me Tenure) error
	StartHandoff(ctx context.Context, seen Lease, to string) (Lease, error)
	CompleteHandoff(ctx context.Context, held Lease, me Tenure) (Lease, error)
}

// LeaseRenewer keeps the leases that this worker holds and is the only writer of their rows: it renews each every
// RenewInterval, writes their checkpoints, and ends the context of each at the moment this worker may no longer act.
//
// The right to act ends at asked-at + FailoverTime − margin, where asked-at was read before the last successful write was
// sent: peers wait for FailoverTime after they have seen that write, which is later. A successful checkpoint is a renewal
// too, and puts the next one off.
//
// All methods are safe for concurrent use. (KCL: LeaseRenewer)
type LeaseRenewer struct {
	table  renewTable
	cfg    config.LeaseManagementConfig
	opts   RenewerOptions
	hooks  *config.Hooks
	log    *slog.Logger
	nonces *nonces
	timing

	poke    chan struct{} // the schedule has changed
	fatal   chan error    // why the worker must stop
	leaving atomic.Bool   // Leave was called

	// given is called with each row that was handed over, as it was left. It is set before anything is held, and must not block.
	given func(row Lease, at time.Time)

	mu      sync.Mutex
	held    map[string]*Held
	agenda  agenda
	stopped bool
}

// RenewerOptions is what a [LeaseRenewer] may be told beside its configuration.
type RenewerOptions struct {
	Worker string // this worker's id
	// Host names machine and process to people, as "host/pid"; a process that uses our worker id shows it in its error, and
	// we show its. Empty: this machine's host name and this process's pid.
	Host   string
	Logger *slog.Logger  // nil: silent
	Hooks  *config.Hooks // nil: none; called: LeaseTaken (of Regain), LeaseRenewed, LeaseLost, LeaseReleased, Retried
	Lost   func(*Held)   // called after a lease's context has ended, also after a release; must not block
	// Asked is called once for each lease that a peer has asked for, when one of our own writes has shown it: the lease goes
	// on until the caller, having let its consumer finish, gives it up by Release. It must not block.
	Asked func(*Held)
}

// NewRenewer makes a LeaseRenewer of a complete configuration. It does no I/O.
func NewRenewer(t renewTable, cfg config.LeaseManagementConfig, opts RenewerOptions) *LeaseRenewer {
	r := &LeaseRenewer{
		table: t, cfg: cfg, opts: opts, hooks: opts.Hooks, log: opts.Logger, nonces: newNonces(opts.Host),
		timing: timingOf(cfg),
		poke:   make(chan struct{}, 1), fatal: make(chan error, 1), held: map[string]*Held{},
	}
	r.agenda.most = r.parallel()
	if r.hooks == nil {
		r.hooks = &config.Hooks{}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r
}

// tenure is what this worker writes of itself.
func (r *LeaseRenewer) tenure(nonce string) Tenure {
	return Tenure{
		Worker: r.opts.Worker, Nonce: nonce, Failover: r.cfg.FailoverTime, Max: r.cfg.MaxLeasesForWorker, Zone: r.cfg.Zone,
		Leaving: r.leaving.Load(),
	}
}

// Add makes a lease that was just taken a held one. askedAt was read from ctx's clock before the take was sent. The lease's
// context takes its values from ctx, or what [loop.Rooted] was given, not its end. Whatever this worker held of the same lease ends.
func (r *LeaseRenewer) Add(ctx context.Context, w Written, askedAt time.Time) *Held {
	now := stampOf(loop.ClockOf(ctx))
	return r.add(ctx, w, stamp{mono: askedAt, wall: now.wall.Add(askedAt.Sub(now.mono))})
}

func (r *LeaseRenewer) add(ctx context.Context, w Written, asked stamp) *Held {
	h := &Held{
		renewer: r, clock: loop.ClockOf(ctx), key: w.Lease.Key, token: w.Lease.Counter,
		slot: make(chan struct{}, 1), lease: w.Lease, index: -1, flow: flowOf(w.Lease, asked.mono),
		// The first renewal comes at a random time of the interval: leases taken together must not be renewed together for ever.
		term: r.begin(asked, loop.Jitter(r.cfg.RenewInterval, 0.9)),
	}
	if w.Lease.Tenure != nil {
		h.nonce = w.Lease.Tenure.Nonce
	}
	h.ctx, h.cancel = context.WithCancelCause(loop.Root(ctx))
	if w.Recovered == ByEarlierCall {
		h.due = asked.mono
		h.unsure = &asked // its repetition may have landed; see landed
	}
	r.mu.Lock()
	before, stopped := r.held[h.key], r.stopped
	r.mu.Unlock()
	if before != nil {
		r.drop(before, fmt.Errorf("lease %s: %w: this worker has taken it again", h.key, ErrLeaseLost))
	}
	if stopped {
		h.gone = true
		h.cancel(errRenewerStopped(h.key))
		return h
	}
	r.mu.Lock()
	r.held[h.key] = h
	r.agenda.reschedule(h)
	r.mu.Unlock()
	r.wake()
	return h
}

func errRenewerStopped(key string) error {
	return fmt.Errorf("lease %s: %w: this worker has stopped renewing", key, ErrLeaseLost)
}

// Held returns the leases held now, by key.
func (r *LeaseRenewer) Held() []*Held {
	r.mu.Lock()
	all := make([]*Held, 0, len(r.held))
	for _, h := range r.held {
		all = append(all, h)
	}
	r.mu.Unlock()
	slices.SortFunc(all, func(a, b *Held) int { return strings.Compare(a.key, b.key) })
	return all
}

// own returns the rows of what is held, as this worker last wrote them.
func (r *LeaseRenewer) own() []Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]Lease, 0, len(r.held))
	for _, h := range r.held {
		rows = append(rows, h.lease)
	}
	return rows
}

// overlaid returns the rows of a listing, which it changes: what is held as this worker last wrote it.
func (r *LeaseRenewer) overlaid(listed []Lease) []Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range listed {
		l := &listed[i]
		switch h, ok := r.held[l.Key]; {
		case !ok:
		case h.lease.Counter > l.Counter:
			*l = h.lease
		case h.lease.Counter == l.Counter: // a peer's mark may be new
			l.share(&h.lease)
		}
	}
	return listed
}

// Get returns the lease of that key if it is held now.
func (r *LeaseRenewer) Get(key string) (*Held, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.held[key]
	return h, ok
}

// ReleaseAll releases every lease that is held, many at once, and returns what went wrong. Leases that were lost meanwhile
// are no error.
func (r *LeaseRenewer) ReleaseAll(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(r.parallel())
	held := r.Held()
	errs := make([]error, len(held))
	for i, h := range held {
		group.Go(func() error {
			if err := r.Release(ctx, h); err != nil && !errors.Is(err, ErrLeaseLost) {
				errs[i] = err
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// parallel is how many writes run at once.
func (r *LeaseRenewer) parallel() int { return cmp.Or(max(r.cfg.MaxLeaseRenewalThreads, 0), 20) }

// snapshot is what a write of the lease starts from.
func (r *LeaseRenewer) snapshot(h *Held) (lease Lease, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return h.lease, h.until
}

// drop ends a tenure, once: it reports whether it was this call that did it.
func (r *LeaseRenewer) drop(h *Held, cause error) bool {
	r.mu.Lock()
	if h.gone {
		r.mu.Unlock()
		return false
	}
	h.gone = true
	if r.held[h.key] == h {
		delete(r.held, h.key)
	}
	r.agenda.unschedule(h)
	counter := h.lease.Counter
	l := h.late
	h.late = nil
	r.mu.Unlock()
	h.cancel(cause)
	if l != nil {
		l.ended(l.at, 0, cause)
	}
	if f := r.hooks.LeaseLost; f != nil && !errors.Is(cause, ErrReleased) {
		f(config.LeaseEvent{Worker: r.opts.Worker, LeaseKey: h.key, Counter: counter, Token: h.token, Err: cause})
	}
	if r.opts.Lost != nil {
		r.opts.Lost(h)
	}
	return true
}

var _ checkpoint.Store = (*Held)(nil)
