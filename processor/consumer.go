package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/internal/states"
)

// LeaseHandle is what a consumer needs of the lease that it works under. All methods are safe for concurrent use.
type LeaseHandle interface {
	checkpoint.Store
	// Context is done, with a cause that wraps checkpoint.ErrLeaseLost or says that the lease was released, as soon as this
	// worker may no longer act on the shard.
	Context() context.Context
	Grant() checkpoint.Grant
	// Usable returns nil if this worker may act now. It may block, to renew the lease first. An error for which
	// errors.Is(err, checkpoint.ErrLeaseLost) holds ends the tenure; after any other one it is asked again.
	Usable(context.Context) error
	// Processed is told how many bytes of records a batch had that was handled.
	Processed(bytes int)
}

// Upstream is whoever has started a consumer, as far as the consumer needs it. Its methods are called one at a time, but Resume.
type Upstream interface {
	// Open starts reading after from, which is the stored checkpoint or one that Initialize wrote. ctx is the lease's. That no
	// more records are wanted for another reason, as a requested stop, an [Announcer] is told, and any other source by Close. After an
	// error Open is called again.
	Open(ctx context.Context, from checkpoint.ExtendedSequenceNumber) (RecordSource, error)
	// ParentsEnded reports whether every parent was read to its end. It is asked each ParentPoll and after Wake, of a shard with parents.
	ParentsEnded(ctx context.Context) (bool, error)
	// EndShard makes the children of an ended shard known: their leases, then their names in the shard's own row. It is
	// called before the user's ShardEnded, and again after an error.
	EndShard(ctx context.Context, end End) error
	// Resume is called once after Run has returned with Outcome.Resting, from any goroutine, when Run is to be called again. It must
	// not block.
	Resume()
}

// ConsumerSettings is what consumers have in common; they keep the pointer. Hooks and Logger may be nil.
type ConsumerSettings struct {
	Factory    Factory
	ParentPoll time.Duration // between two questions whether a shard's parents have ended
	// Rests lets Run return while nothing is to be done, if the source is an [Announcer]: see Upstream.Resume.
	Rests bool

	Lifecycle config.LifecycleConfig
	Worker    string
	Hooks     *config.Hooks
	Logger    *slog.Logger
}

// ConsumerOptions is what a ShardConsumer works with. All fields but Pending are required.
type ConsumerOptions struct {
	Shard    Shard
	Position checkpoint.ExtendedSequenceNumber // the stored checkpoint
	Pending  *checkpoint.Pending               // what an earlier owner prepared; nil if nothing
	Lease    LeaseHandle
	Upstream Upstream
	*ConsumerSettings
}

// ShardConsumer leads one shard through one tenure of its lease: it waits for the parents, makes the processor, hands it
// records and tells it the end. The package comment says in which order the processor is called and what it may rely on.
// Methods other than Run may be called at any time, from any goroutine. (KCL: ShardConsumer)
type ShardConsumer struct {
	o ConsumerOptions

	over loop.Latch    // closed at the end of the consumer
	wake chan struct{} // holds one token after Wake; nil of a shard without parents

	mu       sync.Mutex
	status   Status
	stop     bool                    // a stop was requested
	stopSoon bool                    // a stop was requested for the end of a batch
	watching bool                    // for user code that goes on
	resting  bool                    // Run has returned, and Resume was not called yet
	roused   bool                    // something happened since the consumer last was about to rest
	aborted  error                   // why the grace period is over, if Abort was called
	endWork  context.CancelCauseFunc // nil before Run, as the next
	endFetch context.CancelCauseFunc // nil at rest, too
	reading  Announcer               // the source, if it is one, until it is closed

	// watches are the functions that were begun by the end of run, or of the lease. What ends them is nil before Run, and the first of
	// a context that does not end.
	watches          sync.WaitGroup
	unguard, unwatch func() bool

	// What follows belongs to the goroutine of Run.
	clock     *loop.Clock
	run       context.Context //nolint:containedctx // given to Run: done when the grace period is over
	work      context.Context //nolint:containedctx // given to user code: done at the end of the grace period or of the lease
	fetch     context.Context //nolint:containedctx // like work, and done when a stop is requested; nil at rest
	phase     states.Phase
	tracker   *checkpoint.Tracker
	processor RecordProcessor
	source    RecordSource
	batch     *Batch // fetched, not handled
	idle      bool   // the last batch was empty, or there was none yet
	end       *End   // what the last batch said, once it was handled
	lost      error  // why Usable refused, if it did before the lease's context was done
	failure   error  // for Outcome.Err
	backoff   loop.Backoff
	pause     time.Duration // before the next step
}

