package retrieval

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// Draining a stream of 300,000 records of 200 bytes in 16 shards: through sources, and by a bare loop over GetRecords with
// one goroutine a shard. Compare the two figures of one run.
func BenchmarkDrain(b *testing.B) {
	const shards, perShard = 16, 18_750
	server := emulator.New()
	if err := server.CreateStream(stream, shards); err != nil {
		b.Fatal(err)
	}
	api := kinesis.NewFromConfig(server.AWSConfig())
	list, err := api.ListShards(b.Context(), &kinesis.ListShardsInput{StreamName: aws.String(stream)})
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	for _, s := range list.Shards {
		for left := perShard; left > 0; left -= 500 {
			in := &kinesis.PutRecordsInput{StreamName: aws.String(stream)}
			for range min(left, 500) {
				in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: data, PartitionKey: aws.String("key"), ExplicitHashKey: s.HashKeyRange.StartingHashKey})
			}
			if _, err := api.PutRecords(b.Context(), in); err != nil {
				b.Fatal(err)
			}
		}
	}
	report := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(shards*perShard*b.N)/b.Elapsed().Seconds(), "records/s")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var g errgroup.Group
			for _, s := range list.Shards {
				g.Go(func() error {
					it, err := api.GetShardIterator(b.Context(), &kinesis.GetShardIteratorInput{StreamName: aws.String(stream), ShardId: s.ShardId, ShardIteratorType: "TRIM_HORIZON"})
					if err != nil {
						return err
					}
					next := it.ShardIterator
					for n := 0; n < perShard; {
						out, err := api.GetRecords(b.Context(), &kinesis.GetRecordsInput{ShardIterator: next})
						if err != nil {
							return err
						}
						n += len(out.Records)
						next = out.NextShardIterator
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	b.Run("source", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := NewPolling(api, config.RetrievalConfig{
				MaxRecords: 10_000, IdleTime: 200 * time.Millisecond, MaxIdleTime: time.Second, BehindLatestThreshold: time.Second,
				ByteBudget: 256 << 20, MaxPendingBatches: 3,
			}, PollingOptions{})
			var g errgroup.Group
			for i := range shards {
				g.Go(func() error {
					s, err := p.Open(b.Context(), Start{Stream: stream, ShardID: fmt.Sprintf("shardId-%012d", i), From: checkpoint.TrimHorizon})
					if err != nil {
						return err
					}
					defer s.Close()
					for n := 0; n < perShard; {
						batch, err := s.Next(b.Context())
						if err != nil {
							return err
						}
						n += len(batch.Records)
						batch.Release()
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
}

// What a record costs beside the SDK's own work: our structs for a page of 10,000.
func BenchmarkRecords(b *testing.B) {
	in := make([]types.Record, 10_000)
	now := time.Now()
	for i := range in {
		in[i] = types.Record{SequenceNumber: aws.String("49600000000000000000000000000000000000000000000000000000"), PartitionKey: aws.String("key"), Data: make([]byte, 200), ApproximateArrivalTimestamp: &now}
	}
	b.ReportAllocs()
	for b.Loop() {
		records(in)
	}
}
