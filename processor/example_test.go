package processor_test

import (
	"context"
	"fmt"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

// A program that handles records one at a time is one function.
func ExampleEach() {
	factory := processor.Each(func(ctx context.Context, r processor.Record) error {
		fmt.Printf("%s: %s\n", r.PartitionKey, r.Data)
		return nil
	})

	readShard(factory, "ann", "bob", "cem")
	// Output:
	// ann: hello from ann
	// bob: hello from bob
	// cem: hello from cem
	// checkpoint 103
	// checkpoint SHARD_END
}

// counter handles whole batches and leaves the rest to Base.
type counter struct {
	processor.Base
	shard string
	n     int
}

func (c *counter) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	c.n += len(in.Records)
	fmt.Printf("%s: %d records\n", c.shard, c.n)
	if c.n%100 != 0 {
		return nil // handled; the checkpoint follows with a later batch, at the end, or at a stop
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// A program that wants batches embeds Base and writes ProcessRecords.
func ExampleBase() {
	readShard(func(s processor.Shard) processor.RecordProcessor { return &counter{shard: s.ID} }, "ann", "bob", "cem")
	// Output:
	// shardId-000000000000: 3 records
	// checkpoint SHARD_END
}

// archive writes each batch to a store that cannot take part in the checkpoint. What is written twice after a crash is
// recognised by its name, which the first half of the checkpoint makes durable.
type archive struct {
	processor.Base
}

func (a *archive) Initialize(ctx context.Context, in processor.InitializationInput) error {
	if in.Pending == nil {
		return nil
	}
	// An earlier owner was between the two halves. If its object is complete, its work is done: commit for it.
	fmt.Printf("found %s, pending at %s\n", in.Pending.State, in.Pending.At)
	return in.Checkpointer.CheckpointAt(ctx, in.Pending.At)
}

func (a *archive) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	object := "object-" + in.Records[0].SequenceNumber
	prepared, err := in.Checkpointer.PrepareAll(ctx, []byte(object))
	if err != nil {
		return err
	}
	fmt.Printf("write %d records to %s\n", len(in.Records), object)
	return prepared.Commit(ctx)
}

// A checkpoint in two phases tells the next owner what the last one was about to do.
func ExampleInitializationInput_pending() {
	crashed := &checkpoint.Pending{
		At:    checkpoint.ExtendedSequenceNumber{SequenceNumber: "100"},
		State: []byte("object-98"),
	}
	resumeShard(func(processor.Shard) processor.RecordProcessor { return &archive{} }, crashed, "ann", "bob")
	// Output:
	// found object-98, pending at 100
	// checkpoint 100
	// pending 102
	// write 2 records to object-101
	// checkpoint 102
	// checkpoint SHARD_END
}