// NewShardConsumer makes a consumer. It does nothing before Run.
func NewShardConsumer(o ConsumerOptions) *ShardConsumer {
	c := &ShardConsumer{
		o:       o,
		status:  Status{LastDelivered: o.Position, LastCheckpoint: o.Position, MillisBehindLatest: -1},
		backoff: loop.Backoff{Base: o.Lifecycle.TaskBackoff, Max: o.Lifecycle.MaxTaskBackoff},
	}
	if len(o.Shard.ParentIDs) > 0 {
		c.wake = make(chan struct{}, 1)
	}
	if o.Hooks == nil || o.Logger == nil {
		c.o.ConsumerSettings = o.complete()
	}
	return c
}

// complete is the settings with hooks that do nothing and a silent logger, where there are none.
func (s ConsumerSettings) complete() *ConsumerSettings {
	if s.Hooks == nil {
		s.Hooks = &config.Hooks{}
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return &s
}

// Outcome is how a tenure ended, as far as the consumer is concerned.
type Outcome struct {
	// Resting: it has not ended, and there is nothing to do. See Upstream.Resume.
	Resting bool
	Reason  Reason
	// Finished: the shard's checkpoint is SHARD_END. Reason ShardEnd without it means that the stop came before the end
	// could be recorded; the shard's next owner will do it.
	Finished bool
	// Err is what went wrong and will not be tried again: the error of ShutdownRequested, of a source that gave up, of a
	// stop that ran out of time, a panic of LeaseLost. Failures that were repeated are told by config.Hooks.Retried only. A
	// lost lease is not an error of the consumer.
	Err error
}

// RequestShutdown asks the consumer to stop: the batch in hand is finished, then the processor is told, if it was
// initialised, and Run returns. The lease is still held then. Repeated calls, also before and after Run, do no harm.
func (c *ShardConsumer) RequestShutdown() {
	c.mu.Lock()
	c.stop = true
	c.mu.Unlock()
	c.stopReading(errStopRequested)
	c.rouse()
}

// stopReading ends what waits for records, and the source's reading ahead.
func (c *ShardConsumer) stopReading(cause error) {
	c.mu.Lock()
	end, source := c.endFetch, c.reading
	c.mu.Unlock()
	if end != nil {
		end(cause)
	}
	if source != nil {
		source.Stop()
	}
}

// Abort ends the grace period, as the end of the context given to Run does: user code's context is cancelled with cause, and nothing but
// LeaseLost is called after that. Repeated calls, also before and after Run, do no harm; the first cause counts.
func (c *ShardConsumer) Abort(cause error) {
	c.mu.Lock()
	if c.aborted == nil {
		c.aborted = cause
	}
	begun := c.endWork != nil
	c.mu.Unlock()
	if begun {
		c.abandon(cause)
	}
	c.rouse()
}

// abandon ends the contexts of user code and of reading.
func (c *ShardConsumer) abandon(cause error) {
	c.endWork(cause)
	c.stopReading(cause)
}

// overdue returns why the grace period is over, nil if it is not.
func (c *ShardConsumer) overdue() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted != nil {
		return c.aborted
	}
	return context.Cause(c.run)
}

// RequestShutdownAfterBatch is RequestShutdown once the batch in hand has been handled, or the next one if there is none: right
// after a batch, the fewest records are waiting. It returns false, and has no effect, if no records are being read: then there is no
// batch to wait for. Whoever cannot wait for a batch calls RequestShutdown after a while.
func (c *ShardConsumer) RequestShutdownAfterBatch() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.State != Processing {
		return false
	}
	c.stopSoon = true
	return true
}

