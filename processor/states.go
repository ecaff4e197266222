package processor

import "github.com/shardlease/shardlease/internal/states"

// State is where a shard's consumer stands. (KCL: ConsumerStates)
type State states.State

// The states of a consumer, in their usual order. ShutdownRequested is skipped unless the consumer is asked to stop.
const (
	WaitingOnParents  = State(states.WaitingOnParents)  // the shard's parents are not read to their end
	Initializing      = State(states.Initializing)      // the processor is made and Initialize is called until it returns nil
	Processing        = State(states.Processing)        // records are read and handed over
	ShutdownRequested = State(states.ShutdownRequested) // the processor is told to checkpoint, because the lease will be given up
	ShuttingDown      = State(states.ShuttingDown)      // the end of the shard is recorded, or the processor is told that the lease is lost
	Done              = State(states.Done)              // nothing will be called any more
)

func (s State) String() string { return states.State(s).String() }

// Reason is why a consumer stops. A reason gives way only to one of higher rank: the end of a shard is recorded although a
// stop was requested, and nothing is recorded once the lease is lost. (KCL: ShutdownReason)
type Reason states.Reason

// The reasons, by rank. The zero Reason means that the consumer is not stopping.
const (
	Requested = Reason(states.Requested) // this worker gives the lease up, or cannot go on reading
	ShardEnd  = Reason(states.ShardEnd)  // the shard has no more records
	LeaseLost = Reason(states.LeaseLost) // another worker may own the shard
)

func (r Reason) String() string { return states.Reason(r).String() }
