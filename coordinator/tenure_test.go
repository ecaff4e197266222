package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// slowStart is a processor whose Initialize takes its time, whatever its context says.
type slowStart struct {
	processor.Base
	began   chan<- int64
	proceed <-chan struct{}
}

func (p slowStart) Initialize(_ context.Context, in processor.InitializationInput) error {
	p.began <- in.Grant.Token
	<-p.proceed
	return errors.New("too late")
}

func (slowStart) ProcessRecords(context.Context, processor.ProcessRecordsInput) error { return nil }

// The taker takes nothing under which user code of an earlier tenure still runs; but a lease may come by another way, such as a
// hand-off that was asked for before.
func TestTenure_waitsForUserCodeOfTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default("app", "orders").Complete()
		cfg.Logger, cfg.Hooks = slog.New(slog.DiscardHandler), &config.Hooks{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began, proceed := make(chan int64, 2), make(chan struct{})
		o := Options{
			Config: cfg, Stream: &Stream{Name: "orders"},
			Factory: func(processor.Shard) processor.RecordProcessor { return slowStart{began: began, proceed: proceed} },
		}
		c := newConsumers(o, newDirectory(o))
		c.release = func(context.Context, *leases.Held) error { return nil }
		c.onFinish = func() {}
		renewer := leases.NewRenewer(nil, cfg.LeaseManagement, leases.RenewerOptions{Worker: "w"})
		tenure := func(counter int64) {
			c.start(ctx, renewer.Add(ctx, leases.Written{Lease: leases.Lease{
				Key: "shardId-000000000000", Owner: "w", Counter: counter, Checkpoint: checkpoint.TrimHorizon,
			}}, time.Now()))
			synctest.Wait()
		}
		tenure(1)
		if got := <-began; got != 1 {
			t.Fatalf("user code runs under token %d, want 1", got)
		}
		tenure(2) // which ends the first
		select {
		case got := <-began:
			t.Errorf("user code runs under token %d beside that of token 1", got)
		default:
		}
		close(proceed)
		synctest.Wait()
		select {
		case got := <-began:
			if got != 2 {
				t.Errorf("user code runs under token %d, want 2", got)
			}
		default:
			t.Error("nothing runs under the second tenure, although nothing runs any more under the first")
		}
		cancel()
		c.abort(errStopping)
		synctest.Wait()
	})
}

// Of a lease that comes when user code's time is over, Run would otherwise wait for ever.
func TestTenure_callsNobodyOnceUserCodesTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default("app", "orders").Complete()
		cfg.Logger, cfg.Hooks = slog.New(slog.DiscardHandler), &config.Hooks{}
		o := Options{
			Config: cfg, Stream: &Stream{Name: "orders"},
			Factory: func(processor.Shard) processor.RecordProcessor { t.Error("a processor was made"); return nil },
		}
		c := newConsumers(o, newDirectory(o))
		c.release = func(context.Context, *leases.Held) error { return nil }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.abort(errStopping)
		renewer := leases.NewRenewer(nil, cfg.LeaseManagement, leases.RenewerOptions{Worker: "w"})
		c.start(ctx, renewer.Add(ctx, leases.Written{Lease: leases.Lease{
			Key: "shardId-000000000000", Owner: "w", Counter: 1, Checkpoint: checkpoint.TrimHorizon,
		}}, time.Now()))
		synctest.Wait()
	})
}
