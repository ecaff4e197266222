package emulator_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// entries are n records of 200 bytes under different keys.
func entries(from, n int) []types.PutRecordsRequestEntry {
	data := bytes.Repeat([]byte("x"), 200)
	out := make([]types.PutRecordsRequestEntry, n)
	for i := range out {
		out[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String(strconv.Itoa(from + i)), Data: data}
	}
	return out
}

// BenchmarkPutRecords measures a producer on the SDK; one operation is a record of 200 bytes.
func BenchmarkPutRecords(b *testing.B) {
	server := emulator.New()
	if err := server.CreateStream("orders", 16); err != nil {
		b.Fatal(err)
	}
	k := kinesis.NewFromConfig(server.AWSConfig())
	b.ReportAllocs()
	for i := 0; i < b.N; i += 500 {
		if _, err := k.PutRecords(b.Context(), &kinesis.PutRecordsInput{StreamName: aws.String("orders"), Records: entries(i, 500)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkGetRecords measures a bare GetRecords loop on the SDK over 100,000 records of 200 bytes; one operation is a
// record.
func BenchmarkGetRecords(b *testing.B) {
	server := emulator.New()
	if err := server.CreateStream("orders", 1); err != nil {
		b.Fatal(err)
	}
	k := kinesis.NewFromConfig(server.AWSConfig())
	for i := 0; i < 100_000; i += 500 {
		if _, err := k.PutRecords(b.Context(), &kinesis.PutRecordsInput{StreamName: aws.String("orders"), Records: entries(i, 500)}); err != nil {
			b.Fatal(err)
		}
	}
	start, err := k.GetShardIterator(b.Context(), &kinesis.GetShardIteratorInput{
		StreamName: aws.String("orders"), ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n, it := 0, start.ShardIterator; n < b.N; {
		page, err := k.GetRecords(b.Context(), &kinesis.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(1000)})
		if err != nil {
			b.Fatal(err)
		}
		n += len(page.Records)
		if it = page.NextShardIterator; len(page.Records) == 0 {
			it = start.ShardIterator
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkIdlePoll measures a GetRecords that finds nothing.
func BenchmarkIdlePoll(b *testing.B) {
	server := emulator.New()
	if err := server.CreateStream("orders", 1000); err != nil {
		b.Fatal(err)
	}
	k := kinesis.NewFromConfig(server.AWSConfig())
	start, err := k.GetShardIterator(b.Context(), &kinesis.GetShardIteratorInput{
		StreamName: aws.String("orders"), ShardId: aws.String("shardId-000000000500"), ShardIteratorType: types.ShardIteratorTypeLatest,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.GetRecords(b.Context(), &kinesis.GetRecordsInput{ShardIterator: start.ShardIterator}); err != nil {
			b.Fatal(err)
		}
	}
}
