package processor

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlease/shardlease/checkpoint"
)

// Each returns a Factory for programs that handle records one at a time: f is called for each record, in the order of the
// shard, and never for two records of one shard at once. For different shards it is called concurrently.
//
// The checkpoint moves after each batch, at the end of the shard and when the worker stops. If f returns an error, or
// panics, it is called again with the same record after a pause, for as long as this worker holds the lease; the records
// before it count as handled. Records are repeated only after a crash, a lost lease, or a checkpoint that could not be
// written. f's context is done when the lease is lost; f is not called after that.
func Each(f func(ctx context.Context, r Record) error) Factory {
	return func(s Shard) RecordProcessor { return &each{f: f, shard: s.ID} }
}

type each struct {
	f     func(context.Context, Record) error
	shard string

	// done is the last record of the batch in hand that f has handled; zero if the whole batch is still to be done. saved
	// says that the checkpoint covers it.
	done  checkpoint.ExtendedSequenceNumber
	saved bool
}

func (e *each) Initialize(context.Context, InitializationInput) error {
	if e.f == nil {
		return errors.New("processor.Each was given a nil function")
	}
	return nil
}

func (e *each) ProcessRecords(ctx context.Context, in ProcessRecordsInput) error {
	records := in.Records
	if e.partly() {
		// The batch is a repeated one, after an error or a panic. Skip what is done, and make it durable before f gets
		// another chance to end the process.
		if err := e.save(ctx, in.Checkpointer); err != nil {
			return err
		}
		for len(records) > 0 && records[0].Position().Compare(e.done) <= 0 {
			records = records[1:]
		}
	}
	for i := range records {
		var err error
		if ctx.Err() != nil { // Cause alone would cost as much as all else that is done for a record
			err = context.Cause(ctx)
		} else {
			err = e.f(ctx, records[i])
		}
		if err != nil {
			err = fmt.Errorf("record %s of shard %s: %w", records[i].Position(), e.shard, err)
			if e.partly() {
				err = errors.Join(err, e.save(ctx, in.Checkpointer))
			}
			return err
		}
		// Kept record by record, because a panic leaves no time to do so later.
		e.done, e.saved = records[i].Position(), false
	}
	if err := quietly(in.Checkpointer.Checkpoint(ctx)); err != nil {
		return err // done covers the batch: repeating it repeats only the checkpoint
	}
	e.done, e.saved = checkpoint.ExtendedSequenceNumber{}, false
	return nil
}

func (e *each) LeaseLost(context.Context, LeaseLostInput) {}

// ShardEnded comes after the last batch was handled.
func (e *each) ShardEnded(ctx context.Context, in ShardEndedInput) error {
	return quietly(in.Checkpointer.Checkpoint(ctx))
}

func (e *each) ShutdownRequested(ctx context.Context, in ShutdownRequestedInput) error {
	if e.partly() {
		return e.save(ctx, in.Checkpointer)
	}
	return quietly(in.Checkpointer.Checkpoint(ctx))
}

func (e *each) partly() bool { return e.done != checkpoint.ExtendedSequenceNumber{} }

// save checkpoints what is done of a batch that is not.
func (e *each) save(ctx context.Context, c *checkpoint.Checkpointer) error {
	if e.saved {
		return nil
	}
	if err := quietly(c.CheckpointAt(ctx, e.done)); err != nil {
		return err
	}
	e.saved = true
	return nil
}

// quietly drops the loss of the lease: the next owner repeats the records, and nothing can or need be done here.
func quietly(err error) error {
	if errors.Is(err, checkpoint.ErrLeaseLost) {
		return nil
	}
	return err
}
