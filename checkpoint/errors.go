package checkpoint

import "errors"

// ErrLeaseLost is what a checkpoint, or any other act of an owner, fails with once this worker no longer holds the lease.
// It is also the cause of a lease's context from then on. The shard's records go on with another worker; stop, do not retry.
// (KCL: ShutdownException)
var ErrLeaseLost = errors.New("lease lost")
