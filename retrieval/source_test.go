package retrieval

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

func TestSource_isClosedWhileItsReaderRests(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		time.Sleep(10*time.Second + time.Nanosecond)
		synctest.Wait()
		began, fetches := time.Now(), len(w.fetches)
		s.Close()
		s.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v to close", took)
		}
		if _, err := s.Next(ctx); !errors.Is(err, errNoEnd) {
			t.Errorf("a closed source says %v, want %v", err, errNoEnd)
		}
		time.Sleep(time.Minute)
		if n := len(w.fetches); n != fetches {
			t.Errorf("%d reads after it was closed", n-fetches)
		}
	})
}

func TestSource_readsNoMoreOnceItIsStopped(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		for name, stopAfter := range map[string]time.Duration{
			"before its first read": 0, "at rest": 10*time.Second + time.Nanosecond,
		} {
			s, _ := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon).(*source)
			time.Sleep(stopAfter)
			s.Stop()
			synctest.Wait()
			fetches := len(w.fetches)
			b, err := s.Next(ctx)
			if stopAfter > 0 && err == nil { // what was fetched before
				_, err = s.Next(ctx)
			}
			if err == nil {
				t.Errorf("stopped %s, it says %+v", name, b)
			}
			time.Sleep(time.Minute)
			if n := len(w.fetches); n != fetches {
				t.Errorf("%d reads after it was stopped %s", n-fetches, name)
			}
			s.Close()
		}
	})
}

func TestSource_endsAHangingReadWhenItIsClosed(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		api := &stuckAPI{KinesisAPI: w.api, called: make(chan struct{})}
		w.api = api
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		<-api.called
		began := time.Now()
		s.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v to close", took)
		}
		if _, err := s.Next(ctx); !errors.Is(err, errUnwanted) {
			t.Errorf("a closed source says %v, want %v", err, errUnwanted)
		}
	})
}

func TestSource_isNotReadInSilenceAfterAHookHasEndedItsGoroutine(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.seen = func(config.FetchEvent) { runtime.Goexit() }
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		if _, err := s.Next(ctx); !errors.Is(err, errNoEnd) {
			t.Errorf("it says %v, want %v", err, errNoEnd)
		}
		s.Close()
	})
}

func TestQueue_hasRoomForSoManyPagesAndTellsWhoeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue{most: 2}
		page := func(n int64) processor.Batch {
			return processor.Batch{Records: make([]processor.Record, 1), MillisBehindLatest: n}
		}
		ready := 0
		if q.await(func() { t.Error("a callback was called that another one has replaced") }) || q.await(func() { ready++ }) {
			t.Error("an empty queue has something")
		}
		q.offer(processor.Batch{})
		q.offer(processor.Batch{MillisBehindLatest: 99})
		if ready != 1 {
			t.Errorf("told %d times, want once", ready)
		}
		if err := q.put(t.Context(), page(1)); err != nil { // in the place of the empty one
			t.Error(err)
		}
		full := make(chan error, 1)
		go func() { full <- q.put(t.Context(), page(2)) }()
		synctest.Wait()
		select {
		case err := <-full:
			t.Errorf("there was room for a page more than %d (%v)", q.most-1, err)
		default:
		}
		for want := range int64(2) {
			if b, ok, _ := q.take(); !ok || b.MillisBehindLatest != want+1 {
				t.Errorf("took %v, want page %d", b, want+1)
			}
		}
		if err := <-full; err != nil {
			t.Error(err)
		}
		_, ok, came := q.take()
		if ok || came == nil {
			t.Error("an empty queue has something")
		}
		q.end()
		<-came
		if _, ok, came := q.take(); ok || came != nil || !q.await(nil) {
			t.Error("the end was not told")
		}
	})
}

func TestQueue_putEndsWithItsContext(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	q := queue{most: 1}
	if err := q.put(ctx, processor.Batch{Records: make([]processor.Record, 1)}); !errors.Is(err, why) {
		t.Errorf("error %v, want the cause", err)
	}
}

// stuckAPI does not answer.
type stuckAPI struct {
	KinesisAPI
	called chan struct{}
}

func (a *stuckAPI) GetShardIterator(ctx context.Context, _ *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	close(a.called)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
