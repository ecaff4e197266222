// Package hashkey answers where on the ring of 128-bit hash keys a partition key lies, and what a range of them covers.
//
// A stream's open shards divide the ring [0, 2^128) into closed intervals without gap or overlap. A lease remembers its
// shard's interval in decimal; comparing those finds a shard that nobody has a lease for.
package hashkey
