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
		if len(p.turns) != 0 {
			t.Errorf("%d turns are still taken", len(p.turns))
		}
	})
}

func TestRequest_givesUpItsTurnWithItsContext(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		p := w.polling()
		for range requestsAtOnce {
			p.turns <- struct{}{}
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
