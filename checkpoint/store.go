package checkpoint

import (
	"context"
	"time"
)

// Grant is the right to act on one shard, as user code sees it.
type Grant struct {
	LeaseKey string
	// Token fences: it is the value of the lease counter that this tenure's own first write installed. It is larger for
	// every later tenure of the same lease, so a sink that refuses a token smaller than the largest it has seen refuses
	// every write of an owner that was replaced.
	Token int64
}

// Pending is the first half of a two-phase checkpoint: a place that was prepared and not yet committed.
type Pending struct {
	At    ExtendedSequenceNumber
	State []byte // the application's own, returned to whoever owns the shard next; nil if none
}

// Deferrer is what a [Store] may be beside: one that can write checkpoints later, with whatever it writes to the row next, so
// that they cost no write of their own.
type Deferrer interface {
	// DeferCheckpoint remembers at, in place of what was remembered before, and returns at once. It reports false, and does
	// nothing, if this Store writes nothing later. An error wraps [ErrLeaseLost]; nothing is remembered then.
	//
	// ended is called once for what was remembered last, from any goroutine: with nil when it is durable; otherwise with why
	// it will never be written, an error that wraps ErrLeaseLost if the lease ended before. It must not block. A
	// WriteCheckpoint of the same place or one after it makes the remembered one needless, and ended is not called for that.
	DeferCheckpoint(at ExtendedSequenceNumber, ended func(at ExtendedSequenceNumber, elapsed time.Duration, err error)) (bool, error)
}

// Store writes checkpoints durably. Each write is fenced: it either lands while the tenure that the Store belongs to still
// holds the lease, or fails with an error for which errors.Is(err, ErrLeaseLost) holds and changes nothing.
// Calls of one Store may come from several goroutines.
type Store interface {
	// WriteCheckpoint sets the checkpoint and clears what was pending.
	WriteCheckpoint(ctx context.Context, at ExtendedSequenceNumber) error
	// WritePending sets the pending part; of a checkpoint that was deferred, both in one write.
	WritePending(ctx context.Context, p Pending) error
}
