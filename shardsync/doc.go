// Package shardsync answers which leases should exist.
//
// Rows come into being in two ways only. [HierarchicalShardSyncer.Sync] makes the first ones, for the place in the stream's
// history where the application starts, and repairs a table that was left half made. [HierarchicalShardSyncer.EndShard]
// makes the rows of a finished shard's children. What to make is decided by pure functions over a listing of shards and a
// listing of leases ([DetermineNewLeases], [FindHole]); every row is created only if absent, so that any number of workers
// may do the same at the same time and any of them may die between two writes.
package shardsync
