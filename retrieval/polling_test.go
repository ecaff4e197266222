package retrieval

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

func TestPolling_deliversEachRecordOnceWhateverFails(t *testing.T) {
	t.Parallel()
	faults := map[string]emulator.Effect{
		"throttled":    emulator.Throttle(),
		"refused":      emulator.Refuse(),
		"reply lost":   emulator.DropReply(),
		"body cut":     emulator.CutBody(200),
		"500":          emulator.Fail(http.StatusInternalServerError, "InternalFailure", ""),
		"no access":    emulator.Fail(http.StatusBadRequest, "AccessDeniedException", "not authorized to perform kinesis:GetRecords"),
		"key disabled": emulator.Fail(http.StatusBadRequest, "KMSDisabledException", ""),
		"expired":      emulator.Fail(http.StatusBadRequest, "ExpiredIteratorException", ""),
		"invalid":      emulator.Fail(http.StatusBadRequest, "InvalidArgumentException", ""),
		"too slow":     emulator.Delay(time.Minute),
	}
	for name, effect := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.cfg.MaxRecords = 50
				w.put(1000)
				w.server.Inject(emulator.Rule{Client: "reader", Service: emulator.Kinesis, Probability: 0.5, Seed: 7, Effect: effect})
				s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				got, _ := w.take(ctx, s, 1000)
				if diff := cmp.Diff(numbers(0, 1000), got); diff != "" {
					t.Error(diff)
				}
				n := w.retried()
				if len(n) == 0 {
					t.Error("nothing was retried")
				}
				for _, r := range n {
					if r.LeaseKey != shard0 || r.Worker != "w" || r.Attempt < 1 || r.Err == nil {
						t.Errorf("retry %+v", r)
					}
				}
			})
		})
	}
}

func TestPolling_readsAnIdleShardOnceASecondAndSaysHowFarItIs(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.polling(), shard0, checkpoint.Latest)
		defer s.Close()
		start, batches := time.Now(), 0
		for time.Since(start) < 5*time.Minute {
			b, err := s.Next(ctx)
			if err != nil || len(b.Records) != 0 {
				t.Fatal(b, err)
			}
			b.Release()
			batches++
		}
		n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests
		if n < 260 || n > 310 || batches < 260 {
			t.Errorf("%d reads and %d batches in 5 minutes of silence", n, batches)
		}
		// Records end the silence: the next reads come after the idle time.
		w.put(1)
		if _, err := s.Next(ctx); err != nil {
			t.Fatal(err)
		}
		before := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		if n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests - before; n < 1 || n > 3 {
			t.Errorf("%d reads in 400 ms after a record", n)
		}
	})
}

// Five reads a second and two megabytes: with the service's limits a reader that was refused once keeps to them.
func TestPolling_closeEndsAReaderThatWaitsForAnything(t *testing.T) {
	t.Parallel()
	waits := map[string]func(ctx context.Context, w *world, p *Polling){
		"a reply": func(_ context.Context, w *world, _ *Polling) {
			w.server.Inject(emulator.Rule{Client: "reader", Effect: emulator.Freeze()})
		},
		"a retry": func(_ context.Context, w *world, _ *Polling) {
			w.server.Inject(emulator.Rule{Client: "reader", Effect: emulator.Fail(400, "AccessDeniedException", "")})
		},
		"the idle time": func(context.Context, *world, *Polling) {},
		"the consumer":  func(_ context.Context, w *world, _ *Polling) { w.put(5000) },
		"the byte budget": func(_ context.Context, w *world, p *Polling) {
			p.budget.used = p.budget.total
			w.put(500)
		},
	}
	for name, prepare := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.cfg.MaxRecords = 100
				p := w.polling()
				prepare(ctx, w, p)
				s := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				at := time.Now()
				s.Close()
				if d := time.Since(at); d != 0 {
					t.Errorf("Close took %v", d)
				}
				if _, err := s.Next(ctx); err == nil {
					t.Error("Next works after Close")
				}
			})
		})
	}
}

func TestPolling_endsWithItsContext(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		cause := errors.New("lease lost")
		ctx, cancel := context.WithCancelCause(ctx)
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		cancel(cause)
		if _, err := s.Next(ctx); !errors.Is(err, cause) {
			t.Errorf("Next: %v", err)
		}
		synctest.Wait()
		if _, err := s.Next(w.t.Context()); !errors.Is(err, cause) {
			t.Errorf("Next: %v", err)
		}
	})
}

var _ processor.RecordSource = (*source)(nil)
