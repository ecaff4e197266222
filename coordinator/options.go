package coordinator

import (
	"context"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// Options is what a Scheduler works with. All fields are required but Strategy.
type Options struct {
	Config   config.Config // validated and completed; Hooks and Logger are set
	Stream   string        // the stream's name, for people and hooks
	Table    *leases.Table
	Syncer   Syncer
	Open     OpenFunc
	Factory  processor.Factory
	Strategy leases.AssignmentStrategy // nil for the built-in one that Config names
	Shards   cleanup.ShardLister       // for the cleanup of leases
}

// Syncer is what the scheduler needs of shardsync.
type Syncer interface {
	// Sync creates the leases that are missing. It is called when the worker starts.
	Sync(ctx context.Context) error
	// EndShard makes the children of parent's shard known in the table. It may be repeated.
	EndShard(ctx context.Context, parent leases.Lease, end processor.End) error
	// ParentsEnded reports whether the shard of l may be read.
	ParentsEnded(ctx context.Context, l leases.Lease) (bool, error)
}

// OpenFunc starts reading the shard of l after from.
type OpenFunc func(ctx context.Context, l leases.Lease, from checkpoint.ExtendedSequenceNumber) (processor.RecordSource, error)
