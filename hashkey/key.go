package hashkey

import (
	"cmp"
	"crypto/md5" // Kinesis defines the hash; nothing secret depends on it
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Key is a place on the ring of 128-bit hash keys, big-endian: Hi holds the upper 64 bits. Keys are comparable with ==.
type Key struct{ Hi, Lo uint64 }

// Max is the last key of the ring, 2^128 − 1. The first one is the zero Key.
var Max = Key{Hi: math.MaxUint64, Lo: math.MaxUint64}

// Of returns the key of a partition key, as Kinesis computes it: the MD5 sum of its UTF-8 bytes.
func Of(partitionKey string) Key {
	sum := md5.Sum([]byte(partitionKey))
	return Key{Hi: binary.BigEndian.Uint64(sum[:8]), Lo: binary.BigEndian.Uint64(sum[8:])}
}

// Parse reads a key in decimal, without sign or space, as Kinesis and the lease table write it; leading zeros are allowed.
// The error names the value and what is allowed.
func Parse(s string) (Key, error) {
	if s == "" {
		return Key{}, notAKey(s, "decimal digits")
	}
	var k Key
	for i := range len(s) {
		digit := uint64(s[i] - '0')
		if digit > 9 {
			return Key{}, notAKey(s, "decimal digits")
		}
		// k = 10k + digit. over is what leaves the upper word in the multiplication, carry in the additions.
		over, hi := bits.Mul64(k.Hi, 10)
		up, lo := bits.Mul64(k.Lo, 10)
		lo, carry := bits.Add64(lo, digit, 0)
		hi, carry = bits.Add64(hi, up, carry)
		if over != 0 || carry != 0 {
			return Key{}, notAKey(s, "at most "+Max.String())
		}
		k = Key{Hi: hi, Lo: lo}
	}
	return k, nil
}

func notAKey(s, want string) error {
	const most = 60 // a key has at most 39 digits
	if len(s) > most {
		return fmt.Errorf("hash key is %q… (%d bytes), want %s", s[:most], len(s), want)
	}
	return fmt.Errorf("hash key is %q, want %s", s, want)
}

// String returns the key in decimal, without leading zeros.
func (k Key) String() string {
	var buf [39]byte // 2^128 has 39 digits
	for i := len(buf) - 1; ; i-- {
		var rest uint64
		k.Hi, rest = bits.Div64(0, k.Hi, 10)
		k.Lo, rest = bits.Div64(rest, k.Lo, 10)
		buf[i] = '0' + byte(rest)
		if k == (Key{}) {
			return string(buf[i:])
		}
	}
}

// Compare returns −1, 0 or 1 as k comes before, is, or comes after other.
func (k Key) Compare(other Key) int {
	if c := cmp.Compare(k.Hi, other.Hi); c != 0 {
		return c
	}
	return cmp.Compare(k.Lo, other.Lo)
}

// Next returns the key after k; ok is false for [Max], which has none.
func (k Key) Next() (next Key, ok bool) {
	lo, carry := bits.Add64(k.Lo, 1, 0)
	hi, carry := bits.Add64(k.Hi, 0, carry)
	return Key{Hi: hi, Lo: lo}, carry == 0
}
