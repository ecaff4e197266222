package hashkey

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
)

// Max is the last key of the ring, 2^128 - 1.
var Max = Key{math.MaxUint64, math.MaxUint64}

// Parse reads a key as Kinesis and the lease table write it: a decimal number from 0 to 2^128 - 1.
func Parse(s string) (Key, error) {
	if s == "" {
		return Key{}, notAKey(s)
	}
	var k Key
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 {
			return Key{}, notAKey(s)
		}
		carry, lo := bits.Mul64(k.Lo, 10)
		over, hi := bits.Mul64(k.Hi, 10)
		lo, c := bits.Add64(lo, d, 0)
		hi, c = bits.Add64(hi, carry, c)
		if over != 0 || c != 0 {
			return Key{}, notAKey(s)
		}
		k = Key{hi, lo}
	}
	return k, nil
}

func notAKey(s string) error {
	return fmt.Errorf("hash key is %.60q, want a decimal number from 0 to 2^128-1", s)
}

// ParseRange reads the closed interval from start to end. The error names the end that is wrong, or both if they are in
// the wrong order.
func ParseRange(start, end string) (Range, error) {
	from, err := Parse(start)
	if err != nil {
		return Range{}, fmt.Errorf("start of the range: %w", err)
	}
	to, err := Parse(end)
	if err != nil {
		return Range{}, fmt.Errorf("end of the range: %w", err)
	}
	if from.Compare(to) > 0 {
		return Range{}, fmt.Errorf("hash key range starts at %s, which is above its end %s", start, end)
	}
	return Range{Start: from, End: to, Known: true}, nil
}

// String is the number as Kinesis and the lease table write it: decimal, without leading zeros.
func (k Key) String() string {
	var buf [39]byte // 2^128 has 39 digits
	for i := len(buf) - 1; ; i-- {
		var r uint64
		k.Hi, r = bits.Div64(0, k.Hi, 10)
		k.Lo, r = bits.Div64(r, k.Lo, 10)
		buf[i] = '0' + byte(r)
		if k == (Key{}) {
			return string(buf[i:])
		}
	}
}

// Compare returns a negative number if k lies before o, a positive one if it lies after o, and 0 if they are equal.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Hi, o.Hi), cmp.Compare(k.Lo, o.Lo))
}

// Next is the key after k. The ring does not wrap: there is none after [Max].
func (k Key) Next() (next Key, ok bool) {
	lo, carry := bits.Add64(k.Lo, 1, 0)
	hi, over := bits.Add64(k.Hi, 0, carry)
	return Key{hi, lo}, over == 0
}

// String is for people: "0-127", or "unknown".
func (r Range) String() string {
	if !r.Known {
		return "unknown"
	}
	return r.Start.String() + "-" + r.End.String()
}
