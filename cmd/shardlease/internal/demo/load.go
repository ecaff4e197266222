package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/producer"
)

// The producer's pace: all records in the time that the events need, but no faster than two cores can carry besides the
// fleet.
const (
	produceFor = 15 * time.Second
	fastest    = 12_000 // records a second
	beat       = 10 * time.Millisecond
)

// load is the producer: keyed, numbered records at an even pace.
type load struct {
	stream  string
	records int
	keys    int
	random  *rand.Rand
}

// keysFor spreads the records over enough keys to reach every shard, and gives each key a history to keep in order.
func keysFor(records int) int { return min(500, max(16, records/50)) }

// run puts all records and tells the board of each that was stored. The producer is in the emulator's process and needs no
// connection, so that no answer can be lost and nothing is stored twice.
func (l *load) run(ctx context.Context, api producer.API, b *board) error {
	p := producer.New(api, producer.Options{
		Stream: l.stream, Ordered: true, GiveUpAfter: 10 * time.Second,
		Accepted: func(r producer.Record, shard string) { b.store(r.Key, shard) },
	})
	in := make(chan producer.Record)
	generate, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(in)
		l.generate(generate, in, b)
	}()
	stats, err := p.Run(ctx, in)
	stop()
	<-done
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	if stats.Records != l.records {
		return fmt.Errorf("produce: %d records were stored, want %d", stats.Records, l.records)
	}
	return nil
}

func (l *load) generate(ctx context.Context, out chan<- producer.Record, b *board) {
	rate := min(float64(l.records)/produceFor.Seconds(), fastest)
	next := make([]int64, l.keys)
	start := b.now()
	for made := 0; made < l.records; {
		due := min(l.records, int(rate*(b.now()-start).Seconds())+1)
		for ; made < due; made++ {
			k := l.random.IntN(l.keys)
			next[k]++
			select {
			case out <- producer.Record{Key: fmt.Sprintf("key-%03d", k), Data: strconv.AppendInt(nil, next[k], 10)}:
			case <-ctx.Done():
				return
			}
		}
		if b.clock.Sleep(ctx, beat) != nil {
			return
		}
	}
}
