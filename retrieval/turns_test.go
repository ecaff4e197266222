package retrieval

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// A turn that is lost keeps a shard unread for ever once all of them are.
func TestTurns_noneIsLostOrGivenTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			most := rapid.IntRange(1, 3).Draw(rt, "turns")
			turns := newTurns(most)
			var mu sync.Mutex
			var began, want []int // in the order in which they came
			var waiting []func() bool
			var numbers []int // of those that wait
			running := 0
			for i := range rapid.IntRange(0, 40).Draw(rt, "steps") {
				switch rapid.SampledFrom([]string{"enter", "leave", "stop"}).Draw(rt, "step") {
				case "enter":
					if running < most {
						running++
						want = append(want, i)
						turns.enter(func() { mu.Lock(); defer mu.Unlock(); began = append(began, i) })
						break
					}
					numbers = append(numbers, i)
					waiting = append(waiting, turns.enter(func() { mu.Lock(); defer mu.Unlock(); began = append(began, i) }))
				case "leave":
					if running == 0 {
						break
					}
					turns.leave()
					if len(numbers) == 0 {
						running--
						break
					}
					want = append(want, numbers[0])
					numbers, waiting = numbers[1:], waiting[1:]
				case "stop":
					if len(waiting) == 0 {
						break
					}
					k := rapid.IntRange(0, len(waiting)-1).Draw(rt, "who")
					if !waiting[k]() {
						rt.Fatal("one that waits was not in time to stop")
					}
					if waiting[k]() {
						rt.Fatal("it could be stopped twice")
					}
					numbers, waiting = slices.Delete(numbers, k, k+1), slices.Delete(waiting, k, k+1)
				}
				synctest.Wait()
				if !slices.Equal(began, want) {
					rt.Fatalf("%v had a turn, want %v", began, want)
				}
			}
			if turns.free != most-running {
				rt.Fatalf("%d turns are free, want %d of %d", turns.free, most-running, most)
			}
		})
	})
}

func TestTurns_awaitEndsWithItsContextAndKeepsNone(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, _ *world) {
		turns := newTurns(1)
		if err := turns.await(ctx); err != nil {
			t.Fatal(err)
		}
		why := errors.New("enough")
		ended, end := context.WithCancelCause(ctx)
		got := make(chan error, 1)
		go func() { got <- turns.await(ended) }()
		synctest.Wait()
		end(why)
		if err := <-got; !errors.Is(err, why) {
			t.Errorf("error %v, want the cause", err)
		}
		turns.leave()
		if turns.free != 1 {
			t.Errorf("%d turns are free, want 1", turns.free)
		}
	})
}

// Not parallel: it counts what the whole process has.
func TestPolling_shardsThatWaitForTheirTurnCostNoGoroutine(t *testing.T) {
	const shards = 1500
	alone(t, shards, func(ctx context.Context, w *world) {
		w.server.Inject(emulator.Rule{Client: "reader", Effect: emulator.Delay(150 * time.Millisecond)})
		p := w.polling()
		before := runtime.NumGoroutine()
		sources := make([]processor.RecordSource, shards)
		for i := range sources {
			sources[i] = w.open(ctx, p, fmt.Sprintf("shardId-%012d", i), checkpoint.TrimHorizon)
		}
		most := 0
		for range 20 { // a second, in which 100 at once make 700 requests
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			most = max(most, runtime.NumGoroutine()-before)
		}
		if most > 10*requestsAtOnce { // the server's included
			t.Errorf("%d goroutines while %d shards wait for %d turns", most, shards, requestsAtOnce)
		}
		for _, s := range sources {
			s.Close()
		}
		for _, s := range sources {
			if _, err := s.Next(ctx); !errors.Is(err, errNoEnd) && !errors.Is(err, errUnwanted) {
				t.Fatalf("a source that was closed while it waited for its turn returned %v", err)
			}
		}
		synctest.Wait()
		if p.turns.free != requestsAtOnce {
			t.Errorf("%d turns are free, want all", p.turns.free)
		}
	})
}

// Whoever looks for the consumer of one stream may do so for long after another one has made the worker fall back. Those that come then are
// to poll, and begin with a turn.
func TestFanOut_whoIsToPollWaitsForNoRegistration(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		p := w.polling()
		f := NewFanOut((*kinesis.Client)(nil), p)
		start := Start{Stream: stream, ShardID: "shardId-000000000000", From: checkpoint.TrimHorizon}
		f.polls.Store(true)
		f.registration(start).turn <- struct{}{}
		p.turns = newTurns(1)
		s, err := f.Open(ctx, start)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Second + 50*time.Millisecond)
		synctest.Wait()
		if p.turns.free != 1 || len(w.fetches) == 0 {
			t.Errorf("%d turns are free after 5 s, and there were %d reads", p.turns.free, len(w.fetches))
		}
		s.Close()
	})
}

// A reader with a turn that waited for room would keep those from making their requests that hold the room.
func TestPolling_whoWaitsForRoomKeepsNoTurn(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		p := w.polling()
		p.turns = newTurns(1)
		all, err := p.budget.claim(ctx, new(account), w.cfg.ByteBudget, nil)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := p.budget.claim(ctx, new(account), w.cfg.ByteBudget-all, nil)
		if err != nil {
			t.Fatal(err)
		}
		reader := newReader(ctx, p, Start{Stream: stream, ShardID: "shardId-000000000000"})
		reader.account.held, reader.iterator, reader.admitted = 1, new(string), true
		p.turns.free = 0
		waits, stop := context.WithCancel(ctx)
		go func() { _, _, _ = reader.read(waits) }()
		synctest.Wait()
		if p.turns.free != 1 {
			t.Errorf("%d turns are free while a reader waits for room, %d and %d bytes being taken", p.turns.free, all, taken)
		}
		stop()
	})
}
