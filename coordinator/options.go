package coordinator

import (
	"context"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/shardsync"
)

// Options is what a Scheduler works with. All fields are required but Strategy.
type Options struct {
	Config   config.Config // validated and completed; Hooks and Logger are set
	Stream   string        // the stream's name, for people and hooks
	Table    *leases.Table
	Syncer   *shardsync.HierarchicalShardSyncer
	Open     OpenFunc
	Factory  processor.Factory
	Strategy leases.AssignmentStrategy // nil for leases.LeaseCount; what Config names is for the caller to look up
	Shards   cleanup.ShardLister       // for the cleanup of leases
}

// OpenFunc starts reading the shard of l after from.
type OpenFunc func(ctx context.Context, l leases.Lease, from checkpoint.ExtendedSequenceNumber) (processor.RecordSource, error)
