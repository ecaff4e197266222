package checkpoint

import "errors"

// ErrLeaseLost is what a checkpoint, or any other act of an owner, fails with once this worker no longer holds the lease.
// It is also the cause of a lease's context from then on. The shard's records go on with another worker; stop, do not retry.
// (KCL: ShutdownException)
var ErrLeaseLost = errors.New("lease lost")

// ErrOutOfRange is what a checkpoint fails with that names a place outside what may be checkpointed now: beyond what was
// delivered, behind the last checkpoint, or a sentinel that does not fit. Nothing was written, the lease is still held, and
// the same call would fail again, unless its batch fails and comes again. A program whose goroutines finish out of order may ignore it when it acknowledges late;
// anywhere else it is a mistake in the program. (KCL: IllegalArgumentException)
var ErrOutOfRange = errors.New("checkpoint out of range")
