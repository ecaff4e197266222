// Package cleanup answers which leases may go.
//
// A lease whose shard was read to its end stays in the table as a tombstone: it tells its children that they may begin, and
// keeps anybody from reading its shard again. [Decide] says when it has done its work:
//
//   - Completed. Every child has a row and has begun, so no child waits any more and the whole part of the stream that
//     follows has an owner or will get one.
//   - Garbage. The service has forgotten the shard, so that it cannot be read again, and unfinished leases cover its hash
//     keys, so that nothing that follows it is left out.
//
// In both cases the rows of its parents go first. A row is never deleted before its checkpoint says SHARD_END, whoever owns
// it, and however long its shard is gone: a shard that is gone is ended by whoever holds its lease.
//
// # Why checking and then deleting is safe
//
// The deletion is conditioned on the row's own counter and checkpoint, but on nothing of the other rows. Everything that was
// read of those stays true:
//
//  1. A child that has begun stays begun, since checkpoints never move back and SHARD_END is final.
//  2. A child's row does not vanish: cleanup deletes it only after this one.
//  3. A parent's row that is gone does not come back: no ancestor of a leased shard gets a lease.
//  4. Hash keys that are covered stay covered: a lease is finished only after rows of its children exist.
//
// So it does not matter what happens between the reads and the deletion, nor how many workers clean up at once: each deletes
// only what may go, and what may go goes whoever deletes it. For the same reason a listing of the table that is some seconds
// old will do to find rows worth a look; those are then read consistently.
package cleanup
