package hashkey

// Key is a place on the ring of 128-bit hash keys, big-endian: Hi holds the upper 64 bits.
type Key struct{ Hi, Lo uint64 }

// Range is a closed interval of hash keys: both ends belong to it. The zero Range is "not known".
type Range struct {
	Start, End Key
	Known      bool
}
