// Package hashkey answers where on the ring of 128-bit hash keys something is: a key, and the range that a shard covers.
package hashkey
