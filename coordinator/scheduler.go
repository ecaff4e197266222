package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// ErrAlreadyRun is returned by the second Run of a worker.
var ErrAlreadyRun = errors.New("worker was run before; make a new one to run again")

// errStopping is the cause with which a worker that stops ends its own loops.
var errStopping = errors.New("worker is stopping")

// Scheduler is one worker from start to stop. Its methods may be called from any goroutine. (KCL: Scheduler)
type Scheduler struct {
	o Options

	mu    sync.Mutex
	state State
	// until is the deadline of the Shutdown that began the stop, which replaces ShutdownGrace; zero if there is none.
	until time.Time

	shards atomic.Pointer[consumers] // nil before Run
	ready  chan struct{}             // closed after the first look at the table
	stop   chan struct{}             // closed by the first Shutdown
	force  chan struct{}             // closed when the context of a Shutdown ends: no more grace
	done   chan struct{}             // closed when Run has returned, or never will do anything
}

// NewScheduler makes a worker. It does no I/O.
func NewScheduler(o Options) *Scheduler {
	return &Scheduler{
		o: o, ready: make(chan struct{}), stop: make(chan struct{}), force: make(chan struct{}), done: make(chan struct{}),
	}
}

// apply moves the state and returns the one before.
func (s *Scheduler) apply(e event) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.state
	s.state = next(s.state, e)
	return before
}

// State returns where the worker is in its life.
func (s *Scheduler) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Ready is closed once the table is usable and the first look at it, with what was taken then, is over.
func (s *Scheduler) Ready() <-chan struct{} { return s.ready }

// Assignments returns the leases that this worker holds now, by key.
func (s *Scheduler) Assignments() []Assignment {
	if c := s.shards.Load(); c != nil {
		return c.assignments()
	}
	return nil
}

// Run works until ctx ends, Shutdown is called, or a fault cannot be mended by trying again, and returns when everything it
// started has ended: nil after a stop that was asked for, otherwise what went wrong. A Run after a Shutdown returns nil at
// once; a second Run returns [ErrAlreadyRun].
func (s *Scheduler) Run(ctx context.Context) error {
	switch before := s.apply(evRun); {
	case before == Stopped && s.shards.Load() == nil:
		return nil
	case before != New:
		return ErrAlreadyRun
	}
	hooks, worker := s.o.Config.Hooks, s.o.Config.WorkerID
	if hooks.WorkerStarted != nil {
		hooks.WorkerStarted(config.WorkerEvent{Worker: worker})
	}
	err := s.run(ctx)
	if s.o.Left != nil {
		if left := s.o.Left(ctx); left != nil {
			err = errors.Join(err, left)
		}
	}
	s.apply(evReleased)
	if hooks.WorkerStopped != nil {
		hooks.WorkerStopped(config.WorkerEvent{Worker: worker, Err: err})
	}
	close(s.done)
	return err
}

