package retrieval

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

func TestBudget_givesEachBusyShardTheSame(t *testing.T) {
	t.Parallel()
	for _, busy := range []int{1, 2, 5, 10} {
		b := newBudget(240 << 20)
		accounts := make([]account, busy)
		for range busy {
			b.open()
		}
		// All take what they can, in turns, in small pages.
		for more := true; more; {
			more = false
			for i := range accounts {
				if n := b.grant(&claim{of: &accounts[i], want: 1 << 20}); n == 1<<20 {
					more = true
				} else if n > 0 {
					b.settle(&accounts[i], n, 0, 0)
				}
			}
		}
		for i := range accounts {
			if got, want := accounts[i].held>>20, int64(240/(busy+2)); got < want-1 || got > want+1 {
				t.Errorf("one of %d shards holds %d MiB, want %d", busy, got, want)
			}
		}
	}
}

func TestBudget_givesASmallPageToAShardThatHoldsNone(t *testing.T) {
	t.Parallel()
	b := newBudget(20 << 20)
	accounts := make([]account, 40)
	for range accounts {
		b.open()
	}
	for i := range accounts {
		// Each keeps the largest page that it gets.
		n, err := b.claim(t.Context(), &accounts[i], 12<<20, nil)
		if err != nil || n < smallestClaim {
			t.Fatalf("shard %d gets %d, %v", i, n, err)
		}
	}
	if b.used > b.total {
		t.Errorf("%d bytes are held of %d", b.used, b.total)
	}
	// Whoever holds something waits until enough was handled.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := b.claim(ctx, &accounts[39], 1<<20, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("claim = %d, %v while the budget is spent", n, err)
	}
	b.release(&accounts[0], accounts[0].held)
	if n, err := b.claim(t.Context(), &accounts[39], 1<<20, nil); err != nil || n != 1<<20 {
		t.Fatalf("claim = %d, %v", n, err)
	}
}

// With 1,000 shards, each of which would get 64 KiB, the small pages alone would be as much as this budget.
func TestBudget_isNotOverdrawnByManyShardsThatStandStill(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{100, 257, 1000, 10_000} {
		b := newBudget(64 << 20)
		accounts := make([]account, shards)
		for range accounts {
			b.open()
		}
		for more := true; more; { // until nobody gets anything more, as if no processor ever finished
			more = false
			for i := range accounts {
				more = b.grant(&claim{of: &accounts[i], want: 12 << 20}) > 0 || more
			}
		}
		if used := float64(b.used) / float64(b.total); used < 0.9 || used > 1 {
			t.Errorf("%d shards hold %.2f of the budget, want 0.90 to 1.00", shards, used)
		}
		for i := range accounts {
			if accounts[i].held == 0 {
				t.Fatalf("shard %d of %d got nothing", i, shards)
			}
		}
	}
}

func TestBudget_addsUpWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		total := rapid.Int64Range(1, 1<<20).Draw(rt, "total")
		b := newBudget(total)
		accounts := make([]account, rapid.IntRange(1, 6).Draw(rt, "shards"))
		for range accounts {
			b.open()
		}
		pages := make([][]int64, len(accounts))
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(accounts)-1).Draw(rt, "shard")
			a := &accounts[i]
			switch {
			case len(pages[i]) > 0 && rapid.Bool().Draw(rt, "release"):
				b.release(a, pages[i][0])
				pages[i] = pages[i][1:]
			default:
				free := b.total - b.used
				n := b.grant(&claim{of: a, want: rapid.Int64Range(1, 1<<20).Draw(rt, "want")})
				if n == 0 {
					continue
				}
				if n > free && n > smallestClaim {
					rt.Fatalf("granted %d of %d free bytes", n, free)
				}
				page := rapid.Int64Range(0, n).Draw(rt, "page")
				b.settle(a, n, page, 1)
				if page > 0 {
					pages[i] = append(pages[i], page)
				}
			}
			var used int64
			for i := range accounts {
				var held int64
				for _, p := range pages[i] {
					held += p
				}
				if held != accounts[i].held {
					rt.Fatalf("shard %d holds %d, booked %d", i, held, accounts[i].held)
				}
				used += held
			}
			if used != b.used {
				rt.Fatalf("%d held, booked %d", used, b.used)
			}
		}
		for i := range accounts {
			b.close(&accounts[i])
		}
		if b.used != 0 || b.holding != 0 {
			rt.Fatalf("%d bytes are held by nobody, or by %d shards that are closed", b.used, b.holding)
		}
	})
}

