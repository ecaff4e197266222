package processor

import "context"

// Base has every method of RecordProcessor but ProcessRecords; embed it and write that one. Initialize and LeaseLost do
// nothing; ShardEnded and ShutdownRequested checkpoint everything that was handled.
type Base struct{}

// Initialize does nothing.
func (Base) Initialize(context.Context, InitializationInput) error { return nil }

// LeaseLost does nothing.
func (Base) LeaseLost(context.Context, LeaseLostInput) {}

// ShardEnded checkpoints the end of the shard.
func (Base) ShardEnded(ctx context.Context, in ShardEndedInput) error {
	return in.Checkpointer.Checkpoint(ctx)
}

// ShutdownRequested checkpoints all batches whose ProcessRecords returned nil.
func (Base) ShutdownRequested(ctx context.Context, in ShutdownRequestedInput) error {
	return in.Checkpointer.Checkpoint(ctx)
}
