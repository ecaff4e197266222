package kinesis

import (
	"crypto/md5"
	"encoding/binary"
	"math/big"
	"math/bits"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// hash is a point on the ring of 128-bit hash keys.
type hash struct{ hi, lo uint64 }

var maxHash = hash{^uint64(0), ^uint64(0)}

// hashOf is where a partition key belongs.
func hashOf(partitionKey string) hash {
	sum := md5.Sum([]byte(partitionKey))
	return hash{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:])}
}

// parseHash reads a decimal number below 2^128 without sign or leading zeros, the value of the named member. What is no such
// number at all is malformed, one that is too large invalid: the service checks the pattern of a member first.
func parseHash(member, s string) (hash, *wire.Error) {
	number := s != "" && len(s) <= 39 && (s[0] != '0' || len(s) == 1)
	for i := 0; number && i < len(s); i++ {
		number = s[i] >= '0' && s[i] <= '9'
	}
	if !number {
		return hash{}, malformed("%s %q is not a number from 0 to %s", member, s, maxHash)
	}
	var h hash
	for i := range len(s) {
		over, hi := bits.Mul64(h.hi, 10)
		carry, lo := bits.Mul64(h.lo, 10)
		var c uint64
		lo, c = bits.Add64(lo, uint64(s[i]-'0'), 0)
		hi, c = bits.Add64(hi, carry, c)
		if over != 0 || c != 0 {
			return hash{}, invalid("%s %s is not in the range from 0 to %s", member, s, maxHash)
		}
		h = hash{hi, lo}
	}
	return h, nil
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
