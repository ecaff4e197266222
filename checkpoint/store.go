package checkpoint

import "context"

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

// Store writes checkpoints durably. Each write is fenced: it either lands while the tenure that the Store belongs to still
// holds the lease, or fails with an error for which errors.Is(err, ErrLeaseLost) holds and changes nothing.
// Calls of one Store may come from several goroutines.
type Store interface {
	// WriteCheckpoint sets the checkpoint and clears what was pending.
	WriteCheckpoint(ctx context.Context, at ExtendedSequenceNumber) error
	// WritePending sets the pending part only.
	WritePending(ctx context.Context, p Pending) error
}
