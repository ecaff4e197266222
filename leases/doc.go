// Package leases answers who may read a shard: how a lease is taken, kept and lost.
//
// A lease is a row of a DynamoDB table, one for each shard. Workers agree on nothing but these rows, by conditional writes
// alone; they are the rows of the Java KCL, which Java workers read and write in the same table.
//
// # The row
//
// [Lease] is the row as a value; attributes.go names the attributes. Three things in it say who owns:
//
//   - leaseOwner, the worker;
//   - leaseCounter, which moves with every write of the owner and with every change of owner. A counter that stands still
//     for as long as its owner promised says that the owner is gone. There is no time in the row;
//   - tenure, which Java workers neither know nor touch: who wrote last, under which nonce, and which counter that write
//     installed (at). While at equals leaseCounter, the tenure speaks: the last write was that tenure's. Otherwise a Java
//     worker has written since.
//
// Rows that are no leases (KCL 3.5 keeps some in this table) are left out, and rows that cannot be read are left out with a
// warning: one bad row stops neither a listing nor a worker. Attributes that this version does not know survive every write.
//
// # The writes
//
// [Table] has them. Each has a condition, which its comment states:
//
//	write           moves the counter   condition: the row exists and …
//	Create          starts it           (there is none)
//	Take            yes                 is as it was seen
//	Renew, Update   yes                 is as this tenure left it; or, for the first renewal after a hand-off, as it was completed
//	StartHandoff    no                  is this tenure's, and nobody has asked for it
//	CompleteHandoff yes                 is as this tenure left it, and asked for as this tenure learnt
//	Evict           yes                 is as this tenure left it, and nobody has asked for it
//	Delete          -                   is as it was seen, at the same checkpoint
//	UpdateMetadata  no                  -
//
// "As it was seen" compares the counter, and the tenure's nonce: after a row was deleted and made anew its counter starts
// over, and the nonce does not. So once a take is in the table, no write of the tenure before it can ever land.
//
// # Lost replies
//
// A write whose reply is lost may be in the table, and sending it again fails on its own success. Then the row decides. If
// its tenure speaks, carries our nonce, and we are the actual owner, it is ours; the write is sent once more, based on what
// the row says now. Owner and counter + 1 prove nothing: a Java worker with our id, or another process of ours, leaves the
// same. What is neither ours nor lost for certain stays unknown, and is an error that is not [ErrLeaseLost].
package leases
