package shardlease_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// counting counts what its shards are given, and checkpoints it.
type counting struct {
	processor.Base
	initialize func(context.Context) error
	handled    func(records int)
}

func (p counting) Initialize(ctx context.Context, _ processor.InitializationInput) error {
	return p.initialize(ctx)
}

func (p counting) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	p.handled(len(in.Records))
	return in.Checkpointer.Checkpoint(ctx)
}

// What a shard in which nothing happens costs a worker: goroutines, and heap and stacks after a garbage collection. The
// process's size is about twice that, for the garbage in between. The server is in the same process; the worker measured
// follows another one, so that all rows were there before.
func BenchmarkIdleShards(b *testing.B) {
	const shards = 1000
	f := fleettest.New(b, shards)
	idle := func(id string) *fleettest.Worker {
		var ready sync.WaitGroup
		ready.Add(shards)
		w := f.StartWith(id, func(processor.Shard) processor.RecordProcessor {
			return counting{initialize: func(context.Context) error { ready.Done(); return nil }, handled: func(int) {}}
		})
		ready.Wait()
		return w
	}
	if err := idle("first").Stop(); err != nil {
		b.Fatal(err)
	}
	var goroutines, bytes float64
	for i := 0; b.Loop(); i++ {
		g0, m0 := inUse()
		w := idle(fmt.Sprint("w", i))
		settle := time.NewTimer(2 * time.Second) // twice as long as a shard takes that is asked as seldom as can be
		<-settle.C
		g, m := inUse()
		goroutines += float64(g - g0)
		bytes += float64(m - m0)
		if err := w.Stop(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(goroutines/shards/float64(b.N), "goroutines/shard")
	b.ReportMetric(bytes/shards/float64(b.N), "B/shard")
	b.ReportMetric(0, "ns/op")
}

func inUse() (goroutines int, bytes int64) {
	for range 5 { // a stack is halved at each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}

// Draining 300,000 records of 200 bytes in 16 shards: by a worker that holds all leases, checkpoints each batch and is about
// to read, and by a bare loop over GetRecords with a goroutine a shard. The ratio is what counts; 1 means that the worker
// takes as long.
func BenchmarkDrain(b *testing.B) {
	const shards, perShard = 16, 18_750
	f := fleettest.New(b, shards)
	list := fill(b, f, perShard)
	var bare, ours time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		var group errgroup.Group
		for _, s := range list {
			group.Go(func() error { return bareLoop(b.Context(), f.Kinesis, *s.ShardId, perShard) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		bare += time.Since(began)

		var left atomic.Int64
		left.Store(shards * perShard)
		var held sync.WaitGroup
		held.Add(shards)
		begin, drained := make(chan struct{}), make(chan struct{})
		w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor {
			return counting{
				initialize: func(ctx context.Context) error {
					held.Done()
					select {
					case <-begin:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				},
				handled: func(n int) {
					if left.Add(-int64(n)) == 0 {
						close(drained)
					}
				},
			}
		}, func(c *config.Config) { c.ApplicationName = fmt.Sprint("drain", i) })
		held.Wait()
		began = time.Now()
		close(begin)
		<-drained
		ours += time.Since(began)
		if err := w.Stop(); err != nil {
			b.Fatal(err)
		}
	}
	records := float64(shards * perShard * b.N)
	b.ReportMetric(records/bare.Seconds(), "bare-records/s")
	b.ReportMetric(records/ours.Seconds(), "records/s")
	b.ReportMetric(ours.Seconds()/bare.Seconds(), "times-bare")
	b.ReportMetric(0, "ns/op")
}

func bareLoop(ctx context.Context, api *kinesis.Client, shard string, n int) error {
	at, err := api.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: aws.String(fleettest.Stream), ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		return err
	}
	for next := at.ShardIterator; n > 0; {
		out, err := api.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: next})
		if err != nil {
			return err
		}
		n -= len(out.Records)
		next = out.NextShardIterator
	}
	return nil
}

// fill puts n records of 200 bytes into each shard.
func fill(b *testing.B, f *fleettest.Fleet, n int) []types.Shard {
	b.Helper()
	list, err := f.Kinesis.ListShards(b.Context(), &kinesis.ListShardsInput{StreamName: aws.String(fleettest.Stream)})
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	for _, s := range list.Shards {
		for left := n; left > 0; left -= 500 {
			in := &kinesis.PutRecordsInput{StreamName: aws.String(fleettest.Stream)}
			for range min(left, 500) {
				in.Records = append(in.Records, types.PutRecordsRequestEntry{
					Data: data, PartitionKey: aws.String("key"), ExplicitHashKey: s.HashKeyRange.StartingHashKey,
				})
			}
			if _, err := f.Kinesis.PutRecords(b.Context(), in); err != nil {
				b.Fatal(err)
			}
		}
	}
	return list.Shards
}

// The time from Run to the first record, and until a record of each of 4 shards was delivered: for an application's very
// first worker, which has to create table and leases, and for one that is started when another has just stopped.
func BenchmarkStart(b *testing.B) {
	const shards = 4
	f := fleettest.New(b, shards)
	fill(b, f, 10)
	start := func(app, id string) (first, all time.Duration) {
		arrived := make(chan struct{}, shards)
		began := time.Now()
		w := f.StartWith(id, func(processor.Shard) processor.RecordProcessor {
			return uncounted{tell: sync.OnceFunc(func() { arrived <- struct{}{} })}
		}, func(c *config.Config) { c.ApplicationName = app })
		<-arrived
		first = time.Since(began)
		for range shards - 1 {
			<-arrived
		}
		all = time.Since(began)
		if err := w.Stop(); err != nil {
			b.Fatal(err)
		}
		return first, all
	}
	var sums [4]time.Duration
	for i := 0; b.Loop(); i++ {
		app := fmt.Sprint("start", i)
		for k, id := range []string{"a", "b"} {
			first, all := start(app, id)
			sums[2*k] += first
			sums[2*k+1] += all
		}
	}
	for i, unit := range []string{"ms-new-first", "ms-new-all", "ms-again-first", "ms-again-all"} {
		b.ReportMetric(float64(sums[i].Microseconds())/1000/float64(b.N), unit)
	}
	b.ReportMetric(0, "ns/op")
}

// uncounted tells of its records, and checkpoints nothing, so that the next worker reads them again.
type uncounted struct {
	processor.Base
	tell func()
}

func (p uncounted) ProcessRecords(context.Context, processor.ProcessRecordsInput) error {
	p.tell()
	return nil
}

func (uncounted) ShutdownRequested(context.Context, processor.ShutdownRequestedInput) error {
	return nil
}
