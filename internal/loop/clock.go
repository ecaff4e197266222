package loop

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock is one process's time. The zero value is not usable; get one from [ClockOf] or [Real].
// All methods are safe for concurrent use.
type Clock struct {
	now      func() time.Time
	wall     func() time.Time
	newTimer func(time.Duration) *Timer
	call     func(time.Duration, func()) (stop func() bool)
}

// Timer is a timer of some [Clock]. It fires once, by sending on C.
type Timer struct {
	C     <-chan time.Time
	stop  func() bool
	reset func(time.Duration)
}

// Stop prevents the timer from firing. It reports whether it did so.
func (t *Timer) Stop() bool { return t.stop() }

// Reset makes the timer fire after d. A value that fired before Reset is never received after it.
func (t *Timer) Reset(d time.Duration) { t.reset(d) }

// NewClock makes a clock from its parts; it exists for the simulator. now must be monotonic; wall is what a wall clock
// shows, which goes on during a suspend; newTimer counts in the time of now.
func NewClock(now, wall func() time.Time, newTimer func(time.Duration) *Timer) *Clock {
	return &Clock{now: now, wall: wall, newTimer: newTimer, call: waiting(newTimer)}
}

// waiting makes a function as [time.AfterFunc] of timers that can only be waited for: by a goroutine for each.
func waiting(newTimer func(time.Duration) *Timer) func(time.Duration, func()) (stop func() bool) {
	return func(d time.Duration, f func()) (stop func() bool) {
		t, stopped := newTimer(d), make(chan struct{})
		var decided atomic.Bool // whether it is called or stopped: by who is first
		go func() {
			select {
			case <-t.C:
				if decided.CompareAndSwap(false, true) {
					f()
				}
			case <-stopped:
			}
		}()
		return func() bool {
			if !decided.CompareAndSwap(false, true) {
				return false
			}
			t.Stop()
			close(stopped)
			return true
		}
	}
}

// Calling returns the clock with another way to have a function called after a time, on a goroutine of its own: one that costs no
// goroutine before that. It exists for the simulator.
func (c *Clock) Calling(after func(time.Duration, func()) (stop func() bool)) *Clock {
	with := *c
	with.call = after
	return &with
}

// NewTimerOf makes a [Timer] from its parts; it exists for the simulator.
func NewTimerOf(c <-chan time.Time, stop func() bool, reset func(time.Duration)) *Timer {
	return &Timer{C: c, stop: stop, reset: reset}
}

var realClock = &Clock{
	now:  time.Now,
	wall: func() time.Time { return time.Now().Round(0) },
	newTimer: func(d time.Duration) *Timer {
		t := time.NewTimer(d)
		return &Timer{C: t.C, stop: t.Stop, reset: func(d time.Duration) { t.Reset(d) }}
	},
	call: func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
}

// Real is the clock of this process.
func Real() *Clock { return realClock }

type clockKey struct{}

// WithClock returns a context whose components live by c.
func WithClock(ctx context.Context, c *Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// ClockOf returns the clock of ctx: [Real] unless [WithClock] said otherwise.
func ClockOf(ctx context.Context) *Clock {
	if c, ok := ctx.Value(clockKey{}).(*Clock); ok {
		return c
	}
	return realClock
}

// Now reads the monotonic clock. Two readings may be subtracted; neither may be sent to, or compared with, another machine.
func (c *Clock) Now() time.Time { return c.now() }

// Wall reads the wall clock, without a monotonic part. It serves two purposes only: noticing that the process was
// suspended (the wall clock went on, the monotonic one did not), and stamps for people.
func (c *Clock) Wall() time.Time { return c.wall() }

// Since is Now minus t.
func (c *Clock) Since(t time.Time) time.Duration { return c.now().Sub(t) }

// NewTimer returns a timer that fires after d, at once if d is not positive.
func (c *Clock) NewTimer(d time.Duration) *Timer { return c.newTimer(d) }

// AfterFunc calls f after d, on a goroutine of its own, unless stop is called before that: it reports whether it was in time. What waits
// so needs neither a goroutine nor its stack.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) { return c.call(d, f) }

// Sleep waits for d, or until ctx is done; then it returns the context's cause.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	t := c.newTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
