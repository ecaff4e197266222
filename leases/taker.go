package leases

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// takeTable is what a LeaseTaker needs of a [Table].
type takeTable interface {
	List(ctx context.Context) (Listing, error)
	ListScope(ctx context.Context, s Scope) (Listing, error)
	Get(ctx context.Context, key string) (Lease, bool, error)
	Take(ctx context.Context, seen Lease, me Tenure) (Written, error)
}

// LeaseTaker looks at the lease table, asks [Plan], and does what it says: it takes, or asks an owner to hand over and waits for
// that, for many leases at once. What it gets it gives to a [LeaseRenewer].
//
// It looks once every LeaseTakerInterval, or up to a tenth later, sooner while the worker starts or after Wake. For each row of another worker a
// timer stands at the moment at which the row will have stood still for its failover time; then the row is read
// consistently and, if that shows no change, taken, without waiting for the next look. So a dead worker's lease is taken
// between FailoverTime − RenewInterval and FailoverTime + 1.1 × LeaseTakerInterval after its death. (KCL: LeaseTaker)
type LeaseTaker struct {
	table   takeTable
	renewer *LeaseRenewer
	cfg     config.LeaseManagementConfig
	opts    TakerOptions
	hooks   *config.Hooks
	log     *slog.Logger

	wake  chan struct{}
	first chan struct{} // closed after the first look and its takes

	reader    Reader              // what to read next; of Run's goroutine
	planned   Moves               // of the last look that was planned upon; likewise
	patience  time.Duration       // how long the next listing may take; likewise
	missing   time.Time           // since when the table has not been found, zero if it was; likewise
	full      time.Time           // since when leases stay because everybody is at its limit; zero if none do; likewise
	warned    bool                // that was said; likewise
	claims    map[string]claim    // takes without an answer; of Run's goroutine
	namesakes map[string]namesake // likewise
	rhythms   rhythms             // likewise
	guard     *guarded
	followers sync.WaitGroup // of what was asked for, while Run runs

	mu       sync.Mutex
	asked    map[string]*asking
	view     View
	failures map[string]int // reads and takes failed in a row, by lease key
	denied   error          // the last *PermanentError of a read or take since the last success of one
}

// TakerOptions is what a [LeaseTaker] may be told beside its configuration.
type TakerOptions struct {
	Worker   string
	Strategy AssignmentStrategy // nil: [LeaseCount]
	Logger   *slog.Logger       // nil: silent
	Hooks    *config.Hooks      // nil: none; called: WorkerLooked, Retried, Panicked
	// Acquired is called with each lease that was taken, from several goroutines at once. It must not block.
	Acquired func(*Held)
	// Pin, if set, says where a lease without checkpoint starts, in Unix milliseconds, when it is taken and its row does not
	// say; 0 for no pin.
	Pin func(Lease) int64
	// Busy, if set, returns the keys of leases that are held no more and under which user code has not returned yet. They are
	// left to others: held again, they would only be kept from being read.
	Busy func() []string
}

// NewTaker makes a LeaseTaker of a complete configuration. It does no I/O.
func NewTaker(t takeTable, r *LeaseRenewer, cfg config.LeaseManagementConfig, opts TakerOptions) *LeaseTaker {
	taker := &LeaseTaker{
		table: t, renewer: r, cfg: cfg, opts: opts, hooks: opts.Hooks, log: opts.Logger,
		wake: make(chan struct{}, 1), first: make(chan struct{}), claims: map[string]claim{}, failures: map[string]int{},
		asked: map[string]*asking{}, namesakes: map[string]namesake{},
		view: NewView(opts.Worker, cfg), rhythms: newRhythms(opts.Worker, cfg.FailoverTime),
	}
	if taker.hooks == nil {
		taker.hooks = &config.Hooks{}
	}
	if taker.log == nil {
		taker.log = slog.New(slog.DiscardHandler)
	}
	if taker.opts.Strategy == nil {
		taker.opts.Strategy = LeaseCount{}
	}
	// If the peer that got it is dead, nobody knows better than the one who gave it since when the row stands still. All others see
	// that at their next look.
	r.given = func(row Lease, at time.Time) { taker.see(func(v View) View { return v.Row(row, at) }) }
	taker.guard = &guarded{by: taker.opts.Strategy, worker: opts.Worker, hooks: taker.hooks, log: taker.log}
	taker.opts.Strategy = taker.guard
	return taker
}

