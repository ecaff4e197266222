package leases

import (
	"errors"
	"math/bits"

	"github.com/shardlease/shardlease/hashkey"
)

var errNotHashKey = errors.New("not a decimal number from 0 to 2^128-1")

// parseHashKey reads a decimal number of 128 bits.
func parseHashKey(s string) (hashkey.Key, error) {
	var k hashkey.Key
	if s == "" {
		return k, errNotHashKey
	}
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 {
			return hashkey.Key{}, errNotHashKey
		}
		carry, lo := bits.Mul64(k.Lo, 10)
		over, hi := bits.Mul64(k.Hi, 10)
		lo, c := bits.Add64(lo, d, 0)
		hi, c = bits.Add64(hi, carry, c)
		if over != 0 || c != 0 {
			return hashkey.Key{}, errNotHashKey
		}
		k = hashkey.Key{Hi: hi, Lo: lo}
	}
	return k, nil
}

// formatHashKey is the number as KCL writes it: decimal, without leading zeros.
func formatHashKey(k hashkey.Key) string {
	var buf [39]byte // 2^128 has 39 digits
	i := len(buf)
	for {
		var r uint64
		k.Hi, r = bits.Div64(0, k.Hi, 10)
		k.Lo, r = bits.Div64(r, k.Lo, 10)
		i--
		buf[i] = '0' + byte(r)
		if k == (hashkey.Key{}) {
			return string(buf[i:])
		}
	}
}
