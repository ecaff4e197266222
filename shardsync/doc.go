// Package shardsync answers which leases should exist.
//
// Rows come into being in three ways only. [HierarchicalShardSyncer.Sync] makes the first ones, for the place in the stream's
// history where the application starts. [HierarchicalShardSyncer.EndShard] makes the rows of a finished shard's children.
// And [PeriodicShardSyncManager] makes those that are missing nevertheless: somebody deleted them, or their shards' parents
// left the stream before anybody read them. What to make is decided by pure functions over a listing of shards and a listing
// of leases ([DetermineNewLeases], [FindHole]); every row is created only if absent, so that any number of workers may do
// the same at the same time and any of them may die between two writes.
//
// # The audit
//
// The manager looks at the ring of hash keys every ShardSyncInterval and believes a hole once it was there ShardSyncConfidence
// times in a row. A test keeps this drawing true (a finding that leads nowhere is left out: another hole, or the same one
// once more, leaves a suspicion a suspicion):
//
//	stateDiagram-v2
//	%% audit confidence
//	[*] --> ok
//	ok --> suspected: another hole
//	ok --> confirmed: no leases
//	ok --> confirmed: same hole often enough
//	suspected --> ok: ring whole
//	suspected --> confirmed: no leases
//	suspected --> confirmed: same hole often enough
//	confirmed --> ok: ring whole
//	confirmed --> suspected: another hole
//
// In confirmed every audit compares all shards with all leases, until the ring is whole. The first audit of a leader, and one
// that was asked for, need no second look.
//
// The shards of a DynamoDB table's stream have no hash keys ([SyncerOptions].ByLineage): there is no ring that could be whole, and each
// audit compares all shards with all leases.
//
// # What a decision is good for
//
// A process can be stopped between its decision to create a row and the write, for hours. Meanwhile another one may have
// created the row, read the shard to its end, and deleted the row. The first process would create it again, and the shard
// would be read twice. So a decision is good for some seconds from the first look at what it rests on, by both clocks; after that it
// is made anew from the table. The request itself may be late, too: for that, package cleanup keeps finished rows for a while. The
// constants of package leases say how the times add up ([config.LeaseCleanupConfig].KeepFinished).
package shardsync