// Wake makes the taker look soon, because something is known to have changed: a shard has ended and its children wait. It
// never blocks. Many calls in a short time make one look.
func (t *LeaseTaker) Wake() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// FirstRound is closed once the first look, and the takes that it led to, are over.
func (t *LeaseTaker) FirstRound() <-chan struct{} { return t.first }

// View is what this worker last knew of the table.
func (t *LeaseTaker) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.view
}

// see changes the view.
func (t *LeaseTaker) see(f func(View) View) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view = f(t.view)
	return t.view
}

// Run looks and takes until ctx is done; then it returns nil, after the writes under way have been answered, or at most
// some seconds later: one given up half way could leave a row that nobody serves. What was asked for and has not
// come is left to Settle. What fails for a passing reason is tried again for ever, with pauses. If the table does not exist
// any more, for a FailoverTime, or if the very first look, or every take that it led to, meets a *[PermanentError], Run
// ends with it; with a *[DuplicateWorkerError] if another process owns leases in this worker's name. Call it once.
func (t *LeaseTaker) Run(ctx context.Context) error {
	clock := loop.ClockOf(ctx)
	defer t.giveBack(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	t.guard.ctx = ctx
	defer t.followers.Wait()
	defer cancel(context.Canceled)
	looking, expiring := clock.NewTimer(0), clock.NewTimer(idle)
	defer looking.Stop()
	defer expiring.Stop()
	pause := loop.Backoff{Base: shortest(t.cfg), Max: t.cfg.LeaseTakerInterval}
	next, last := clock.Now(), time.Time{}
	woken := false
	for {
		now := clock.Now()
		if woken && last.Add(shortest(t.cfg)).Before(next) {
			next = last.Add(shortest(t.cfg))
		}
		if now.Before(next) {
			if again := t.expire(ctx); again > 0 && clock.Now().Add(again).Before(next) {
				next = clock.Now().Add(again)
			}
		} else {
			if woken { // for a reason that a part of the table may not show
				t.reader = t.reader.Everything()
			}
			last, woken = now, false
			wait, err := t.look(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil && t.isFatal(t.permanent()):
				return t.permanent()
			case err == nil:
				t.missing = time.Time{}
				pause.Reset()
				if wait > 0 { // else it was the first half of a look
					t.firstRoundDone()
				}
			case t.isFatal(err), t.isDeleted(err, clock.Now()), isKCL3Mode(err), isDuplicate(err):
				return err
			default:
				wait = pause.Next()
				t.retried("look at the lease table", "", pause.Tries(), wait, err)
			}
			next = clock.Now().Add(wait)
		}
		looking.Reset(next.Sub(clock.Now()))
		expiring.Reset(t.untilExpiry(clock))
		select {
		case <-ctx.Done():
			return nil
		case <-t.wake:
			woken = true
		case <-looking.C:
		case <-expiring.C:
		}
	}
}

// shortest is the least time between two looks.
func shortest(cfg config.LeaseManagementConfig) time.Duration {
	return paceOf(cfg.FailoverTime).fast / 5
}

// isFatal reports whether an error of a look is one of configuration or permission that the worker started with. Later
// on it keeps what it holds, and hopes that somebody mends it.
func (t *LeaseTaker) isFatal(err error) bool {
	select {
	case <-t.first:
		return false
	default:
	}
	_, ok := errors.AsType[*PermanentError](err)
	return ok && !isNotFound(err)
}

// isDeleted reports whether the table is gone for good, and every place with it: it has not been found for a FailoverTime, in which
// every lease has ended. A table that was made a moment ago may be missed by a request or two.
func (t *LeaseTaker) isDeleted(err error, now time.Time) bool {
	if !isNotFound(err) {
		t.missing = time.Time{}
		return false
	}
	if t.missing.IsZero() {
		t.missing = now
	}
	return now.Sub(t.missing) >= t.cfg.FailoverTime
}

func (t *LeaseTaker) firstRoundDone() {
	select {
	case <-t.first:
	default:
		close(t.first)
	}
}

func (t *LeaseTaker) retried(what, key string, attempt int, wait time.Duration, err error) {
	if f := t.hooks.Retried; f != nil {
		f(config.RetryEvent{Worker: t.opts.Worker, LeaseKey: key, What: what, Attempt: attempt, Wait: wait, Err: err})
	}
}

// rowFailed reports that a row could not be read or taken, and rowDone that one could.
func (t *LeaseTaker) rowFailed(what, key string, err error) {
	t.mu.Lock()
	t.failures[key]++
	attempt := t.failures[key]
	if _, ok := errors.AsType[*PermanentError](err); ok {
		t.denied = err
	}
	t.mu.Unlock()
	t.retried(what, key, attempt, 0, err)
}

func (t *LeaseTaker) rowDone(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, key)
	t.denied = nil
}