// IsReading reports whether the processor is initialised and the consumer hands it records.
func (c *ShardConsumer) IsReading() bool { return c.Status().State == Processing }

// Wake makes a consumer that waits for its shard's parents ask at once whether they have ended.
func (c *ShardConsumer) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run works until the shard has ended, the lease is lost, or a stop was requested, and returns when no user code runs any
// more. The end of ctx is the end of the grace period: user code's context is cancelled, nothing but LeaseLost is called
// after that. Run cannot end a method that never returns; whoever cannot wait reads Status.Calling and leaves Run's
// goroutine behind. Run is called once, and again, with the same context, after each rest: see Upstream.Resume.
func (c *ShardConsumer) Run(ctx context.Context) Outcome {
	if c.tracker == nil {
		c.begin(ctx)
	} else {
		c.fetchAgain()
	}
	rests := false
	defer func() {
		if !rests {
			c.finish()
		}
	}()
	if c.o.Position.IsShardEnd() && c.phase.State == states.WaitingOnParents {
		c.move(states.AlreadyEnded)
	}
	for c.phase.State != states.Done {
		if rests = c.rests(); rests {
			return Outcome{Resting: true}
		}
		c.move(c.step()) //nolint:contextcheck // the contexts of a tenure are made in begin, and kept
	}
	return Outcome{
		Reason:   Reason(c.phase.Reason),
		Finished: c.tracker.Last().IsShardEnd(),
		Err:      c.failure,
	}
}

// begin makes what a tenure needs until finish.
func (c *ShardConsumer) begin(ctx context.Context) {
	c.clock, c.run, c.idle = loop.ClockOf(ctx), ctx, true
	lease := c.o.Lease.Context()
	work, endWork := context.WithCancelCause(lease)
	c.work = work
	c.mu.Lock()
	c.endWork = endWork
	aborted := c.aborted
	c.mu.Unlock()
	if aborted != nil {
		endWork(aborted)
	}
	c.fetchAgain()
	c.watches.Add(1)
	if ctx.Done() != nil {
		c.watches.Add(1)
		c.unguard = context.AfterFunc(ctx, func() {
			defer c.watches.Done()
			c.Abort(context.Cause(ctx))
			c.watchCancelled()
		})
	}
	c.unwatch = context.AfterFunc(lease, func() { //nolint:contextcheck // it is not made here
		defer c.watches.Done()
		c.rouse()
		c.watchCancelled()
	})
	c.tracker = checkpoint.NewTracker(c.o.Lease, c.o.Position, checkpoint.TrackerOptions{
		LeaseKey: c.o.Shard.LeaseKey, Observer: (*observed)(c),
	})
	c.entered()
}

// fetchAgain makes the context that rests end with, as whatever was requested by now wants it.
func (c *ShardConsumer) fetchAgain() {
	fetch, end := context.WithCancelCause(c.o.Lease.Context())
	c.fetch = fetch
	c.mu.Lock()
	c.endFetch = end
	stop, aborted := c.stop, c.aborted
	c.mu.Unlock()
	switch {
	case stop:
		end(errStopRequested)
	case aborted != nil:
		end(aborted)
	}
}

// finish ends what begin has made, and waits for the goroutines that the ends of contexts have started.
func (c *ShardConsumer) finish() {
	c.closeAll(errors.New("the shard's consumer has ended"))
	c.over.Close()
	for _, stop := range [...]func() bool{c.unguard, c.unwatch} {
		if stop != nil && stop() {
			c.watches.Done()
		}
	}
	c.watches.Wait()
	c.abandon(context.Canceled)
}

var errStopRequested = errors.New("a stop was requested")

// move applies an event.
func (c *ShardConsumer) move(e states.Event) {
	before := c.phase.State
	c.phase, _ = states.Next(c.phase, e)
	if e != states.Again && e != states.InitializeFailed && e != states.EndFailed {
		c.backoff.Reset()
	}
	if c.phase.Leaving() {
		c.pause = 0
	}
	if c.phase.State != before {
		c.pause = 0
		c.entered()
		if c.o.Hooks.StateChanged != nil {
			c.o.Hooks.StateChanged(config.StateEvent{
				Worker: c.o.Worker, LeaseKey: c.o.Shard.LeaseKey, From: before.String(), To: c.phase.State.String(),
			})
		}
	}
}

