package shardlease_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

func TestShutdown_worksBeforeRunAndTwiceAndDuringTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		idle, err := shardlease.New(fleettest.Config("idle"), f.Server.ClientConfig("idle"), f.Audit.Processor("idle"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := idle.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown before Run: %v", err)
			}
		}
		if err := idle.Run(t.Context()); err != nil {
			t.Errorf("Run after Shutdown: %v, want nil", err)
		}

		down := f.Server.Inject(emulator.Rule{Client: "starting", Effect: emulator.Freeze()})
		starting := f.Start("starting")
		synctest.Wait()
		if err := starting.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown during the start: %v", err)
		}
		if err := starting.Wait(); err != nil {
			t.Errorf("Run that was shut down while it started: %v", err)
		}
		down()

		running := f.Start("running")
		<-running.Ready()
		for range 2 {
			if err := running.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		}
		if n := len(running.Assignments()); n != 0 {
			t.Errorf("%d assignments after Shutdown, want 0", n)
		}
	})
}

func TestShutdown_releasesEveryLeaseSoThatOthersNeedNotWaitForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 8)
		a := f.Start("a")
		f.Put(100, 20)
		f.WaitDelivered(5 * time.Second)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		f.Put(100, 20)
		f.Start("b")
		if took := f.WaitDelivered(10 * time.Second); took > time.Second {
			t.Errorf("released leases were read after %v, want 1s", took)
		}
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
	})
}

// stuck is a processor whose ProcessRecords returns only when it is let go, whatever its context says.
type stuck struct {
	processor.Base
	release   chan struct{}
	cancelled *atomic.Int64 // contexts seen to end, as a count
}

func (s *stuck) ProcessRecords(ctx context.Context, _ processor.ProcessRecordsInput) error {
	<-ctx.Done()
	s.cancelled.Add(1)
	<-s.release
	return context.Cause(ctx)
}

func TestRun_namesAProcessorThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Put(10, 1)
		release := make(chan struct{})
		var cancelled atomic.Int64
		w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor {
			return &stuck{release: release, cancelled: &cancelled}
		})
		<-w.Ready()
		time.Sleep(5 * time.Second)
		began := time.Now()
		err := w.Stop()
		if err == nil || !strings.Contains(err.Error(), "shardId-000000000000") || !strings.Contains(err.Error(), "ProcessRecords") {
			t.Errorf("Run returned %v, want an error that names shard and method", err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("Run returned after %v, want less than 30s", took)
		}
		if n := cancelled.Load(); n != 1 {
			t.Errorf("the processor saw %d contexts end, want 1", n)
		}
		close(release)
	})
}

func TestRun_cancelsAProcessorThatNeverReturnsWhenItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Put(10, 1)
		release := make(chan struct{})
		var cancelled atomic.Int64
		old := f.StartWith("old", func(processor.Shard) processor.RecordProcessor {
			return &stuck{release: release, cancelled: &cancelled}
		})
		<-old.Ready()
		time.Sleep(5 * time.Second)
		if cancelled.Load() != 0 {
			t.Fatal("the context ended while the lease was held")
		}
		old.CutOff()
		began := time.Now()
		for cancelled.Load() == 0 && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the context ended %v after the worker was cut off, want before its lease of 10s is over", took)
		}
		f.Start("new")
		f.WaitDelivered(15 * time.Second)
		close(release)
		old.Reconnect()
		time.Sleep(20 * time.Second)
		f.Check()
	})
}

func TestRun_retriesAProcessorThatFailsAndOneThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Put(100, 10)
		var failures atomic.Int64
		var panics, retries atomic.Int64
		inner := f.Audit.Processor("w")
		w := f.StartWith("w", func(s processor.Shard) processor.RecordProcessor {
			return &flaky{RecordProcessor: inner(s), failures: &failures}
		}, func(c *config.Config) {
			c.Hooks = &config.Hooks{
				Panicked: func(config.PanicEvent) { panics.Add(1) },
				Retried:  func(config.RetryEvent) { retries.Add(1) },
			}
		})
		f.WaitDelivered(time.Minute)
		if panics.Load() == 0 || retries.Load() < panics.Load() {
			t.Errorf("%d panics and %d retries were reported, want some of both", panics.Load(), retries.Load())
		}
		if err := w.Stop(); err != nil {
			t.Errorf("Run returned %v after failures that were mended, want nil", err)
		}
		f.Check()
	})
}

// flaky fails and panics in turn before it does its work.
type flaky struct {
	processor.RecordProcessor
	failures *atomic.Int64
}

func (p *flaky) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	switch n := p.failures.Add(1); n % 3 {
	case 1:
		return fmt.Errorf("failure %d", n)
	case 2:
		panic(fmt.Sprint("panic ", n))
	}
	return p.RecordProcessor.ProcessRecords(ctx, in)
}

func TestRun_endsWhenAnotherProcessUsesItsWorkerID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Put(100, 10)
		older := f.Start("same")
		<-older.Ready()
		time.Sleep(10 * time.Second)
		newer := f.Start("same")
		err := older.Wait()
		if err == nil || !strings.Contains(err.Error(), `"same"`) {
			t.Errorf("the older Run returned %v, want an error that names the worker id", err)
		}
		requireBothProcesses(t, err)
		f.Put(100, 10)
		f.WaitDelivered(10 * time.Second)
		if n := len(newer.Assignments()); n != 4 {
			t.Errorf("the newer process holds %d leases, want all 4", n)
		}
		f.Check()
	})
}
