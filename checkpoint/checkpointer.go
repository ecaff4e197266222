package checkpoint

import (
	"bytes"
	"context"
)

// Checkpointer is what user code checkpoints with. One Checkpointer serves one shard for one tenure of its lease; it may be
// kept between calls of the processor, and all its methods may be called from any goroutine. Writes go to the table one at
// a time; a call waits for its turn, and for its own write, until ctx is done. With LeaseManagement.CheckpointInterval set,
// Checkpoint and CheckpointAt do not wait for the write: see Flush.
//
// The package comment says which places are accepted. Errors, to be told apart with errors.Is:
//   - [ErrLeaseLost]: the shard belongs to another worker, or soon will; stop working on it.
//   - [ErrOutOfRange]: the place may not be checkpointed now; nothing was written.
//   - anything else: the table could not be reached, refused, or ctx was done; the write may have landed. Repeat the call,
//     or make a later one.
//
// Nothing is retried here beyond what the store does by itself.
// (KCL: RecordProcessorCheckpointer)
type Checkpointer struct{ t *Tracker }

// Checkpoint says that all records handled so far need not be delivered again: those of every batch whose ProcessRecords
// returned nil and, while ProcessRecords runs, those of the batch in hand. What it covers is decided when it is called, so a
// call that waits behind another write never covers a batch that came later. In ShardEnded it completes the shard.
// If there is nothing new to say, before the first record for example, it writes nothing and returns nil.
func (c *Checkpointer) Checkpoint(ctx context.Context) error {
	r := c.t.handled()
	_, err := c.t.set(ctx, r)
	return err
}

// CheckpointAt says that all records up to at, at included, need not be delivered again. at must have been delivered and
// must not be behind the last checkpoint; if it equals the last checkpoint nothing is written. In a batch that comes again because
// ProcessRecords failed, a place that an earlier try went beyond means the one that it reached. A record is named by its
// Position; inside an aggregate {number, 0} names only the first of its user records. The sentinels are refused, except
// SHARD_END in ShardEnded; there the number of the last record means SHARD_END too.
func (c *Checkpointer) CheckpointAt(ctx context.Context, at ExtendedSequenceNumber) error {
	r := c.t.explicit(at)
	_, err := c.t.set(ctx, r)
	return err
}

// Flush returns when everything that Checkpoint and CheckpointAt have accepted is durable, and writes what is not. It is for
// programs that set LeaseManagement.CheckpointInterval, by which those two return as soon as the place is accepted: its write
// comes with the next renewal of the lease, at the latest after CheckpointInterval. Call Flush before telling anybody else that
// records will not come again. It need not be called at the end of a shard, nor when the lease is given up: the last checkpoint
// is written before. Without CheckpointInterval there is nothing to write unless an earlier call failed.
//
// If the lease is lost before the write, the place is dropped: its records come again, to the next owner. The following call,
// whichever it is, returns an error that wraps [ErrLeaseLost], and Hooks.CheckpointRefused is called. Any other error means
// what it means for Checkpoint; a write that the table does not answer is repeated with the renewals.
func (c *Checkpointer) Flush(ctx context.Context) error {
	_, err := c.t.set(ctx, request{flush: true, now: true})
	return err
}

// Prepare is the first half of a checkpoint in two phases: it stores at and state beside the checkpoint, which stays where
// it is. Whoever owns the shard next finds both in its InitializationInput.Pending until a checkpoint, by Commit or by any
// other way, removes them; a later Prepare replaces them. at is subject to the same rules as in CheckpointAt.
//
// state is the application's own and may be nil. It is written into the lease's row, which DynamoDB limits to 400 KB in all
// and which every renewal writes again: keep it small, a pointer to data rather than data. It is copied.
//
// Prepare and Commit are durable when they return, whatever CheckpointInterval is; a checkpoint that still waits for its write
// is written by the same one.
//
// If at equals the last checkpoint, or means it as in CheckpointAt, there is nothing to commit: neither at nor state is stored, and Commit does nothing.
// (KCL: prepareCheckpoint)
func (c *Checkpointer) Prepare(ctx context.Context, at ExtendedSequenceNumber, state []byte) (*Prepared, error) {
	return c.prepare(ctx, c.t.explicit(at), state)
}

// PrepareAll is [Checkpointer.Prepare] at the place where [Checkpointer.Checkpoint] would go now.
func (c *Checkpointer) PrepareAll(ctx context.Context, state []byte) (*Prepared, error) {
	return c.prepare(ctx, c.t.handled(), state)
}

func (c *Checkpointer) prepare(ctx context.Context, r request, state []byte) (*Prepared, error) {
	state = bytes.Clone(state)
	r.pending, r.state = true, state
	at, err := c.t.set(ctx, r)
	if err != nil {
		return nil, err
	}
	return &Prepared{t: c.t, at: at, state: state}, nil
}

// Prepared is a checkpoint whose first half is durable. Its methods may be called from any goroutine.
// (KCL: PreparedCheckpointer)
type Prepared struct {
	t     *Tracker
	at    ExtendedSequenceNumber
	state []byte
}

// At is the place that Commit moves the checkpoint to.
func (p *Prepared) At() ExtendedSequenceNumber { return p.at }

// State is what was given to Prepare, nil if nothing. It must not be changed.
func (p *Prepared) State() []byte { return p.state }

// Commit is the second half: it moves the checkpoint to At and removes whatever is pending. Prepared checkpoints may be
// committed in any number, each at most usefully once, in ascending order: one that is behind the last checkpoint by now is
// refused with [ErrOutOfRange], one that equals it writes nothing. Errors are those of CheckpointAt.
func (p *Prepared) Commit(ctx context.Context) error {
	r := p.t.explicit(p.at)
	r.now = true
	_, err := p.t.set(ctx, r)
	return err
}