// step does what the phase asks for, unless something from outside comes first, and says what happened.
func (c *ShardConsumer) step() states.Event {
	if e, ok := c.interruption(); ok {
		return e
	}
	if c.pause > 0 {
		d := c.pause
		c.pause = 0
		c.sleep(d)
		return states.Again // look at interruptions first
	}
	switch c.phase.Action() {
	case states.AwaitParents:
		return c.awaitParents()
	case states.Initialize:
		return c.initialize()
	case states.Process:
		return c.process()
	case states.Notify:
		return c.notify()
	case states.RecordEnd:
		return c.recordEnd()
	case states.CallShardEnded:
		return c.callShardEnded()
	case states.CallLeaseLost:
		return c.callLeaseLost()
	case states.Leave, states.None:
	}
	return states.Left
}

// interruption returns the weightiest thing that happened outside and that the phase does not take into account yet.
func (c *ShardConsumer) interruption() (states.Event, bool) {
	changes := func(e states.Event) bool {
		p, _ := states.Next(c.phase, e)
		return p != c.phase
	}
	switch {
	case c.leaseIsLost() && changes(states.LeaseIsLost):
		return states.LeaseIsLost, true
	case c.overdue() != nil && changes(states.Aborted):
		c.failure = errors.Join(c.failure, fmt.Errorf("stop the consumer of %s in time, in state %v: %w",
			c.o.Shard.LeaseKey, c.phase.State, c.overdue()))
		return states.Aborted, true
	case c.stopIsRequested() && changes(states.StopRequested):
		return states.StopRequested, true
	}
	return states.Again, false
}

func (c *ShardConsumer) leaseIsLost() bool { return c.lost != nil || c.o.Lease.Context().Err() != nil }

func (c *ShardConsumer) stopIsRequested() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

// waiting is the context of whatever the consumer waits for by itself: a requested stop ends the wait, but only once.
func (c *ShardConsumer) waiting() context.Context {
	if c.phase.Stopping {
		return c.work
	}
	return c.fetch
}

// sleep waits for d, or until something happened outside.
func (c *ShardConsumer) sleep(d time.Duration) {
	t := c.clock.NewTimer(d)
	defer t.Stop()
	wake := c.wake
	if c.phase.State != states.WaitingOnParents {
		wake = nil
	}
	select {
	case <-c.waiting().Done():
	case <-wake:
	case <-t.C:
	}
}

// retry reports a failure and lets the next step wait. A failure that came of the lease's loss, or of the end of the
// grace period, is none.
func (c *ShardConsumer) retry(what string, err error) {
	if c.work.Err() != nil || c.lost != nil {
		return
	}
	c.pause = c.backoff.Next()
	if c.o.Hooks.Retried != nil {
		c.o.Hooks.Retried(config.RetryEvent{
			Worker: c.o.Worker, LeaseKey: c.o.Shard.LeaseKey, What: what, Attempt: c.backoff.Tries(), Wait: c.pause, Err: err,
		})
	}
}

// usable reports whether this worker may act now, and if not, arranges what follows.
func (c *ShardConsumer) usable() bool {
	ctx := c.waiting()
	err := c.o.Lease.Usable(ctx)
	switch {
	case err == nil:
		return !c.leaseIsLost() && c.overdue() == nil
	case errors.Is(err, checkpoint.ErrLeaseLost):
		// The lease's context may be done a little later; user code must not run until then.
		c.lost = err
		c.abandon(err)
	case ctx.Err() == nil:
		c.retry("renew the lease before using it", err)
	}
	return false
}

// closeAll gives back everything that only an owner needs. The first cause counts.
func (c *ShardConsumer) closeAll(cause error) {
	c.tracker.Close(cause)
	c.closeSource()
}

// release drops the batch in hand, handled or not.
func (c *ShardConsumer) release() {
	if c.batch != nil {
		b := c.batch
		c.batch = nil
		b.Release()
	}
}
