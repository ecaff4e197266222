// Package checkpoint answers where in a shard a worker is, and whether it may say so.
//
// A place is an [ExtendedSequenceNumber]. User code moves its shard's checkpoint with a [Checkpointer]; what it may say is
// decided by the [Tracker] behind it, which the shard's consumer tells about every batch; what it said is made durable by
// a [Store], which fences each write with the lease. The pieces in the order in which a checkpoint passes them:
//
//	user code ─► Checkpointer ─► Tracker: handled? delivered? not behind? ─► Store: still the owner? ─► lease table
//
// # What may be checkpointed
//
//	       durable        handled            delivered
//	─────────●───────────────●───────────────────●──────────► sequence numbers
//	         │               │                   └ upper bound of CheckpointAt and Prepare: end of the largest batch so far
//	         │               └ where Checkpoint goes: every batch whose ProcessRecords returned nil and, while
//	         │                 ProcessRecords runs, the batch in hand; after an error or a panic the last good batch
//	         └ lower bound: the last checkpoint that reached the table, or may have reached it
//
// A checkpoint equal to the durable one writes nothing. One outside the bounds is refused with [ErrOutOfRange], and nothing
// is written; but while a batch that failed comes again, a place in it that was passed before means the lower bound. Once the shard has ended, Checkpoint means SHARD_END, and so does the number of the shard's last record.
//
// # Writes that wait
//
// With LeaseManagement.CheckpointInterval a checkpoint is accepted, remembered, and written with the next renewal of the lease
// ([Deferrer]). Then the lower bound is the last checkpoint accepted, and what was handled between the durable place and
// that one comes again after a crash. [Checkpointer.Flush] writes at once. SHARD_END and checkpoints in two phases are
// never deferred.
//
// # Failed writes
//
// A write that failed other than by [ErrLeaseLost] may have landed all the same (the reply was lost). The durable place
// stays where it was, but nothing smaller than the failed write is accepted from then on, because it could move the row
// back. Repeat the failed call, or make any later one: the store finds out what happened and the write lands once.
package checkpoint
