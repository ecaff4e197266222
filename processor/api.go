package processor

import (
	"context"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

// RecordProcessor is what a user implements: one value reads one shard for one tenure of its lease. Its methods are called
// one at a time; the package comment says in which order, which are repeated after an error or a panic, and until when ctx
// lives. (KCL: ShardRecordProcessor)
type RecordProcessor interface {
	// Initialize comes first. After an error it is called again, with the same processor.
	Initialize(ctx context.Context, in InitializationInput) error
	// ProcessRecords handles a batch. nil says that every record of it is handled; after an error the same records come
	// again.
	ProcessRecords(ctx context.Context, in ProcessRecordsInput) error
	// LeaseLost says that another worker may own the shard, or that the time for a graceful stop is over. Clean up, write
	// nothing that the next owner could be surprised by. ctx ends after 5 s.
	LeaseLost(ctx context.Context, in LeaseLostInput)
	// ShardEnded comes after the last record was handled. It must checkpoint, else it is called again.
	ShardEnded(ctx context.Context, in ShardEndedInput) error
	// ShutdownRequested comes when this processor gets no more records: the worker gives the lease up, because it stops or because
	// another worker should have the shard; or nothing can be read any more, because the stream was deleted. Checkpoint now, and
	// nothing comes twice. It is not repeated.
	ShutdownRequested(ctx context.Context, in ShutdownRequestedInput) error
}

// Factory makes the RecordProcessor of one tenure. It is called for every lease this worker gets, from the consumer's own
// goroutine; it must be safe for concurrent use. If it panics or returns nil it is called again after a pause.
// (KCL: ShardRecordProcessorFactory)
type Factory func(Shard) RecordProcessor

// Shard names what a RecordProcessor reads.
type Shard struct {
	Stream    string   // the stream's name
	ID        string   // the shard's id, as shardId-000000000003
	LeaseKey  string   // the key of its row in the lease table
	ParentIDs []string // none, one after a split, two after a merge
	// StreamIdentifier is account:name:epoch of the stream, of a worker of several streams; empty otherwise. (KCL:
	// StreamIdentifier)
	StreamIdentifier string
}

// Record is one user record.
type Record struct {
	SequenceNumber     string // decimal digits; ascending in a shard
	SubSequenceNumber  int64  // its index inside an aggregate, 0 if it came alone
	PartitionKey       string
	ExplicitHashKey    string    // empty unless the producer set one, which only an aggregate tells
	Data               []byte    // not copied; keep it as long as you like, do not write to it
	ApproximateArrival time.Time // the service's clock when the record came in; zero if it did not say
	// Err says, of a record that begins like a KPL aggregate and cannot be taken apart, what is wrong with it; nil for all
	// others. Data is then the whole record as it came. It is a record like any other: to handle it, as one would a payload
	// that does not parse, and return nil, lets the shard go on; it comes again after an error.
	Err error
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
	Records            []Record // in the order of the shard; do not write to the slice: it comes again after an error
	MillisBehindLatest int64    // how far the end of the batch is from the tip of the shard
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

// ShutdownRequestedInput is the last chance to checkpoint: the lease is held still.
type ShutdownRequestedInput struct {
	Checkpointer *checkpoint.Checkpointer
	Grant        checkpoint.Grant
}
