package retrieval

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/shardsync"
)

// A stream is deleted under a reader, or between two, and another one gets its name and its shards' ids.
func TestPolling_explainsAPlaceInAStreamThatIsNoMore(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]bool{"while it is read": true, "between two readers": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(3)
				src := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
				defer func() { src.Close() }()
				b, err := src.Next(ctx)
				if err != nil || len(b.Records) != 3 {
					t.Fatal(b, err)
				}
				b.Release()
				last := b.Records[2].Position()
				if !during {
					src.Close()
				}
				time.Sleep(time.Minute)
				gap := time.Hour
				if during {
					gap = 0
				}
				w.recreate(1, gap)
				w.put(5)
				began := time.Now()
				if !during {
					src = w.open(ctx, w.polling(), shard0, last)
				}
				for err == nil {
					var next processor.Batch
					if next, err = src.Next(ctx); err == nil {
						next.Release()
					}
					for _, r := range next.Records {
						t.Fatalf("a record of the new stream came: %s", r.Data)
					}
				}
				if _, permanent := errors.AsType[*shardsync.PermanentError](err); !permanent || !errors.Is(err, shardsync.ErrOtherHistory) {
					t.Fatalf("Next: %v", err)
				}
				for _, s := range []string{stream, shard0, last.SequenceNumber, "created at", "delete the rows"} {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("Next: %q lacks %q", err, s)
					}
				}
				if d := time.Since(began); d > 5*time.Second {
					t.Errorf("it took %v", d)
				}
				if n := w.requests("ListShards"); n > 2 { // an iterator of the old stream is of no shard either
					t.Errorf("%d listings", n)
				}
			})
		})
	}
}

// A place that is refused for another reason is tried again, and the service asked only once what it is about.
func TestPolling_looksOnceIntoAPlaceThatIsRefused(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(1)
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		src := w.open(ctx, w.polling(), shard0, checkpoint.ExtendedSequenceNumber{SequenceNumber: "9" + strings.Repeat("0", 60)})
		defer func() { src.Close() }()
		if _, err := src.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		retries := w.retried()
		if n := w.requests("ListShards"); n != 1 || len(retries) < 5 {
			t.Errorf("%d listings, %d retries", n, len(retries))
		}
		if err := retries[0].Err; !strings.Contains(err.Error(), "is it of another stream?") {
			t.Error(err)
		}
	})
}

// The same by fan-out: the new stream has no such consumer, nor such a place.
func TestFanOut_explainsAPlaceInAStreamThatIsNoMore(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(3)
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		_, last := w.take(ctx, s, 3)
		s.Close()
		time.Sleep(time.Minute)
		w.recreate(1, time.Hour)
		w.put(5)
		s = w.openFanOut(ctx, w.fanOut(), shard0, last)
		defer s.Close()
		var err error
		for err == nil {
			var b processor.Batch
			if b, err = s.Next(ctx); err == nil {
				b.Release()
			}
			for _, r := range b.Records {
				t.Fatalf("a record of the new stream came: %s", r.Data)
			}
		}
		if _, permanent := errors.AsType[*shardsync.PermanentError](err); !permanent || !errors.Is(err, shardsync.ErrOtherHistory) {
			t.Errorf("Next: %v, want that the stream was created anew", err)
		}
	})
}