// forgetFailures keeps the counts only of rows that will be tried again.
func (t *LeaseTaker) forgetFailures(moves Moves) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failures) == 0 {
		return
	}
	kept := map[string]int{}
	for _, l := range slices.Concat(moves.Take, moves.Ask) {
		if n := t.failures[l.Key]; n > 0 {
			kept[l.Key] = n
		}
	}
	t.failures = kept
}

// permanent is why rows can be neither read nor taken, nil if one could be.
func (t *LeaseTaker) permanent() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denied
}

// untilExpiry is when the next row of another worker may become stale, from now on.
func (t *LeaseTaker) untilExpiry(clock *loop.Clock) time.Duration {
	at, ok := t.View().NextExpiry()
	if !ok {
		return idle
	}
	return at.Sub(clock.Now())
}

// strays are rows that a take of ours got although it ended without an answer. They are taken again.
func (t *LeaseTaker) strays(view View) []Lease {
	var again []Lease
	for key, c := range t.claims {
		row := view.Get(key)
		_, held := t.renewer.Get(key)
		switch l := row.Lease; {
		case row.Knowledge == Unseen || held:
			delete(t.claims, key)
		case c.me.ours(*l):
			again = append(again, *l)
		case l.Counter != c.seen.Counter: // somebody else's by now, and our request cannot land any more
			delete(t.claims, key)
		}
	}
	return again
}

// giveBack frees, when the taker ends, the rows that takes without an answer got, so that peers need not wait for them to
// become stale.
func (t *LeaseTaker) giveBack(ctx context.Context) {
	ctx, cancel := loop.Timeout(context.WithoutCancel(ctx), min(t.cfg.FailoverTime/4, lastWrite), "give back leases")
	defer cancel()
	var group errgroup.Group
	group.SetLimit(t.renewer.parallel())
	for key, c := range t.claims {
		group.Go(func() error {
			row, found, err := t.table.Get(ctx, key)
			if err == nil && found && c.me.ours(row) {
				_, err = t.renewer.giveUp(ctx, row, c.me)
			}
			if err != nil && !errors.Is(err, ErrLeaseLost) {
				t.retried("give back lease", key, 1, 0, err)
			}
			return nil
		})
	}
	_ = group.Wait()
}