// run is the worker from Starting to Releasing. Three contexts nest, and each is ended on its own:
//
//	work    renewals and last writes: ends when every lease is given up
//	user    user code: ends with the grace period
//	seek    everything that would get more work: ends when the stop begins
//
// None of them ends with ctx, whose end only begins the stop.
func (s *Scheduler) run(ctx context.Context) error {
	work, endWork := context.WithCancelCause(loop.Rooted(context.WithoutCancel(ctx)))
	defer endWork(errStopping)
	user, cancelUser := context.WithCancelCause(work)
	defer cancelUser(errStopping)
	seek, endSeek := context.WithCancelCause(work)
	defer endSeek(errStopping)

	shards := newConsumers(s.o, newDirectory(s.o))
	endUser := func(cause error) {
		cancelUser(cause)
		shards.abort(context.Cause(user))
	}
	leases := newLeaseCoordinator(user, s.o, shards)
	s.shards.Store(shards)

	renewing, seeking := make(chan error, 1), make(chan error, 1)
	go func() { renewing <- leases.renewer.Run(work) }()
	go func() { seeking <- leases.seek(seek, s.started) }()

	var faults []error
	orderly := false
	note := func(err error) {
		if err != nil && !errors.Is(err, errStopping) {
			faults = append(faults, err)
		}
	}
	select {
	case <-ctx.Done():
		s.apply(evStop)
		orderly = true
	case <-s.stop:
		s.apply(evStop)
		orderly = true
	case err := <-shards.fatal:
		note(err)
		s.apply(evFailed)
	case err := <-seeking:
		note(err)
		seeking = nil
		s.apply(evFailed)
	case err := <-renewing:
		// Nothing is renewed any more: another process acts in our name, say. No lease of ours can be trusted, so user code
		// is told at once.
		note(err)
		renewing = nil
		s.apply(evFailed)
		endUser(err)
	}

	allowed := s.allowed(work)
	grace, endGrace := s.grace(user, allowed)
	if orderly {
		shards.close()
		leases.renewer.Leave(work)
	}
	endSeek(errStopping)
	noticed, noticing := loop.Timeout(work, afterGrace, "wait for the stream tracker, whose context has ended")
	defer noticing()
	if seeking != nil {
		note(<-seeking)
	}
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		leases.taker.Settle(grace)
	}()
	if orderly {
		leases.leave(grace, leaveFor(s.o.Config.LeaseManagement.FailoverTime, allowed), shards)
	}
	shards.drain(grace)
	<-settled
	endGrace()
	s.apply(evDrained)
	endUser(fmt.Errorf("%w: its time to stop is over", errStopping))
	shards.abandon(work)
	if leases.several != nil {
		note(leases.several.leftBehind(noticed))
	}

	endWork(errStopping)
	if renewing != nil {
		note(<-renewing)
	}
	return errors.Join(append(faults, shards.err())...)
}

// started is called after the first look at the table.
func (s *Scheduler) started() {
	s.apply(evStarted)
	close(s.ready)
}

// allowed is how long the stop that begins now may take: ShutdownGrace, unless it was begun by a Shutdown with a deadline.
func (s *Scheduler) allowed(ctx context.Context) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.IsZero() {
		return s.o.Config.Lifecycle.ShutdownGrace
	}
	return s.until.Sub(loop.ClockOf(ctx).Now())
}

// leaveFor is how long a worker that stops waits to be asked for its leases: 2.4 failover times, in which peers have looked
// twice, found it leaving for long enough, and asked, and it has renewed since. The last second of what is allowed, or tenth if
// that is less, is for telling processors whose leases nobody wants.
func leaveFor(failover, allowed time.Duration) time.Duration {
	return max(0, min(failover*12/5, allowed-min(time.Second, allowed/10)))
}

// grace returns a context that ends when consumers have had their time, unless the stop was begun by a Shutdown with a
// deadline of its own; in any case as soon as the context of a Shutdown ends.
func (s *Scheduler) grace(user context.Context, allowed time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(user)
	s.mu.Lock()
	patient := !s.until.IsZero()
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var over <-chan time.Time
		if !patient {
			timer := loop.ClockOf(user).NewTimer(allowed)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-ctx.Done():
		case <-over:
			cancel(fmt.Errorf("%w: ShutdownGrace of %v is over", errStopping, s.o.Config.Lifecycle.ShutdownGrace))
		case <-s.force:
			cancel(fmt.Errorf("%w: the time that Shutdown was given is over", errStopping))
		}
	}()
	return ctx, func() { cancel(errStopping); <-ended }
}

// Shutdown stops the worker gracefully and returns when Run has returned. If ctx ends first, user code's contexts are
// cancelled at once, Run returns as soon as it can, and Shutdown returns the context's cause without waiting for that. A
// deadline of the first Shutdown's ctx takes the place of ShutdownGrace; without one ShutdownGrace bounds the stop as well.
// Shutdown may be called before Run, which then does nothing, during the start, and any number of times.
func (s *Scheduler) Shutdown(ctx context.Context) error {
	s.beginStop(ctx)
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return nil
	default:
	}
	closeOnce(s.force)
	return context.Cause(ctx)
}

// beginStop is the part of Shutdown that only the first one does.
func (s *Scheduler) beginStop(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !closeOnce(s.stop) {
		return
	}
	if s.state == New {
		s.state = next(s.state, evStop)
		close(s.done)
	}
	if s.state <= Running {
		s.until, _ = ctx.Deadline()
	}
}

// closeOnce closes c unless it is closed, and reports whether it did. The caller holds a lock that guards c.
func closeOnce(c chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		close(c)
		return true
	}
}
