package leases

import (
	"slices"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/hashkey"
)

// Lease is one row of the lease table: the right to read one shard, who has it, and how far the shard was read.
// It is a value; nothing in it changes behind the reader's back, and slices are not shared with the table's own state.
// (KCL: Lease, MultiStreamLease)
type Lease struct {
	Key           string // leaseKey: the shard's id, or stream identifier:shard id in multi-stream mode
	Owner         string // leaseOwner: who runs the shard, or, under a live hand-off mark, who will; empty if nobody
	Counter       int64  // leaseCounter: moves with every renewal, take, checkpoint and release
	OwnerSwitches int64  // ownerSwitchesSinceCheckpoint

	Checkpoint checkpoint.ExtendedSequenceNumber
	Pending    *checkpoint.Pending // nil if none

	ParentShardIDs []string // sorted
	ChildShardIDs  []string // sorted; written when the shard has ended
	HashKeyRange   hashkey.Range

	ThroughputKBps  float64 // meaningful if HasThroughput
	HasThroughput   bool
	CheckpointOwner string // checkpointOwner: during a hand-off, who still owns
	EntityType      string // entityType: LEASE, or empty in rows of older KCL versions
	StreamName      string // streamName, multi-stream mode only
	ShardID         string // shardId, multi-stream mode only; see Shard

	Tenure        *Tenure // our own attribute; nil if no Go worker ever wrote this row
	HandoffTo     string  // our own attribute handoffTo
	StartAtMillis int64   // our own attribute startAtMillis: Unix milliseconds where the shard starts; 0 if not pinned
	StreamARN     string  // our own attribute streamArn: the stream of a DynamoDB table that the shard is of; empty of Kinesis
}

// Tenure is what a Go worker writes of itself with every write that moves the counter. It tells one's own lost reply from
// a write of another process that has the same worker id, and lets peers know what they cannot see.
type Tenure struct {
	Worker   string        // worker id
	Nonce    string        // process-random/sequence: one per tenure
	At       int64         // the counter that this write installed; the tenure speaks only while it equals Lease.Counter
	Failover time.Duration // the writer's FailoverTime
	Max      int           // the writer's MaxLeasesForWorker; 0 = no limit
	Zone     string
	Leaving  bool // the writer is stopping
}

// TenureSpeaks reports whether the last write that moved the counter was made by a Go worker, so that Tenure is true.
// Otherwise a Java worker has written since.
func (l Lease) TenureSpeaks() bool { return l.Tenure != nil && l.Tenure.At == l.Counter }

// MarkIsLive reports whether a hand-off has been asked for and not completed: then CheckpointOwner still owns. A mark that
// a Java 2.x take left behind is not live.
func (l Lease) MarkIsLive() bool {
	return l.CheckpointOwner != "" && l.HandoffTo != "" && l.HandoffTo == l.Owner &&
		l.TenureSpeaks() && l.Tenure.Worker == l.CheckpointOwner
}

// ActualOwner is the worker that may act on the shard now; empty if nobody.
func (l Lease) ActualOwner() string {
	if l.MarkIsLive() {
		return l.CheckpointOwner
	}
	return l.Owner
}

// InTransit reports whether a hand-off was completed and its new owner has not renewed yet.
func (l Lease) InTransit() bool {
	return l.HandoffTo != "" && l.HandoffTo == l.Owner && l.CheckpointOwner == "" && l.TenureSpeaks()
}

// Finished reports whether the shard was read to its end. (KCL: isShardEnd)
func (l Lease) Finished() bool { return l.Checkpoint == checkpoint.ShardEnd }

// share lets l have what is equal in other from there, so that it is in memory once.
func (l *Lease) share(other *Lease) {
	if l.Key == other.Key {
		l.Key = other.Key
	}
	if l.Checkpoint == other.Checkpoint {
		l.Checkpoint = other.Checkpoint
	}
	if l.Tenure != nil && other.Tenure != nil && *l.Tenure == *other.Tenure {
		l.Tenure = other.Tenure
	}
	if len(l.ParentShardIDs) > 0 && slices.Equal(l.ParentShardIDs, other.ParentShardIDs) {
		l.ParentShardIDs = other.ParentShardIDs
	}
	if len(l.ChildShardIDs) > 0 && slices.Equal(l.ChildShardIDs, other.ChildShardIDs) {
		l.ChildShardIDs = other.ChildShardIDs
	}
}

// Shard is the id of the lease's shard.
func (l Lease) Shard() string {
	if l.ShardID != "" {
		return l.ShardID
	}
	if _, shard, ok := splitKey(l.Key); ok {
		return shard
	}
	return l.Key
}
