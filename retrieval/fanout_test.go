package retrieval

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func countWarnings(n *atomic.Int64) *slog.Logger { return slog.New(counting{n}) }

type counting struct{ n *atomic.Int64 }

func (counting) Enabled(context.Context, slog.Level) bool { return true }
func (c counting) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		c.n.Add(1)
	}
	return nil
}
func (c counting) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c counting) WithGroup(string) slog.Handler      { return c }

func TestFanOut_resumesAfterFiveMinutesWithoutAGap(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		times := 720
		if testing.Short() {
			times = 120
		}
		var got []string
		for range times {
			w.put(1)
			more, _ := w.take(ctx, s, 1)
			got = append(got, more...)
			time.Sleep(5 * time.Second)
		}
		if !slices.Equal(got, numbers(0, times)) {
			t.Error("the records are not what was put")
		}
		if n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "SubscribeToShard"}).Requests; n < int64(times/60) || n > int64(times/60+2) {
			t.Errorf("%d subscriptions in %d minutes, want one each five", n, times/12)
		}
		if r := w.retried(); len(r) != 0 {
			t.Errorf("retried %+v", r)
		}
	})
}

// LATEST is a number as soon as an event came, also if the shard is silent.
func TestFanOut_aSilentShardAtLatestMissesNothing(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(5)
		w.server.Inject(emulator.Rule{Client: "reader", Operation: "SubscribeToShard", Times: 3, Effect: emulator.CutEventAfter(7)})
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.Latest)
		defer s.Close()
		time.Sleep(time.Second)
		var seen []string
		for i := range 20 {
			time.Sleep(time.Duration(i) * 1700 * time.Millisecond)
			w.put(1)
		}
		for len(seen) < 20 {
			b, err := s.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Records {
				seen = append(seen, string(r.Data))
			}
			b.Release()
		}
		if diff := cmp.Diff(numbers(5, 25), seen); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	})
}

func TestFanOut_waitsUntilItMayTakeOver(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(3)
		f := w.fanOut()
		first := w.openFanOut(ctx, f, shard0, checkpoint.TrimHorizon)
		defer first.Close()
		_, last := w.take(ctx, first, 3)
		// A worker that believes that the lease is its own: the later one wins, the earlier one waits, and nothing is lost.
		began := time.Now()
		second := w.openFanOut(ctx, w.fanOut(), shard0, last)
		w.put(1)
		if got, _ := w.take(ctx, second, 1); !slices.Equal(got, numbers(3, 4)) {
			t.Errorf("got %v", got)
		}
		if took := time.Since(began); took < 5*time.Second || took > 12*time.Second {
			t.Errorf("it took over after %v, want 5 to 10 s", took)
		}
		second.Close()
		w.put(1)
		if got, _ := w.take(ctx, first, 2); !slices.Equal(got, numbers(3, 5)) {
			t.Errorf("got %v after the other one has gone", got)
		}
	})
}

// A processor that stands still: what was pushed and not handled stays within the budget, the connection is not read, and
// everything comes in the end.
func TestFanOut_keepsToTheBudgetWhileProcessorsStandStill(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	bubble(t, 4, func(ctx context.Context, w *world) {
		w.cfg.ByteBudget = 10 << 20
		w.cfg.MaxPendingBatches = 100
		f := w.fanOut()
		payload := strings.Repeat("x", 200_000)
		puts := 0
		for range 40 {
			in := &kinesis.PutRecordsInput{StreamName: new(stream)}
			for range 10 {
				in.Records = append(in.Records, entry(payload, rand.Int64()))
				puts++
			}
			if _, err := w.user.PutRecords(ctx, in); err != nil {
				t.Fatal(err)
			}
		}
		var sources []*source
		for _, s := range w.list() {
			sources = append(sources, w.openFanOut(ctx, f, *s.ShardId, checkpoint.TrimHorizon))
		}
		time.Sleep(20 * time.Minute) // subscriptions end meanwhile
		synctest.Wait()
		b := f.polling.budget
		b.mu.Lock()
		used := b.used
		b.mu.Unlock()
		if used > 11<<20 || used < 2<<20 {
			t.Errorf("%d bytes are fetched and not handled, want at most 10 MiB", used)
		}
		got := 0
		for got < puts {
			for _, s := range sources { // in turns: a shard whose events do not fit waits for the others'
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				if batch, err := s.Next(ctx); err == nil {
					got += len(batch.Records)
					batch.Release()
				}
				cancel()
			}
		}
		if got != puts {
			t.Errorf("%d records, want %d", got, puts)
		}
		for _, s := range sources {
			s.Close()
		}
		if b.used != 0 {
			t.Errorf("%d bytes are held when all is closed", b.used)
		}
	})
}

