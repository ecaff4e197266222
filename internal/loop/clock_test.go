package loop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// clocks are those of a process, and of a test, whose timers can only be waited for.
var clocks = map[string]func() *loop.Clock{
	"the real clock": loop.Real,
	"another clock": func() *loop.Clock {
		return loop.NewClock(time.Now, time.Now, func(d time.Duration) *loop.Timer {
			t := time.NewTimer(d)
			return loop.NewTimerOf(t.C, t.Stop, func(d time.Duration) { t.Reset(d) })
		})
	},
}

func TestAfterFunc_callsOnceUnlessItIsStoppedBefore(t *testing.T) {
	t.Parallel()
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				count := func() { calls.Add(1) }
				stop := clock().AfterFunc(time.Minute, count)
				time.Sleep(time.Minute - 1)
				if !stop() {
					t.Error("stop came too late, before the time was up")
				}
				if stop() {
					t.Error("a second stop was in time as well")
				}
				stop = clock().AfterFunc(time.Minute, count)
				time.Sleep(time.Hour)
				if n := calls.Load(); n != 1 {
					t.Errorf("it was called %d times, want once, and not what was stopped", n)
				}
				if stop() {
					t.Error("stop was in time, after the call")
				}
			})
		})
	}
}

func TestTimeout_endsByTheClockOfItsContext(t *testing.T) {
	t.Parallel()
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := loop.Timeout(loop.WithClock(t.Context(), clock()), time.Minute, "wait")
				defer cancel()
				began := time.Now()
				<-ctx.Done()
				if took, err := time.Since(began), context.Cause(ctx); took != time.Minute || !errors.Is(err, context.DeadlineExceeded) || err.Error() != "wait took longer than 1m0s" {
					t.Errorf("it ended after %v with %v", took, err)
				}
				ctx, cancel = loop.Timeout(loop.WithClock(t.Context(), clock()), time.Minute, "wait")
				cancel()
				if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled, its cause is %v", err)
				}
			})
		})
	}
}
