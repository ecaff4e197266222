package coordinator

import (
	"context"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// Options is what a Scheduler works with. All fields are required but Strategy and Left, and one of Stream and Streams.
type Options struct {
	Config   config.Config // validated and completed; Hooks and Logger are set
	Stream   *Stream       // the only stream to read
	Streams  *StreamSource // of a worker of several streams
	Table    *leases.Table
	Factory  processor.Factory
	Strategy leases.AssignmentStrategy // nil for leases.LeaseCount; what Config names is for the caller to look up
	// Left is called when every lease has been given up and nothing runs any more; it is given Run's context, which may have
	// ended, and must bound its time itself. Its error is part of Run's.
	Left func(ctx context.Context) error
}

// OpenFunc starts reading the shard of l after from.
type OpenFunc func(ctx context.Context, l leases.Lease, from checkpoint.ExtendedSequenceNumber) (processor.RecordSource, error)
