package loop_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

func TestAlarm_ringsOnceUnlessItIsPutOff(t *testing.T) {
	t.Parallel()
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := loop.WithClock(context.WithoutCancel(t.Context()), clock())
				var rings atomic.Int64
				a := loop.ClockOf(ctx).NewAlarm(func() { rings.Add(1) })
				defer a.Close()
				rung := func(after time.Duration, want int64) {
					t.Helper()
					time.Sleep(after)
					synctest.Wait()
					if n := rings.Load(); n != want {
						t.Fatalf("it rang %d times, want %d", n, want)
					}
				}
				rung(time.Hour, 0)
				a.Set(time.Minute)
				rung(59*time.Second, 0)
				a.Set(time.Minute)
				rung(59*time.Second, 0)
				rung(time.Second, 1)
				rung(time.Hour, 1)
				a.Set(time.Second)
				a.Stop()
				rung(time.Hour, 1)
				a.Set(time.Second)
				rung(time.Second, 2)
				a.Set(time.Second)
				a.Close()
				rung(time.Hour, 2)
			})
		})
	}
}