// expire acts on rows whose failover time has passed since the last look. It returns when to look again, 0 if as planned.
func (t *LeaseTaker) expire(ctx context.Context) time.Duration {
	at := loop.ClockOf(ctx).Now()
	if e, ok := t.View().NextExpiry(); !ok || e.After(at) {
		return 0
	}
	view := t.see(func(v View) View { return v.Own(t.renewer.own(), at) })
	moves := Plan(t.opts.Worker, t.wanted(view), t.cfg, t.opts.Strategy)
	stale := Moves{}
	for _, l := range t.unasked(moves.Take) {
		if l.Owner != "" {
			stale.Take = append(stale.Take, l)
		}
	}
	if t.execute(ctx, stale) {
		return paceOf(t.cfg.FailoverTime).fast
	}
	return moves.Again
}

// execute does what was planned, many things at once. It reports whether something did not turn out as seen.
func (t *LeaseTaker) execute(ctx context.Context, moves Moves) (failed bool) {
	var (
		group errgroup.Group
		mu    sync.Mutex // guards failed and after
		after = map[string]claim{}
	)
	group.SetLimit(t.renewer.parallel())
	do := func(l Lease, take func(context.Context, claim) (claim, bool)) {
		before, again := t.claims[l.Key]
		if !again {
			before = t.renewer.claim(l)
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			c, ok := take(ctx, before)
			mu.Lock()
			defer mu.Unlock()
			failed = failed || !ok
			after[l.Key] = c
			return nil
		})
	}
	for _, l := range moves.Take {
		do(l, t.take)
	}
	for _, l := range moves.Ask {
		do(l, t.ask)
	}
	_ = group.Wait()
	for key, c := range after {
		if c.first != nil {
			t.claims[key] = c
		} else {
			delete(t.claims, key) // from here on its nonce on a row means nothing: see strays
		}
	}
	return failed
}

// take takes a lease that nobody reads. An owned one is read first: its owner may have renewed it since we looked.
func (t *LeaseTaker) take(ctx context.Context, c claim) (claim, bool) {
	if c.seen.Owner != "" && c.first == nil {
		now, ok := t.read(ctx, c.seen)
		if !ok || now.Counter != c.seen.Counter {
			return claim{}, false
		}
		c.seen = now
	}
	return t.finish(ctx, c)
}

// read reads one row consistently and notes what it shows.
func (t *LeaseTaker) read(ctx context.Context, seen Lease) (Lease, bool) {
	read, cancel := loop.Timeout(ctx, t.cfg.FailoverTime/2, "read lease "+seen.Key)
	defer cancel()
	l, found, err := t.table.Get(read, seen.Key)
	if err != nil {
		if ctx.Err() == nil {
			t.rowFailed("read lease", seen.Key, err)
		}
		return Lease{}, false
	}
	at := loop.ClockOf(ctx).Now()
	if !found {
		t.see(func(v View) View { return v.Gone(seen.Key) })
		return Lease{}, false
	}
	t.see(func(v View) View { return v.Row(l, at) })
	return l, true
}

// lastWrite is how long a write under way may go on when the taker is told to end: what a stop leaves behind should be a row
// that we know of, but a table that does not answer must not hold a stop up, however long the FailoverTime is.
const lastWrite = 3 * time.Second

// finish sends the take. It is not given up at once when ctx ends: see lastWrite.
func (t *LeaseTaker) finish(ctx context.Context, c claim) (claim, bool) {
	if c.seen.StartAtMillis == 0 && t.opts.Pin != nil {
		c.seen.StartAtMillis = t.opts.Pin(c.seen)
	}
	take, cancel := loop.Outlive(ctx, lastWrite, "take lease "+c.seen.Key)
	defer cancel()
	h, err := t.renewer.take(take, t.table, &c)
	if err != nil {
		if errors.Is(err, ErrLeaseLost) {
			t.log.DebugContext(ctx, "another worker was faster", "lease", c.seen.Key, "err", err)
			return claim{}, false
		}
		t.rowFailed("take lease", c.seen.Key, err)
		return c, false
	}
	t.rowDone(c.seen.Key)
	t.see(func(v View) View { return v.Row(h.Lease(), h.clock.Now()) })
	if t.opts.Acquired != nil {
		t.opts.Acquired(h)
	}
	return claim{}, true
}
