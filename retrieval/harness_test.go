package retrieval

import (
	"context"
	"math/big"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// world is an emulated stream inside a bubble, a client that is not ours, and what our hooks saw.
type world struct {
	t      *testing.T
	server *emulator.Server
	user   *kinesis.Client // puts and reshards
	api    KinesisAPI      // what the code under test uses; client name "reader"
	cfg    config.RetrievalConfig

	mu      sync.Mutex
	retries []config.RetryEvent
	fetches []config.FetchEvent
	trims   []config.TrimmedEvent
	seen    func(config.FetchEvent) // called for each fetch; may be nil
	n       int                     // records put
}

const stream = "orders"

func bubble(t *testing.T, shards int, f func(ctx context.Context, w *world), opts ...emulator.Option) {
	t.Helper()
	t.Parallel()
	alone(t, shards, f, opts...)
}

// alone is bubble without other tests beside it.
func alone(t *testing.T, shards int, f func(ctx context.Context, w *world), opts ...emulator.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: emulator.New(opts...), cfg: config.RetrievalConfig{
			MaxRecords: 10_000, IdleTime: 200 * time.Millisecond, MaxIdleTime: time.Second,
			BehindLatestThreshold: time.Second, ByteBudget: 64 << 20, MaxPendingBatches: 3, RequestTimeout: 30 * time.Second,
		}}
		if err := w.server.CreateStream(stream, shards); err != nil {
			t.Fatal(err)
		}
		w.user = kinesis.NewFromConfig(w.server.ClientConfig("user"))
		w.api = kinesis.NewFromConfig(w.server.ClientConfig("reader"))
		f(t.Context(), w)
	})
}

func (w *world) hooks() *config.Hooks {
	return &config.Hooks{
		Retried: func(ev config.RetryEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.retries = append(w.retries, ev)
		},
		Trimmed: func(ev config.TrimmedEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.trims = append(w.trims, ev)
		},
		Fetched: func(ev config.FetchEvent) {
			w.mu.Lock()
			w.fetches = append(w.fetches, ev)
			seen := w.seen
			w.mu.Unlock()
			if seen != nil {
				seen(ev)
			}
		},
	}
}

func (w *world) retried() []config.RetryEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]config.RetryEvent(nil), w.retries...)
}

func (w *world) polling() *Polling {
	return NewPolling(w.api, w.cfg, PollingOptions{Worker: "w", Hooks: w.hooks()})
}

func (w *world) open(ctx context.Context, p *Polling, shard string, from checkpoint.ExtendedSequenceNumber) processor.RecordSource {
	w.t.Helper()
	s, err := p.Open(ctx, Start{Stream: stream, ShardID: shard, LeaseKey: shard, From: from})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// put puts records whose data are running numbers, spread over the stream, and returns how many there are now.
func (w *world) put(n int) int {
	w.t.Helper()
	w.putKeyed(n, strconv.Itoa)
	return w.n
}

func (w *world) putKeyed(n int, key func(i int) string) {
	w.t.Helper()
	for n > 0 {
		in := &kinesis.PutRecordsInput{StreamName: aws.String(stream)}
		for range min(n, 500) {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: []byte(strconv.Itoa(w.n)), PartitionKey: aws.String(key(w.n))})
			w.n++
		}
		out, err := w.user.PutRecords(w.t.Context(), in)
		if err != nil || *out.FailedRecordCount != 0 {
			w.t.Fatalf("put: %v, %v", out, err)
		}
		n -= len(in.Records)
	}
}

func (w *world) split(shard string) {
	w.t.Helper()
	for _, s := range w.list() {
		if *s.ShardId != shard {
			continue
		}
		lo, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
		hi, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
		mid := lo.Add(lo, hi).Rsh(lo, 1)
		if _, err := w.user.SplitShard(w.t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String(stream), ShardToSplit: &shard, NewStartingHashKey: aws.String(mid.String()),
		}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) merge(a, b string) {
	w.t.Helper()
	if _, err := w.user.MergeShards(w.t.Context(), &kinesis.MergeShardsInput{
		StreamName: aws.String(stream), ShardToMerge: &a, AdjacentShardToMerge: &b,
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) list() []types.Shard {
	w.t.Helper()
	out, err := w.user.ListShards(w.t.Context(), &kinesis.ListShardsInput{StreamName: aws.String(stream)})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Shards
}

// take reads n records and the places where they stand.
func (w *world) take(ctx context.Context, s processor.RecordSource, n int) (data []string, last checkpoint.ExtendedSequenceNumber) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	for len(data) < n {
		b, err := s.Next(ctx)
		if err != nil {
			w.t.Fatalf("after %d of %d records: %v", len(data), n, err)
		}
		if b.End != nil {
			w.t.Fatalf("the shard ended after %d of %d records", len(data), n)
		}
		for _, r := range b.Records {
			data = append(data, string(r.Data))
			last = r.Position()
		}
		b.Release()
	}
	if len(data) > n {
		w.t.Fatalf("%d records, want %d", len(data), n)
	}
	return data, last
}

// toEnd reads to the end of the shard.
func (w *world) toEnd(ctx context.Context, s processor.RecordSource) (data []string, end *processor.End) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	for {
		b, err := s.Next(ctx)
		if err != nil {
			w.t.Fatalf("after %d records: %v", len(data), err)
		}
		for _, r := range b.Records {
			data = append(data, string(r.Data))
		}
		b.Release()
		if b.End != nil {
			return data, b.End
		}
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

const (
	shard0 = "shardId-000000000000"
	shard1 = "shardId-000000000001"
	shard2 = "shardId-000000000002"
)

// altered lets a test change what the service answers.
type altered struct {
	KinesisAPI
	getRecords       func(*kinesis.GetRecordsOutput)
	getShardIterator func(*kinesis.GetShardIteratorInput)
	listShards       func(*kinesis.ListShardsInput, *kinesis.ListShardsOutput)
}

func (a *altered) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, o ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	out, err := a.KinesisAPI.GetRecords(ctx, in, o...)
	if err == nil && a.getRecords != nil {
		a.getRecords(out)
	}
	return out, err
}

func (a *altered) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, o ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	if a.getShardIterator != nil {
		a.getShardIterator(in)
	}
	return a.KinesisAPI.GetShardIterator(ctx, in, o...)
}

func (a *altered) ListShards(ctx context.Context, in *kinesis.ListShardsInput, o ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	out, err := a.KinesisAPI.ListShards(ctx, in, o...)
	if err == nil && a.listShards != nil {
		a.listShards(in, out)
	}
	return out, err
}
