package hashkey

import (
	"crypto/md5"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func big128(k Key) *big.Int {
	n := new(big.Int).SetUint64(k.Hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(k.Lo))
}

// keys draws from the whole ring, with its corners far more often than chance would.
func keys() *rapid.Generator[Key] {
	word := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 9, 10, 1e19 - 1, 1e19, 1<<63 - 1, 1 << 63, 1<<64 - 1}))
	return rapid.Custom(func(t *rapid.T) Key { return Key{Hi: word.Draw(t, "hi"), Lo: word.Draw(t, "lo")} })
}

func TestKey_printsAndParsesLikeABigInt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := keys().Draw(t, "key")
		if got, want := k.String(), big128(k).String(); got != want {
			t.Fatalf("String() = %s, want %s", got, want)
		}
		got, err := Parse(strings.Repeat("0", rapid.IntRange(0, 50).Draw(t, "zeros")) + k.String())
		if err != nil || got != k {
			t.Fatalf("Parse(%s) = %v, %v", k, got, err)
		}
	})
}

func TestKey_comparesLikeABigInt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys().Draw(t, "a"), keys().Draw(t, "b")
		if got, want := a.Compare(b), big128(a).Cmp(big128(b)); got != want {
			t.Fatalf("%s.Compare(%s) = %d, want %d", a, b, got, want)
		}
	})
}

func TestKey_nextIsOneMoreUntilTheRingEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := keys().Draw(t, "key")
		next, ok := k.Next()
		if k == Max {
			if ok {
				t.Fatalf("%s has a next key %s", k, next)
			}
			return
		}
		if want := new(big.Int).Add(big128(k), big.NewInt(1)); !ok || big128(next).Cmp(want) != 0 {
			t.Fatalf("next of %s is %s, want %s", k, next, want)
		}
	})
}

func TestParse_readsWhateverIsBelow2To128AndNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[0-9]{1,45}`).Draw(t, "digits")
		n, _ := new(big.Int).SetString(s, 10)
		k, err := Parse(s)
		if (err == nil) != (n.BitLen() <= 128) || err == nil && big128(k).Cmp(n) != 0 {
			t.Fatalf("Parse(%s) = %s, %v", s, k, err)
		}
	})
}

func TestParse_namesTheValueAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":     `hash key is "", want decimal digits`,
		"-1":   `hash key is "-1", want decimal digits`,
		"+1":   `hash key is "+1", want decimal digits`,
		" 1":   `hash key is " 1", want decimal digits`,
		"1 ":   `hash key is "1 ", want decimal digits`,
		"0x1f": `hash key is "0x1f", want decimal digits`,
		"1e3":  `hash key is "1e3", want decimal digits`,
		"١":    `hash key is "١", want decimal digits`,
		"340282366920938463463374607431768211456": `hash key is "340282366920938463463374607431768211456", want at most ` +
			`340282366920938463463374607431768211455`,
		strings.Repeat("9", 100): `hash key is "` + strings.Repeat("9", 60) + `"… (100 bytes), want at most ` +
			`340282366920938463463374607431768211455`,
	} {
		if _, err := Parse(in); err == nil || err.Error() != want {
			t.Errorf("Parse(%q):\n got %v\nwant %s", in, err, want)
		}
	}
}

func TestOf_isTheMD5SumAsANumber(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "a", "order-17", "Größe", strings.Repeat("k", 256)} {
		sum := md5.Sum([]byte(key))
		if got, want := Of(key).String(), new(big.Int).SetBytes(sum[:]).String(); got != want {
			t.Errorf("Of(%q) = %s, want %s", key, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "340282366920938463463374607431768211455", "340282366920938463463374607431768211456", "-0", "1_0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := Parse(s)
		digits := s != "" && strings.Trim(s, "0123456789") == ""
		n, _ := new(big.Int).SetString(s, 10)
		if want := digits && n.BitLen() <= 128; (err == nil) != want {
			t.Fatalf("Parse(%q): %v, want success %t", s, err, want)
		}
		if err == nil && big128(k).Cmp(n) != 0 {
			t.Fatalf("Parse(%q) = %s", s, k)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("340282366920938463463374607431768211455"); err != nil {
			b.Fatal(err)
		}
	}
}
