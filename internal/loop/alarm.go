package loop

import (
	"math"
	"sync"
	"time"
)

// Alarm calls a function when a time is up that may be set again and again: it watches over something that cannot be waited
// for in a select, as a read from a connection, whose context the function ends. A thousand set alarms need no goroutine. Its methods are
// safe for concurrent use.
type Alarm struct {
	timer *Timer
	quit  func()
}

// NewAlarm makes an alarm that calls ring, on a goroutine of its own; it is not set. ring must not wait. Close must be called.
func (c *Clock) NewAlarm(ring func()) *Alarm {
	const never = time.Duration(math.MaxInt64)
	if c == realClock {
		t := time.AfterFunc(never, ring)
		return &Alarm{timer: &Timer{stop: t.Stop, reset: func(d time.Duration) { t.Reset(d) }}, quit: func() {}}
	}
	// A clock of the simulator can only be waited for.
	t := c.newTimer(never)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-t.C:
				ring()
			case <-quit:
				return
			}
		}
	}()
	return &Alarm{timer: t, quit: sync.OnceFunc(func() { close(quit); <-done })}
}

// Set makes the alarm ring once after d, and not when it would have before.
func (a *Alarm) Set(d time.Duration) { a.timer.Reset(d) }

// Stop keeps the alarm from ringing until it is set again. If it is about to, it may still ring once.
func (a *Alarm) Stop() { a.timer.Stop() }

// Close ends the alarm, which must not be set again.
func (a *Alarm) Close() {
	a.timer.Stop()
	a.quit()
}
