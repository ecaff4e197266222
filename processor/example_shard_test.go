package processor_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

// readShard leads a processor through a shard that has one batch of records and then ends. In a program the worker does
// this, for every shard that it holds.
func readShard(f processor.Factory, keys ...string) { resumeShard(f, nil, keys...) }

func resumeShard(f processor.Factory, pending *checkpoint.Pending, keys ...string) {
	ctx := context.Background()
	var last processor.Batch
	for i, k := range keys {
		last.Records = append(last.Records, processor.Record{
			SequenceNumber: strconv.Itoa(101 + i), PartitionKey: k, Data: []byte("hello from " + k),
		})
	}
	last.End, last.Release = &processor.End{}, func() {}
	out := processor.NewShardConsumer(processor.ConsumerOptions{
		Shard:    processor.Shard{Stream: "greetings", ID: "shardId-000000000000", LeaseKey: "shardId-000000000000"},
		Position: checkpoint.TrimHorizon, Pending: pending, Lease: printingLease{ctx}, Upstream: oneShard{last},
		ConsumerSettings: &processor.ConsumerSettings{
			Factory: f, Lifecycle: config.LifecycleConfig{TaskBackoff: time.Millisecond, MaxTaskBackoff: time.Second},
		},
	}).Run(ctx)
	if out.Err != nil || !out.Finished {
		fmt.Printf("outcome %+v\n", out)
	}
}

// oneShard has no parents, no children, and one batch.
type oneShard struct{ last processor.Batch }

func (s oneShard) Open(context.Context, checkpoint.ExtendedSequenceNumber) (processor.RecordSource, error) {
	return oneBatch{s.last}, nil
}

func (oneShard) ParentsEnded(context.Context) (bool, error)    { return true, nil }
func (oneShard) EndShard(context.Context, processor.End) error { return nil }
func (oneShard) Resume()                                       {}

// printingLease is never lost and prints what is written to it.
type printingLease struct{ ctx context.Context }

func (l printingLease) Context() context.Context     { return l.ctx }
func (l printingLease) Usable(context.Context) error { return nil }
func (l printingLease) Processed(int)                {}

func (l printingLease) Grant() checkpoint.Grant {
	return checkpoint.Grant{LeaseKey: "shardId-000000000000", Token: 1}
}

func (l printingLease) WriteCheckpoint(_ context.Context, at checkpoint.ExtendedSequenceNumber) error {
	fmt.Printf("checkpoint %s\n", at)
	return nil
}

func (l printingLease) WritePending(_ context.Context, p checkpoint.Pending) error {
	fmt.Printf("pending %s\n", p.At)
	return nil
}

// oneBatch delivers one batch.
type oneBatch struct{ b processor.Batch }

func (s oneBatch) Next(context.Context) (processor.Batch, error) { return s.b, nil }
func (s oneBatch) Close()                                        {}
