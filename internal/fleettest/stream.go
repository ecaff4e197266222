package fleettest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/ring"
)

// Shards returns every shard that the stream still knows, in the order of their ids.
func (f *Fleet) Shards() []kinesistypes.Shard { return f.list(nil) }

// OpenShards returns the shards that can be written to.
func (f *Fleet) OpenShards() []kinesistypes.Shard {
	return f.list(&kinesistypes.ShardFilter{Type: kinesistypes.ShardFilterTypeAtLatest})
}

// Open returns the ids of OpenShards.
func (f *Fleet) Open() []string {
	f.T.Helper()
	open := f.OpenShards()
	ids := make([]string, 0, len(open))
	for _, s := range open {
		ids = append(ids, *s.ShardId)
	}
	return ids
}

func (f *Fleet) list(filter *kinesistypes.ShardFilter) []kinesistypes.Shard {
	f.T.Helper()
	stream := Stream
	var shards []kinesistypes.Shard
	in := &kinesis.ListShardsInput{StreamName: &stream, ShardFilter: filter}
	for {
		out, err := f.Kinesis.ListShards(f.T.Context(), in)
		if err != nil {
			f.T.Fatal(err)
		}
		shards = append(shards, out.Shards...)
		if out.NextToken == nil {
			return shards
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
}

// Split splits an open shard in the middle of its hash keys.
func (f *Fleet) Split(id string) {
	f.T.Helper()
	for _, s := range f.OpenShards() {
		if *s.ShardId != id {
			continue
		}
		at := ring.Middle(s)
		stream := Stream
		if _, err := f.Kinesis.SplitShard(f.T.Context(), &kinesis.SplitShardInput{
			StreamName: &stream, ShardToSplit: &id, NewStartingHashKey: &at,
		}); err != nil {
			f.T.Fatalf("split %s at %s: %v", id, at, err)
		}
		return
	}
	f.T.Fatalf("split %s: it is not open", id)
}

// Merge merges two adjacent open shards.
func (f *Fleet) Merge(id, adjacent string) {
	f.T.Helper()
	stream := Stream
	if _, err := f.Kinesis.MergeShards(f.T.Context(), &kinesis.MergeShardsInput{
		StreamName: &stream, ShardToMerge: &id, AdjacentShardToMerge: &adjacent,
	}); err != nil {
		f.T.Fatalf("merge %s and %s: %v", id, adjacent, err)
	}
}

// Rows returns the items of the lease table by key.
func (f *Fleet) Rows() map[string]map[string]types.AttributeValue {
	f.T.Helper()
	table := App
	rows := map[string]map[string]types.AttributeValue{}
	in := &dynamodb.ScanInput{TableName: &table}
	for {
		out, err := f.DynamoDB.Scan(f.T.Context(), in)
		if err != nil {
			f.T.Fatal(err)
		}
		for _, item := range out.Items {
			rows[item["leaseKey"].(*types.AttributeValueMemberS).Value] = item
		}
		if out.LastEvaluatedKey == nil {
			return rows
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// PutEverywhere puts one record into each open shard.
func (f *Fleet) PutEverywhere() {
	f.T.Helper()
	stream := Stream
	for _, s := range f.OpenShards() {
		key := "of " + *s.ShardId
		if _, err := f.Kinesis.PutRecord(f.T.Context(), &kinesis.PutRecordInput{
			StreamName: &stream, PartitionKey: &key, ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: fmt.Appendf(nil, "%s:%d", key, f.next[key]),
		}); err != nil {
			f.T.Fatalf("put into %s: %v", *s.ShardId, err)
		}
		f.next[key]++
	}
}

// PutEach puts one record into each of the given shards, by one request.
func (f *Fleet) PutEach(shards []kinesistypes.Shard) {
	f.T.Helper()
	stream := Stream
	for part := range slices.Chunk(shards, 500) {
		batch := make([]kinesistypes.PutRecordsRequestEntry, 0, len(part))
		for _, s := range part {
			key := "of " + *s.ShardId
			batch = append(batch, kinesistypes.PutRecordsRequestEntry{
				PartitionKey: &key, ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: fmt.Appendf(nil, "%s:%d", key, f.next[key]),
			})
			f.next[key]++
		}
		out, err := f.Kinesis.PutRecords(f.T.Context(), &kinesis.PutRecordsInput{StreamName: &stream, Records: batch})
		if err != nil || *out.FailedRecordCount != 0 {
			f.T.Fatalf("put records: %v, %v", out, err)
		}
	}
}

// Load puts one record into each open shard every so often, until the function that it returns is called. The shards must stay
// as they are.
func (f *Fleet) Load(every time.Duration) (stop func()) {
	shards := f.OpenShards()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				f.PutEach(shards)
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Reshard splits or merges open shards at random, or changes the number of shards, but keeps between low and high of them.
// It returns what it did.
func (f *Fleet) Reshard(random *rand.Rand, low, high int) string {
	f.T.Helper()
	open := f.OpenShards()
	slices.SortFunc(open, func(a, b kinesistypes.Shard) int {
		x, _ := new(big.Int).SetString(*a.HashKeyRange.StartingHashKey, 10)
		y, _ := new(big.Int).SetString(*b.HashKeyRange.StartingHashKey, 10)
		return x.Cmp(y)
	})
	n := len(open)
	switch i := random.IntN(max(1, n-1)); {
	case random.IntN(8) == 0:
		target := min(max(low, (n+1)/2, min(2*n, low+random.IntN(high-low+1))), high)
		stream := Stream
		if _, err := f.Kinesis.UpdateShardCount(f.T.Context(), &kinesis.UpdateShardCountInput{
			StreamName: &stream, TargetShardCount: aws.Int32(int32(target)), ScalingType: kinesistypes.ScalingTypeUniformScaling,
		}); err != nil {
			f.T.Fatalf("update shard count from %d to %d: %v", n, target, err)
		}
		return fmt.Sprintf("from %d to %d shards", n, target)
	case n >= high || n > low && random.IntN(2) == 0:
		f.Merge(*open[i].ShardId, *open[i+1].ShardId)
		return fmt.Sprintf("merged %s and %s", *open[i].ShardId, *open[i+1].ShardId)
	default:
		id := *open[random.IntN(n)].ShardId
		f.Split(id)
		return "split " + id
	}
}

// SplitHalf splits every second open shard, and returns the ids of the shards that it split.
func (f *Fleet) SplitHalf() []string {
	f.T.Helper()
	var split []string
	stream := Stream
	for i, s := range f.OpenShards() {
		if i%2 != 0 {
			continue
		}
		if _, err := f.Kinesis.SplitShard(f.T.Context(), &kinesis.SplitShardInput{
			StreamName: &stream, ShardToSplit: s.ShardId, NewStartingHashKey: aws.String(ring.Middle(s)),
		}); err != nil {
			f.T.Fatalf("split %s: %v", *s.ShardId, err)
		}
		split = append(split, *s.ShardId)
	}
	return split
}
