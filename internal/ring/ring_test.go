package ring

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/emulator"
)

func TestOpen_listsOpenShardsByTheirHashKeysAndMiddleLiesBetween(t *testing.T) {
	t.Parallel()
	s, stream := emulator.New(), "orders"
	if err := s.CreateStream(stream, 2); err != nil {
		t.Fatal(err)
	}
	api := kinesis.NewFromConfig(s.AWSConfig())
	before, err := Open(t.Context(), api, stream)
	if err != nil || len(before) != 2 {
		t.Fatalf("%d shards, %v; want 2", len(before), err)
	}
	middle := Middle(before[0])
	if want := "85070591730234615865843651857942052863"; middle != want {
		t.Errorf("the middle of the first shard is %s, want %s", middle, want)
	}
	if _, err := api.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: &stream, ShardToSplit: before[0].ShardId, NewStartingHashKey: &middle}); err != nil {
		t.Fatal(err)
	}
	after, err := Open(t.Context(), api, stream)
	if err != nil || len(after) != 3 {
		t.Fatalf("%d shards after the split, %v; want 3", len(after), err)
	}
	if *after[1].HashKeyRange.StartingHashKey != middle || *after[2].ShardId != *before[1].ShardId {
		t.Errorf("in order are %s, %s and %s, want the second child in the midst", *after[0].ShardId, *after[1].ShardId, *after[2].ShardId)
	}
	if _, err := Open(t.Context(), api, "none"); err == nil {
		t.Error("a stream that is not there has no error")
	}
}
