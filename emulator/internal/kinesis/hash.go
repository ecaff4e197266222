package kinesis

import (
	"crypto/md5"
	"encoding/binary"
	"math/big"
	"math/bits"
)

// hash is a point on the ring of 128-bit hash keys.
type hash struct{ hi, lo uint64 }

var maxHash = hash{^uint64(0), ^uint64(0)}

// hashOf is where a partition key belongs.
func hashOf(partitionKey string) hash {
	sum := md5.Sum([]byte(partitionKey))
	return hash{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:])}
}

// parseHash reads a decimal number below 2^128 without sign or leading zeros.
func parseHash(s string) (hash, bool) {
	if s == "" || len(s) > 39 || s[0] == '0' && len(s) > 1 {
		return hash{}, false
	}
	var h hash
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return hash{}, false
		}
		over, hi := bits.Mul64(h.hi, 10)
		carry, lo := bits.Mul64(h.lo, 10)
		var c uint64
		lo, c = bits.Add64(lo, uint64(d), 0)
		hi, c = bits.Add64(hi, carry, c)
		if over != 0 || c != 0 {
			return hash{}, false
		}
		h = hash{hi, lo}
	}
	return h, true
}

func (h hash) compare(o hash) int {
	switch {
	case h.hi < o.hi || h.hi == o.hi && h.lo < o.lo:
		return -1
	case h == o:
		return 0
	}
	return 1
}

// next and previous wrap around at the ends of the ring; callers are not there.
func (h hash) next() hash {
	lo, c := bits.Add64(h.lo, 1, 0)
	return hash{h.hi + c, lo}
}

func (h hash) previous() hash {
	lo, c := bits.Sub64(h.lo, 1, 0)
	return hash{h.hi - c, lo}
}

func (h hash) big() *big.Int {
	n := new(big.Int).SetUint64(h.hi)
	return n.Add(n.Lsh(n, 64), new(big.Int).SetUint64(h.lo))
}

func (h hash) String() string { return h.big().String() }

// uniform is the first hash key of part i of n equal parts of the ring, the last taking the remainder.
func uniform(i, n int) hash {
	step := new(big.Int).Lsh(big.NewInt(1), 128)
	step.Div(step, big.NewInt(int64(n)))
	at := step.Mul(step, big.NewInt(int64(i)))
	var raw [16]byte
	at.FillBytes(raw[:])
	return hash{binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])}
}
