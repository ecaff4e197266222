package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/ring"
)

const (
	mostScales    = 10 // times a day, says the service
	mostToScale   = 16 // shards: scaling makes up to four times as many new ones, most of which live for a moment only
	scaleOneOutOf = 6  // changes
)

// resharder changes the stream's shards while it is being read. All choices come from the seed.
type resharder struct {
	stream    string
	api       *kinesis.Client
	board     *board
	random    *rand.Rand
	low, high int // open shards that random reshards keep between, if they found so many
	scaled    int
}

// bounds of the open shards of a stream that began with this many: for up to 100 shards at most 125, an eighth of the 1,000
// records that there are at least.
func bounds(shards int) (low, high int) { return max(2, (shards+1)/2), shards + max(4, shards/4) }

// run splits once and merges once, or makes so many random changes, evenly over the records. It returns when the last one is
// made.
func (r *resharder) run(ctx context.Context, changes int) error {
	if changes == 0 {
		if err := r.board.reach(ctx, 0.10+0.03*r.random.Float64()); err != nil {
			return err
		}
		if err := r.split(ctx); err != nil {
			return err
		}
		if err := r.board.reach(ctx, 0.24+0.03*r.random.Float64()); err != nil {
			return err
		}
		return r.merge(ctx)
	}
	// Up to 0.82 of the records: more than 0.87 may not come before the last change is made, see bounds and putLast.
	for i := range changes {
		if err := r.board.reach(ctx, 0.02+0.8*(float64(i)+r.random.Float64())/float64(changes)); err != nil {
			return err
		}
		if err := r.change(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change does one thing at random that keeps the open shards between low and high.
func (r *resharder) change(ctx context.Context) error {
	open, err := r.open(ctx)
	if err != nil {
		return err
	}
	n := len(open)
	// The service scales to between half and double the shards.
	least, most := max(r.low, (n+1)/2), min(r.high, 2*n)
	if r.random.IntN(scaleOneOutOf) == 0 && r.scaled < mostScales && n <= mostToScale && least < most {
		if target := least + r.random.IntN(most-least+1); target != n {
			r.scaled++
			return r.scale(ctx, open, target)
		}
	}
	if n >= r.high || n > r.low && r.random.IntN(2) == 0 {
		return r.merge(ctx)
	}
	return r.split(ctx)
}

// open lists the open shards by their place on the ring.
func (r *resharder) open(ctx context.Context) ([]types.Shard, error) {
	return ring.Open(ctx, r.api, r.stream)
}

func (r *resharder) split(ctx context.Context) error {
	open, err := r.open(ctx)
	if err != nil {
		return err
	}
	shard := open[r.random.IntN(len(open))]
	_, err = r.api.SplitShard(ctx, &kinesis.SplitShardInput{
		StreamName: aws.String(r.stream), ShardToSplit: shard.ShardId, NewStartingHashKey: aws.String(ring.Middle(shard)),
	})
	if err != nil {
		return fmt.Errorf("split %s: %w", aws.ToString(shard.ShardId), err)
	}
	return r.note(ctx, open, "split of "+audit.Short(aws.ToString(shard.ShardId)))
}

func (r *resharder) merge(ctx context.Context) error {
	open, err := r.open(ctx)
	if err != nil {
		return err
	}
	i := r.random.IntN(len(open) - 1) // there are two at least: one was split, or there are more than low
	a, b := aws.ToString(open[i].ShardId), aws.ToString(open[i+1].ShardId)
	_, err = r.api.MergeShards(ctx, &kinesis.MergeShardsInput{
		StreamName: aws.String(r.stream), ShardToMerge: aws.String(a), AdjacentShardToMerge: aws.String(b),
	})
	if err != nil {
		return fmt.Errorf("merge %s and %s: %w", a, b, err)
	}
	return r.note(ctx, open, fmt.Sprintf("merge of %s and %s", audit.Short(a), audit.Short(b)))
}

// scale makes the stream consist of so many equal shards, by splits and merges at once.
func (r *resharder) scale(ctx context.Context, before []types.Shard, target int) error {
	_, err := r.api.UpdateShardCount(ctx, &kinesis.UpdateShardCountInput{
		StreamName: aws.String(r.stream), TargetShardCount: aws.Int32(int32(target)),
		ScalingType: types.ScalingTypeUniformScaling,
	})
	if err != nil {
		return fmt.Errorf("scale the demo's stream from %d to %d shards: %w", len(before), target, err)
	}
	return r.note(ctx, before, fmt.Sprintf("scaling from %d to %d shards,", len(before), target))
}

// note tells which open shards are new.
func (r *resharder) note(ctx context.Context, before []types.Shard, what string) error {
	after, err := r.open(ctx)
	if err != nil {
		return err
	}
	old := ids(before)
	fresh := slices.DeleteFunc(ids(after), func(id string) bool { return slices.Contains(old, id) })
	slices.Sort(fresh)
	r.board.say("%s into %s", what, list(fresh))
	return nil
}

func ids(shards []types.Shard) []string {
	ids := make([]string, len(shards))
	for i, s := range shards {
		ids[i] = aws.ToString(s.ShardId)
	}
	return ids
}

// putLast puts n records, in turn into each open shard. A shard of which nothing was read keeps the rows of its parents.
func (r *resharder) putLast(ctx context.Context, n int) error {
	open, err := r.open(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		shard := open[i%len(open)]
		key := "last-of-" + aws.ToString(shard.ShardId)
		out, err := r.api.PutRecord(ctx, &kinesis.PutRecordInput{
			StreamName: aws.String(r.stream), PartitionKey: &key, ExplicitHashKey: shard.HashKeyRange.StartingHashKey,
			Data: fmt.Appendf(nil, "%d", i/len(open)+1),
		})
		if err != nil {
			return fmt.Errorf("put a last record into %s: %w", aws.ToString(shard.ShardId), err)
		}
		r.board.store(key, aws.ToString(out.ShardId))
	}
	r.board.say("the last %d records are put, some into each of the %d open shards", n, len(open))
	return nil
}
