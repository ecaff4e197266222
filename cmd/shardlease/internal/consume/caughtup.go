package consume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/coordinator"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// The application has caught up when each of its leases has: it is finished, or this process holds it and has printed and
// checkpointed everything up to the shard's tip, or it is somebody else's, or nobody's, and nothing is in the shard behind
// its checkpoint. So a process also waits for the shards of its peers, and, should one of these die, takes them over.

// ownAtTip judges what this process holds.
func ownAtTip(held []coordinator.Assignment) bool {
	for _, a := range held {
		if a.State == "Finished" {
			continue
		}
		if a.State != "Processing" || a.MillisBehindLatest != 0 || a.Checkpoint != a.Delivered {
			return false
		}
	}
	return true
}

// others are the leases that somebody else must have caught up with.
func others(all []leases.Lease, held []coordinator.Assignment) (rest []leases.Lease) {
	own := map[string]bool{}
	for _, a := range held {
		own[a.LeaseKey] = true
	}
	for _, l := range all {
		if l.Checkpoint != checkpoint.ShardEnd && !own[l.Key] {
			rest = append(rest, l)
		}
	}
	return rest
}

// allBegun reports whether there are leases, of several streams of each.
func allBegun(all []leases.Lease, streams []config.StreamConfig) bool {
	for _, s := range streams {
		if !slices.ContainsFunc(all, func(l leases.Lease) bool {
			id, err := config.ParseStreamIdentifier(l.Stream())
			return err == nil && s.IsOf(id)
		}) {
			return false
		}
	}
	return len(all) > 0
}

// streamOf is the configuration of a lease's stream. A lease of a stream
// that nobody named is looked for by the name in its key.
func streamOf(l leases.Lease, c config.Config) config.StreamConfig {
	id, err := config.ParseStreamIdentifier(l.Stream())
	if err != nil {
		return config.StreamConfig{StreamName: c.Complete().StreamName, StreamARN: c.StreamARN}
	}
	for _, s := range c.Streams {
		if s.IsOf(id) {
			return s.Complete()
		}
	}
	return config.StreamConfig{StreamName: id.StreamName}
}

// readAPI is what looking behind a checkpoint takes.
type readAPI interface {
	GetShardIterator(context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
}

const (
	mostReads = 10                     // of one shard in one look, while its answers are empty and yet not from its tip
	readPause = 250 * time.Millisecond // between them: a shard gives five answers a second, to all applications together
)

// atTip looks whether a shard holds nothing behind a lease's checkpoint. A shard that the stream has forgotten holds
// nothing.
func atTip(ctx context.Context, api readAPI, stream config.StreamConfig, l leases.Lease) (bool, error) {
	var arn *string
	if stream.StreamARN != "" {
		arn = &stream.StreamARN
	}
	in := &kinesis.GetShardIteratorInput{StreamName: &stream.StreamName, StreamARN: arn, ShardId: aws.String(l.Shard())}
	switch l.Checkpoint.SequenceNumber {
	case checkpoint.TrimHorizon.SequenceNumber:
		in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
	case checkpoint.Latest.SequenceNumber, checkpoint.AtTimestamp.SequenceNumber:
		if l.StartAtMillis == 0 {
			return false, nil // where it starts is for its first owner to say
		}
		in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, aws.Time(time.UnixMilli(l.StartAtMillis))
	default:
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, aws.String(l.Checkpoint.SequenceNumber)
	}
	start, err := api.GetShardIterator(ctx, in)
	if err != nil {
		if _, gone := errors.AsType[*types.ResourceNotFoundException](err); gone {
			return true, nil
		}
		return false, fmt.Errorf("look behind the checkpoint of %s: %w", l.Key, err)
	}
	iterator := start.ShardIterator
	for range mostReads {
		out, err := api.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(1), StreamARN: arn})
		switch {
		case err != nil:
			return false, fmt.Errorf("look behind the checkpoint of %s: %w", l.Key, err)
		case len(out.Records) > 0 || out.NextShardIterator == nil: // more to read, or an end to checkpoint
			return false, nil
		case aws.ToInt64(out.MillisBehindLatest) == 0:
			return true, nil
		}
		iterator = out.NextShardIterator
		if err := loop.ClockOf(ctx).Sleep(ctx, readPause); err != nil {
			return false, err
		}
	}
	return false, nil
}
