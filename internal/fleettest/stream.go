package fleettest

import (
	"math/big"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
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
		low, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
		high, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
		middle := low.Add(low, high).Rsh(low, 1).String()
		stream := Stream
		if _, err := f.Kinesis.SplitShard(f.T.Context(), &kinesis.SplitShardInput{
			StreamName: &stream, ShardToSplit: &id, NewStartingHashKey: &middle,
		}); err != nil {
			f.T.Fatalf("split %s at %s: %v", id, middle, err)
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
