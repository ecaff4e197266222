package retrieval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// busyAPI knows how many requests were under way at once.
type busyAPI struct {
	KinesisAPI
	now, most atomic.Int64
}

func (a *busyAPI) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, opts ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	n := a.now.Add(1)
	defer a.now.Add(-1)
	for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); most = a.most.Load() {
	}
	return a.KinesisAPI.GetRecords(ctx, in, opts...)
}

func TestRequest_startsOnlySoManyAtOnce(t *testing.T) {
	const shards = 5 * requestsAtOnce
	bubble(t, shards, func(ctx context.Context, w *world) {
		api := &busyAPI{KinesisAPI: w.api}
		w.api = api
		w.server.Inject(emulator.Rule{Operation: "GetRecords", Effect: emulator.Delay(youth / 4)})
		p := w.polling()
		began := time.Now()
		for i := range shards {
			s := w.open(ctx, p, fmt.Sprintf("shardId-%012d", i), checkpoint.TrimHorizon)
			defer s.Close()
		}
		time.Sleep(5 * youth / 4)
		synctest.Wait()
		if n := api.most.Load(); n != requestsAtOnce {
			t.Errorf("%d requests at once, want %d", n, requestsAtOnce)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.fetches) < shards {
			t.Errorf("%d of %d shards were read after %v", len(w.fetches), shards, time.Since(began))
		}
	})
}

func TestRequest_thatHangsKeepsOthersWaitingForAMomentOnly(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		p := w.polling()
		hung, cancel := context.WithCancelCause(ctx)
		ended := make(chan error, requestsAtOnce)
		for range requestsAtOnce {
			r := newReader(ctx, p, Start{Stream: stream, ShardID: "hung"})
			go func() {
				ended <- r.request(hung, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			}()
		}
		synctest.Wait()
		began := time.Now()
		if err := newReader(ctx, p, Start{}).request(ctx, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != youth {
			t.Errorf("a request waited %v for others that hang, want %v", took, youth)
		}
		why := errors.New("enough")
		cancel(why)
		for range requestsAtOnce {
			if err := <-ended; !errors.Is(err, why) {
				t.Errorf("error %v, want the cause", err)
			}
		}
		if p.turns.free != requestsAtOnce {
			t.Errorf("%d turns are free, want all", p.turns.free)
		}
	})
}

func TestRequest_givesUpItsTurnWithItsContext(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		p := w.polling()
		for range requestsAtOnce {
			if err := p.turns.await(ctx); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := newReader(ctx, p, Start{}).request(ctx, func(context.Context) error { t.Error("it was made"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline", err)
		}
	})
}

func TestRequest_survivesAClientThatEndsItsGoroutine(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		err := newReader(ctx, w.polling(), Start{}).request(ctx, func(context.Context) error { runtime.Goexit(); return nil })
		if !errors.Is(err, errNoReturn) {
			t.Errorf("error %v, want %v", err, errNoReturn)
		}
	})
}

// deafAPI answers requests about one shard only.
type deafAPI struct {
	KinesisAPI
	hung atomic.Int64
}

func (a *deafAPI) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, opts ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	if *in.ShardId == shard0 {
		return a.KinesisAPI.GetShardIterator(ctx, in, opts...)
	}
	a.hung.Add(1)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// 500 requests a second may start whatever becomes of them, and 10,000 that hang for RequestTimeout each are 333.
func TestPolling_readsAShardInTimeWhileThoseOfTenThousandOthersHang(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	bubble(t, 1, func(ctx context.Context, w *world) {
		const others = 10_000
		api := &deafAPI{KinesisAPI: w.api}
		w.api = api
		p := w.polling()
		var sources []processor.RecordSource
		for i := range others {
			sources = append(sources, w.open(ctx, p, fmt.Sprintf("hung-%d", i), checkpoint.TrimHorizon))
		}
		healthy := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
		time.Sleep(time.Minute)
		for range 10 {
			time.Sleep(10 * time.Second)
			w.put(1)
			began := time.Now()
			w.take(ctx, healthy, 1)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("a record was read after %v", took)
			}
		}
		if n := api.hung.Load(); n < 2*others {
			t.Errorf("%d requests hung, want several of each of %d shards", n, others)
		}
		began := time.Now()
		for _, s := range append(sources, healthy) {
			s.Close()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v to close all", took)
		}
	})
}