// putBytes puts n records of size bytes into each shard.
func (w *world) putBytes(shards, n, size int) {
	w.t.Helper()
	data := make([]byte, size)
	for _, s := range w.list()[:shards] {
		for left := n; left > 0; {
			in := &kinesis.PutRecordsInput{StreamName: aws.String(stream)}
			for range min(left, max(1, min(500, 4<<20/size))) {
				in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: data, PartitionKey: aws.String("k"), ExplicitHashKey: s.HashKeyRange.StartingHashKey})
			}
			if _, err := w.user.PutRecords(w.t.Context(), in); err != nil {
				w.t.Fatal(err)
			}
			left -= len(in.Records)
		}
	}
}

// Processors that never finish their first batch hold what they have; catching up must stay within the budget, and the one
// shard whose processor works must go on.
func TestPolling_keepsToItsBudgetAndStarvesNobody(t *testing.T) {
	bubble(t, 9, func(ctx context.Context, w *world) {
		const total = 4 << 20
		w.cfg.ByteBudget = total
		w.putBytes(9, 600, 2500) // 1.5 MB a shard
		p := w.polling()
		var peak int64
		look := func() {
			p.budget.mu.Lock()
			defer p.budget.mu.Unlock()
			peak = max(peak, p.budget.used)
		}
		var sources []processor.RecordSource
		for i := range 9 {
			sources = append(sources, w.open(ctx, p, fmt.Sprintf("shardId-%012d", i), checkpoint.TrimHorizon))
		}
		for _, s := range sources[:8] {
			for {
				b, err := s.Next(ctx) // and never released
				look()
				if err != nil {
					t.Fatal(err)
				}
				if len(b.Records) > 0 {
					break
				}
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		look()
		start := time.Now()
		w.take(ctx, sources[8], 600)
		look()
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("the working shard took %v", d)
		}
		if peak > total {
			t.Errorf("%d bytes were held, the budget is %d", peak, total)
		}
		for _, s := range sources {
			s.Close()
		}
		if p.budget.used != 0 {
			t.Errorf("%d bytes are held after all was closed", p.budget.used)
		}
	})
}

// Shards that all have much to read get about the same.
func TestPolling_sharesItsBudgetEvenly(t *testing.T) {
	bubble(t, 6, func(ctx context.Context, w *world) {
		w.cfg.ByteBudget, w.cfg.MaxPendingBatches = 3<<19, 100
		w.putBytes(6, 1000, 1000) // 1 MB a shard
		p := w.polling()
		sources := make([]*source, 6)
		for i := range sources {
			sources[i] = w.open(ctx, p, fmt.Sprintf("shardId-%012d", i), checkpoint.TrimHorizon).(*source)
		}
		// Each processor needs a second for a batch. After a while every shard has got about a sixth of all.
		read := make([]int, len(sources))
		for range 15 {
			for i, s := range sources {
				b, err := s.Next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				read[i] += len(b.Records)
				time.Sleep(time.Second)
				b.Release()
			}
		}
		least, most := read[0], read[0]
		for i, s := range sources {
			least, most = min(least, read[i]), max(most, read[i])
			s.Close()
		}
		if least == 0 || most > 3*least {
			t.Errorf("records read: %v", read)
		}
	})
}
