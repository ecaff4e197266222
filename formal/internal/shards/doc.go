// Package shards models the leases of a stream that is resharded: consumers that read shards, make children known and finish
// rows; leaders that create what is missing; and cleaners that delete what is done. All may crash between any two accesses to
// the table, and two of each kind may do the same at the same time.
//
// What it does not copy it runs. EndShard and ParentsEnded are the production functions: they are run again from their
// beginning with the answers that they have had so far, up to the next question that they ask the table or the service; that
// question is the next step of the model (see [script]). Which leases are missing, whether the ring has a hole, and whether a row may go are
// asked of shardsync.DetermineNewLeases, shardsync.FindHole and cleanup.Decide. Conditional writes of a tenure are taken for
// fenced here: that is what the model of one row is for.
package shards
