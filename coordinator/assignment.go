package coordinator

import (
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

// Assignment is one lease that a worker holds, as it was at the moment of asking.
type Assignment struct {
	LeaseKey string
	Stream   string
	ShardID  string
	// State is the consumer's: WaitingOnParents, Initializing, Processing, ShutdownRequested, ShuttingDown, Done; or Finished
	// for a shard that was read to its end and whose lease is kept until it is cleaned up.
	State      string
	Checkpoint checkpoint.ExtendedSequenceNumber // durable
	Delivered  checkpoint.ExtendedSequenceNumber // end of the last batch that ProcessRecords was called with
	// MillisBehindLatest is how far the shard's tip was ahead of the last batch; negative if no batch came yet.
	MillisBehindLatest int64
	Token              int64
	Since              time.Time // when State was entered, on this process's own clock; zero if not known
}

func (e *entry) assignment() Assignment {
	l := e.held.Lease()
	a := Assignment{
		LeaseKey: l.Key, Stream: e.stream.Name, ShardID: l.Shard(), State: "Starting", Checkpoint: l.Checkpoint,
		Delivered: l.Checkpoint, MillisBehindLatest: -1, Token: e.held.Grant().Token,
	}
	switch {
	case e.finished:
		a.State, a.MillisBehindLatest = "Finished", 0
	case e.consumer != nil:
		s := e.consumer.Status()
		a.State, a.Checkpoint, a.Delivered = s.State.String(), s.LastCheckpoint, s.LastDelivered
		a.MillisBehindLatest, a.Since = s.MillisBehindLatest, s.Since
	}
	return a
}
