package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

const (
	stream = "orders"
	shards = 16
)

// workload is what lies in the stream.
type workload struct {
	name     string
	size     int // bytes of a user record
	perShard int // Kinesis records
	packed   int // user records in each; 1: they are no aggregates
}

func workloads() []workload {
	return []workload{
		{name: "plain 200 B", size: 200, perShard: 40_000, packed: 1},
		{name: "plain 1 KB", size: 1000, perShard: 20_000, packed: 1},
		{name: "aggregates of 100 x 200 B", size: 200, perShard: 1000, packed: 100},
	}
}

// users is how many user records a shard has.
func (w workload) users() int64 { return int64(w.perShard) * int64(w.packed) }

// total is how many user records there are.
func (w workload) total() int64 { return shards * w.users() }

// data is that of one Kinesis record of a shard. The user records of an aggregate have ten partition keys, whose hashes
// are the shard's, as the KPL sees to: the worker hashes them to leave out other shards' records.
func (w workload) data(shard hashkey.Range) ([]byte, error) {
	if w.packed == 1 {
		return make([]byte, w.size), nil
	}
	var keys []string
	for i := 0; len(keys) < 10; i++ {
		if key := fmt.Sprintf("customer-%06d", i); shard.Contains(hashkey.Of(key)) {
			keys = append(keys, key)
		}
	}
	users := make([]kpl.UserRecord, w.packed)
	for i := range users {
		users[i] = kpl.UserRecord{PartitionKey: keys[i%len(keys)], Data: make([]byte, w.size)}
	}
	return kpl.Aggregate(users...)
}

// filled is a server whose stream holds a workload, with its shards' ids.
type filled struct {
	workload
	server *emulator.Server
	api    *kinesis.Client
	shards []string
	pages  []int // of each shard, as the bare loop has found them
	runs   int   // workers that have read it
}

// fill makes one.
func fill(ctx context.Context, w workload) (*filled, error) {
	f := &filled{workload: w, server: emulator.New()}
	if err := f.server.CreateStream(stream, shards); err != nil {
		return nil, err
	}
	f.api = kinesis.NewFromConfig(f.server.AWSConfig())
	list, err := f.api.ListShards(ctx, &kinesis.ListShardsInput{StreamName: aws.String(stream)})
	if err != nil {
		return nil, err
	}
	f.pages = make([]int, len(list.Shards))
	for _, s := range list.Shards {
		f.shards = append(f.shards, *s.ShardId)
		if err := f.put(ctx, s); err != nil {
			return nil, fmt.Errorf("fill shard %s: %w", *s.ShardId, err)
		}
	}
	return f, nil
}

func (f *filled) put(ctx context.Context, s types.Shard) error {
	shard, err := hashkey.ParseRange(*s.HashKeyRange.StartingHashKey, *s.HashKeyRange.EndingHashKey)
	if err != nil {
		return err
	}
	data, err := f.data(shard)
	if err != nil {
		return err
	}
	most := min(500, 4<<20/(len(data)+50)) // records and bytes of one request
	for left := f.perShard; left > 0; {
		n := min(left, most)
		in := &kinesis.PutRecordsInput{StreamName: aws.String(stream)}
		for range n {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{
				Data: data, PartitionKey: aws.String("key"), ExplicitHashKey: s.HashKeyRange.StartingHashKey,
			})
		}
		out, err := f.api.PutRecords(ctx, in)
		if err != nil {
			return err
		}
		if *out.FailedRecordCount > 0 {
			return fmt.Errorf("%d of %d records were not taken", *out.FailedRecordCount, n)
		}
		left -= n
	}
	return nil
}
