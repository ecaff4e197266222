package processor

import (
	"context"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

// RecordProcessor is what a user implements: one value reads one shard for one tenure of its lease. Its methods are called
// one at a time, in the order Initialize, ProcessRecords any number of times, ShutdownRequested at most once, and last
// either LeaseLost or ShardEnded or neither (a graceful stop ends with ShutdownRequested).
// (KCL: ShardRecordProcessor)
type RecordProcessor interface {
	Initialize(ctx context.Context, in InitializationInput) error
	ProcessRecords(ctx context.Context, in ProcessRecordsInput) error
	LeaseLost(ctx context.Context, in LeaseLostInput)
	ShardEnded(ctx context.Context, in ShardEndedInput) error
	ShutdownRequested(ctx context.Context, in ShutdownRequestedInput) error
}

// Factory makes the RecordProcessor of one tenure. It is called once for every lease this worker gets, from the
// consumer's own goroutine; it must be safe for concurrent use. (KCL: ShardRecordProcessorFactory)
type Factory func(Shard) RecordProcessor

// Shard names what a RecordProcessor reads.
type Shard struct {
	Stream    string
	ID        string
	LeaseKey  string
	ParentIDs []string
}

// Record is one user record.
type Record struct {
	SequenceNumber     string
	SubSequenceNumber  int64
	PartitionKey       string
	ExplicitHashKey    string
	Data               []byte // not copied; keep it as long as you like, do not write to it
	ApproximateArrival time.Time
}

// Position is the record's place in its shard, as a checkpoint takes it.
func (r Record) Position() checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: r.SequenceNumber, SubSequenceNumber: r.SubSequenceNumber}
}

// InitializationInput tells where reading starts.
type InitializationInput struct {
	Shard    Shard
	Position checkpoint.ExtendedSequenceNumber // the stored checkpoint: the first record delivered comes after it
	Pending  *checkpoint.Pending               // what an earlier owner prepared and did not commit; nil if nothing
	// Checkpointer can commit Pending: CheckpointAt(ctx, Pending.At). Reading then starts there.
	Checkpointer *checkpoint.Checkpointer
	Grant        checkpoint.Grant
}

// ProcessRecordsInput is one batch.
type ProcessRecordsInput struct {
	Records            []Record
	MillisBehindLatest int64 // how far the end of the batch is from the tip of the shard
	Checkpointer       *checkpoint.Checkpointer
	Grant              checkpoint.Grant
}

// LeaseLostInput says why the lease is gone. There is nothing to checkpoint with: another worker may own the shard already.
type LeaseLostInput struct {
	Cause error
}

// ShardEndedInput comes after the last record of a shard. The processor must checkpoint (Checkpointer.Checkpoint suffices),
// else the call is repeated: the shard's children do not start before.
type ShardEndedInput struct {
	Checkpointer *checkpoint.Checkpointer
	Grant        checkpoint.Grant
}

// ShutdownRequestedInput is the last chance to checkpoint before the lease is given up.
type ShutdownRequestedInput struct {
	Checkpointer *checkpoint.Checkpointer
	Grant        checkpoint.Grant
}
