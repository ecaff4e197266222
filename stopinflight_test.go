package shardlease_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
)

// The request that asks is answered late, and the asker is stopped before it knows that it has asked.
func TestStop_waitsForWhatItMayHaveAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Start("owner")
		stop := f.Load(100 * time.Millisecond)
		time.Sleep(20 * time.Second)
		f.Server.Inject(emulator.Rule{
			Client: "asker", Operation: "UpdateItem", Effect: emulator.DelayReply(1500 * time.Millisecond),
			Match: func(body []byte) bool { return bytes.Contains(body, []byte("handoffTo")) },
		})
		asker := f.Start("asker")
		time.Sleep(200 * time.Millisecond)
		if err := asker.Stop(); err != nil {
			t.Error(err)
		}
		for key, row := range f.Rows() {
			if row["handoffTo"] != nil || row["checkpointOwner"] != nil {
				t.Errorf("row %s is still to be handed over to a worker that is gone", key)
			}
		}
		time.Sleep(30 * time.Second)
		stop()
		f.WaitDelivered(5 * time.Second)
		f.Check()
		gaps, text := fleettest.Gaps(f.Audit.Moves())
		t.Log(gaps, text)
	})
}

// A take is under way when the table stops answering and the worker is told to stop.
func TestStop_obeysItsDeadlineWhileATakeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Put(10, 1)
		if err := f.Start("w0").Stop(); err != nil {
			t.Error(err)
		}
		back := f.Server.Inject(emulator.Rule{Client: "w", Operation: "UpdateItem", Effect: emulator.Freeze()})
		defer back()
		w := f.Start("w", func(c *config.Config) { c.LeaseManagement.FailoverTime = 5 * time.Minute })
		time.Sleep(3 * time.Second)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_ = w.Shutdown(ctx)
		_ = w.Wait()
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("Run returned %v after a Shutdown with a deadline of 10s, want at most 20s", took)
		}
	})
}

// What was asked for cannot be looked at any more.
func TestStop_waitsNoLongerThanTheHandOffWhileTheTableIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Start("owner")
		f.Put(10, 1)
		time.Sleep(20 * time.Second)
		asker := f.Start("asker", func(c *config.Config) { c.LeaseManagement.GracefulHandoffTimeout = 10 * time.Second })
		time.Sleep(200 * time.Millisecond)
		defer f.Server.Inject(emulator.Rule{Client: "asker", Effect: emulator.Fail(400, "AccessDeniedException", "no")})()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_ = asker.Shutdown(ctx)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("stopped in %v, want GracefulHandoffTimeout, 10s, and a little", took)
		}
	})
}
