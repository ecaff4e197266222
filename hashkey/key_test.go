package hashkey

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestParse_readsWhatStringWritesAsBigIntsDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := Key{rapid.Uint64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")}
		want := new(big.Int).SetUint64(k.Hi)
		want.Lsh(want, 64).Add(want, new(big.Int).SetUint64(k.Lo))
		if got := k.String(); got != want.String() {
			t.Fatalf("String() = %s, want %s", got, want)
		}
		back, err := Parse("00" + k.String())
		if err != nil || back != k {
			t.Fatalf("Parse(%s) = %v, %v", k, back, err)
		}
		next, ok := k.Next()
		if ok == (k == Max) || ok && next.String() != want.Add(want, big.NewInt(1)).String() {
			t.Fatalf("Next(%s) = %s, %v", k, next, ok)
		}
		if ok && (k.Compare(next) >= 0 || next.Compare(k) <= 0 || k.Compare(k) != 0) {
			t.Fatalf("%s and %s compare wrongly", k, next)
		}
	})
}

func TestParse_refusesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "-1", "+1", " 1", "1x", "0x10", "340282366920938463463374607431768211456", "9999999999999999999999999999999999999999"} {
		if k, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, k)
		}
	}
	if k, err := Parse("340282366920938463463374607431768211455"); err != nil || k != Max {
		t.Errorf("Parse(2^128-1) = %v, %v", k, err)
	}
}

func TestParseRange_wantsStartNotAboveEnd(t *testing.T) {
	t.Parallel()
	if r, err := ParseRange("3", "3"); err != nil || r.String() != "3-3" {
		t.Errorf("ParseRange(3, 3) = %v, %v", r, err)
	}
	for _, p := range [][2]string{{"4", "3"}, {"", "3"}, {"3", "x"}} {
		if r, err := ParseRange(p[0], p[1]); err == nil {
			t.Errorf("ParseRange(%q, %q) = %v, want an error", p[0], p[1], r)
		}
	}
}
