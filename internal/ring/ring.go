// Package ring answers which shards of a stream are open, in their order on the ring of hash keys, and where to split one: for programs and tests
// that reshard.
package ring

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// Lister is what is needed of a client.
type Lister interface {
	ListShards(context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
}

// Open lists the open shards of a stream by their first hash keys.
func Open(ctx context.Context, api Lister, stream string) ([]types.Shard, error) {
	var open []types.Shard
	for in := (&kinesis.ListShardsInput{StreamName: &stream}); ; {
		out, err := api.ListShards(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the shards of stream %q: %w", stream, err)
		}
		for _, s := range out.Shards {
			if s.SequenceNumberRange == nil || s.SequenceNumberRange.EndingSequenceNumber == nil {
				open = append(open, s)
			}
		}
		if aws.ToString(out.NextToken) == "" {
			break
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	slices.SortFunc(open, func(a, b types.Shard) int {
		x, _ := keys(a)
		y, _ := keys(b)
		return x.Cmp(y)
	})
	return open, nil
}

// Middle is the hash key in the middle of a shard's, in decimal.
func Middle(s types.Shard) string {
	first, last := keys(s)
	return first.Add(first, last).Rsh(first, 1).String()
}

// keys are a shard's first and last hash key; 0 for what is no number.
func keys(s types.Shard) (first, last *big.Int) {
	first, last = new(big.Int), new(big.Int)
	if r := s.HashKeyRange; r != nil {
		first.SetString(aws.ToString(r.StartingHashKey), 10)
		last.SetString(aws.ToString(r.EndingHashKey), 10)
	}
	return first, last
}
