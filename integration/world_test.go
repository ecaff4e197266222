//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// The servers to run against, both or none: then it is the emulator.
const (
	envKinesis  = "SHARDLEASE_KINESIS_ENDPOINT"
	envDynamoDB = "SHARDLEASE_DYNAMODB_ENDPOINT"
)

// world is a stream of its own name and what is needed to stir it.
type world struct {
	app, stream             string
	kinesisURL, dynamodbURL string
	kinesis                 *kinesis.Client
	dynamodb                *dynamodb.Client
	number                  atomic.Int64 // of the last record
}

// newWorld creates a stream; it and the application's table are deleted when the test ends.
func newWorld(t *testing.T, shards int) *world {
	t.Helper()
	name := fmt.Sprintf("integration-%08x", rand.Uint32())
	w := &world{app: name, stream: name, kinesisURL: os.Getenv(envKinesis), dynamodbURL: os.Getenv(envDynamoDB)}
	switch {
	case w.kinesisURL == "" && w.dynamodbURL == "":
		url, stop, err := emulator.New().Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		w.kinesisURL, w.dynamodbURL = url, url
	case w.kinesisURL == "" || w.dynamodbURL == "":
		t.Fatalf("%s is %q and %s is %q, want both or none", envKinesis, w.kinesisURL, envDynamoDB, w.dynamodbURL)
	}
	w.kinesis, w.dynamodb = clients("test", w.kinesisURL, w.dynamodbURL)
	if _, err := w.kinesis.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &w.stream, ShardCount: aws.Int32(int32(shards))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_, err1 := w.kinesis.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: &w.stream})
		_, err2 := w.dynamodb.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &w.app})
		if err := errors.Join(err1, err2); err != nil {
			t.Log(err)
		}
	})
	w.eventually(t, "an active stream", func() bool {
		out, err := w.kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &w.stream})
		return err == nil && out.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive
	})
	return w
}

// within tells whether ok became true in time.
func (w *world) within(t *testing.T, d time.Duration, ok func() bool) bool {
	t.Helper()
	for end := time.Now().Add(d); !ok(); pause(t, 20*time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (w *world) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !w.within(t, patience, ok) {
		t.Fatalf("no %s in %v", what, patience)
	}
}

// open are the shards that can be written to, by their place on the ring.
func (w *world) open(t *testing.T) []types.Shard {
	t.Helper()
	out, err := w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &w.stream})
	if err != nil {
		t.Fatal(err)
	}
	open := slices.DeleteFunc(out.Shards, func(s types.Shard) bool { return s.SequenceNumberRange.EndingSequenceNumber != nil })
	slices.SortFunc(open, func(a, b types.Shard) int {
		return number(a.HashKeyRange.StartingHashKey).Cmp(number(b.HashKeyRange.StartingHashKey))
	})
	return open
}

func number(decimal *string) *big.Int {
	n, _ := new(big.Int).SetString(aws.ToString(decimal), 10)
	return n
}

// split splits a shard in the middle. It is safe to call from several goroutines.
func (w *world) split(t *testing.T, s types.Shard) {
	t.Helper()
	middle := new(big.Int).Add(number(s.HashKeyRange.StartingHashKey), number(s.HashKeyRange.EndingHashKey))
	middle.Rsh(middle, 1)
	w.reshard(t, func() error {
		_, err := w.kinesis.SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: &w.stream, ShardToSplit: s.ShardId, NewStartingHashKey: aws.String(middle.String()),
		})
		return err
	})
}

// merge merges two neighbours. It is safe to call from several goroutines.
func (w *world) merge(t *testing.T, a, b types.Shard) {
	t.Helper()
	w.reshard(t, func() error {
		_, err := w.kinesis.MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: &w.stream, ShardToMerge: a.ShardId, AdjacentShardToMerge: b.ShardId,
		})
		return err
	})
}

// reshard repeats a request until the stream, which takes one at a time, takes it.
func (w *world) reshard(t *testing.T, request func() error) {
	t.Helper()
	for {
		err := request()
		if err == nil {
			return
		}
		if _, busy := errors.AsType[*types.ResourceInUseException](err); !busy {
			t.Error(err)
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Error(err)
			return
		}
	}
}

// put puts n records with the next numbers, each with a key of its own, and returns them.
func (w *world) put(t *testing.T, prefix string, n int) []string {
	t.Helper()
	batch := make([]types.PutRecordsRequestEntry, n)
	records := make([]string, n)
	for i := range n {
		records[i] = fmt.Sprintf("%s-%d", prefix, w.number.Add(1))
		batch[i] = types.PutRecordsRequestEntry{PartitionKey: &records[i], Data: []byte(records[i])}
	}
	for len(batch) > 0 {
		out, err := w.kinesis.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &w.stream, Records: batch})
		if err != nil {
			t.Errorf("put records: %v", err)
			return nil
		}
		var refused []types.PutRecordsRequestEntry
		for i, r := range out.Records {
			if r.SequenceNumber == nil {
				refused = append(refused, batch[i])
			}
		}
		batch = refused
	}
	return records
}

// keepPutting puts records at a steady pace until the function it returns is called, which returns them.
func (w *world) keepPutting(t *testing.T) (stop func() []string) {
	t.Helper()
	var records []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			records = append(records, w.put(t, "new", 5)...)
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() []string {
		cancel()
		<-done
		return records
	}
}

// rows are the checkpoints in the lease table by lease key; none while there is no table.
func (w *world) rows(t *testing.T) map[string]string {
	t.Helper()
	out, err := w.dynamodb.Scan(t.Context(), &dynamodb.ScanInput{TableName: &w.app, ConsistentRead: aws.Bool(true)})
	if _, absent := errors.AsType[*dynamodbtypes.ResourceNotFoundException](err); absent {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, item := range out.Items {
		key, _ := item["leaseKey"].(*dynamodbtypes.AttributeValueMemberS)
		at, _ := item["checkpoint"].(*dynamodbtypes.AttributeValueMemberS)
		if key != nil && at != nil {
			rows[key.Value] = at.Value
		}
	}
	return rows
}