// Every processor of a worker stands still and holds what it has got. By polling a shard asks for as much as there is room for; an event
// comes whole or not at all, so that shards beyond the budget get nothing until somebody goes on. A single processor holds up nobody.
func TestFanOut_shardsGetNothingWhereAllProcessorsHoldMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	const shards, event = 12, 2_000_000
	for name, c := range map[string]struct {
		mode           config.RetrievalMode
		budget         int64
		still, waiting int // processors that stand still, and shards that get nothing meanwhile
	}{
		"polling":                           {config.Polling, 7 * event, shards, 0},
		"fan-out":                           {config.FanOut, 7 * event, shards, 6},
		"fan-out, one stands still":         {config.FanOut, 7 * event, 1, 0},
		"fan-out, with room for all events": {config.FanOut, 2*shards*event + 1<<20, shards, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, shards, func(ctx context.Context, w *world) {
				w.cfg.ByteBudget = c.budget
				w.putBytes(shards, event/2500, 2500)
				fanOut, polling := w.fanOut(), w.polling()
				var sources []processor.RecordSource
				for _, s := range w.list() {
					if c.mode == config.FanOut {
						sources = append(sources, w.openFanOut(ctx, fanOut, *s.ShardId, checkpoint.TrimHorizon))
					} else {
						sources = append(sources, w.open(ctx, polling, *s.ShardId, checkpoint.TrimHorizon))
					}
				}
				var reading sync.WaitGroup
				goOn := make(chan struct{})
				records := make([]int, shards)
				for i, s := range sources {
					reading.Go(func() {
						for records[i] < event/2500 {
							b, err := s.Next(ctx)
							if err != nil {
								t.Error(err)
								return
							}
							w.mu.Lock()
							records[i] += len(b.Records)
							w.mu.Unlock()
							if i < c.still && len(b.Records) > 0 {
								<-goOn
							}
							b.Release()
						}
					})
				}
				time.Sleep(11 * time.Minute) // subscriptions end meanwhile, and others follow
				w.mu.Lock()
				waiting := 0
				for _, n := range records {
					if n == 0 {
						waiting++
					}
				}
				w.mu.Unlock()
				if waiting != c.waiting {
					t.Errorf("%d of %d shards have got nothing, want %d", waiting, shards, c.waiting)
				}
				close(goOn)
				reading.Wait()
				for _, s := range sources {
					s.Close()
				}
			})
		})
	}
}

func TestFanOut_hasOneGoroutineAShard(t *testing.T) {
	alone(t, 50, func(ctx context.Context, w *world) {
		f := w.fanOut()
		before := runtime.NumGoroutine()
		var sources []*source
		for _, s := range w.list() {
			sources = append(sources, w.openFanOut(ctx, f, *s.ShardId, checkpoint.TrimHorizon))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// The emulator answers on one more for each; net/http has one more for each over HTTP/2.
		if n := runtime.NumGoroutine() - before; n > 2*50+10 {
			t.Errorf("%d goroutines for 50 shards", n)
		}
		for _, s := range sources {
			s.Close()
		}
	})
}

// They begin at once, as fast as the service answers; each first one ends at a moment of its own, and so do all that follow.
func TestFanOut_spreadsTheSubscriptionsOfManyShards(t *testing.T) {
	shards, most := 300, 12 // it is 1.25 a second on average from the second minute to the fifth
	if testing.Short() {
		shards, most = 50, 6
	}
	alone(t, shards, func(ctx context.Context, w *world) {
		f := w.fanOut()
		begun := map[time.Duration]int{} // by second
		began := time.Now()
		defer w.server.Observe(func(e emulator.Event) {
			if e.Operation == "SubscribeToShard" {
				w.mu.Lock()
				defer w.mu.Unlock()
				begun[e.At.Sub(began).Truncate(time.Second)]++
			}
		})()
		var sources []*source
		for _, s := range w.list() {
			sources = append(sources, w.openFanOut(ctx, f, *s.ShardId, checkpoint.Latest))
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		for _, s := range sources {
			s.Close()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		first, later := 0, 0
		for at, n := range begun {
			if at < 20*time.Second {
				first = max(first, n)
			} else if later = max(later, n); n > most {
				t.Errorf("%d subscriptions of %d begin in one second, %v after the first: want at most %d", n, shards, at, most)
			}
		}
		if first != shards {
			t.Errorf("%d subscriptions begin in one second at the start, want %d: the document is out of date", first, shards)
		}
		t.Logf("%d subscriptions begin in a second at most", later)
	})
}

func TestFanOut_closesWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]emulator.Rule{
		"for records":      {Operation: "none"},
		"for the answer":   {Operation: "SubscribeToShard", Effect: emulator.Freeze()},
		"for an event":     {Operation: "SubscribeToShard", Effect: emulator.SilenceAfter(0)},
		"for the consumer": {Operation: "RegisterStreamConsumer", Effect: emulator.Freeze()},
		"after a fault":    {Operation: "SubscribeToShard", Effect: emulator.Fail(400, "AccessDeniedException", "no")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				defer w.server.Inject(rule)()
				s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.Latest)
				time.Sleep(20 * time.Second)
				began := time.Now()
				s.Close()
				if took := time.Since(began); took > 0 {
					t.Errorf("to close took %v", took)
				}
			})
		})
	}
}

func entry(data string, hash int64) types.PutRecordsRequestEntry {
	return types.PutRecordsRequestEntry{Data: []byte(data), PartitionKey: new(strconv.FormatInt(hash, 36))}
}
