package checkpoint

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func at(s string) ExtendedSequenceNumber { return ExtendedSequenceNumber{SequenceNumber: s} }

func sub(s string, n int64) ExtendedSequenceNumber {
	return ExtendedSequenceNumber{SequenceNumber: s, SubSequenceNumber: n}
}

// places draws from all that Parse reads, numbers that are near each other, of realistic length and with leading zeros
// included.
func places() *rapid.Generator[ExtendedSequenceNumber] {
	number := rapid.OneOf(rapid.StringMatching(`0{0,3}[0-9]{1,2}`), rapid.StringMatching(`0{0,2}[1-9][0-9]{20,60}`))
	return rapid.Custom(func(t *rapid.T) ExtendedSequenceNumber {
		if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
			return rapid.SampledFrom([]ExtendedSequenceNumber{AtTimestamp, TrimHorizon, Latest, ShardEnd}).Draw(t, "sentinel")
		}
		return sub(number.Draw(t, "number"), rapid.Int64Range(0, 3).Draw(t, "sub"))
	})
}

// value is what KCL compares: the sentinels as −3, −2, −1 and beyond everything.
func value(p ExtendedSequenceNumber) *big.Int {
	switch p.SequenceNumber {
	case "AT_TIMESTAMP":
		return big.NewInt(-3)
	case "TRIM_HORIZON":
		return big.NewInt(-2)
	case "LATEST":
		return big.NewInt(-1)
	case "SHARD_END":
		return new(big.Int).Lsh(big.NewInt(1), 4096)
	}
	n, ok := new(big.Int).SetString(p.SequenceNumber, 10)
	if !ok {
		panic(p.SequenceNumber)
	}
	return n
}

func sign(n int) int { return max(-1, min(1, n)) }

func TestCompare_isTheOrderOfBigInts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := places().Draw(t, "a"), places().Draw(t, "b")
		want := value(a).Cmp(value(b))
		if want == 0 {
			want = sign(int(a.SubSequenceNumber - b.SubSequenceNumber))
		}
		if got := sign(a.Compare(b)); got != want {
			t.Fatalf("%s.Compare(%s) = %d, want %d", a, b, got, want)
		}
	})
}

func TestCompare_putsSentinelsRoundTheNumbers(t *testing.T) {
	t.Parallel()
	ascending := []ExtendedSequenceNumber{
		{},
		AtTimestamp, TrimHorizon, Latest, at("0"), sub("0", 1), at("9"), at("10"), sub("10", 1), sub("10", 2), at("11"),
		at("49590338271490256608559692538361571095921575989136588898"),
		at("49590338271490256608559692538361571095921575989136588899"),
		at(strings.Repeat("9", 129)), ShardEnd,
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := sign(a.Compare(b)), sign(i-j); got != want {
				t.Errorf("%s.Compare(%s) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestCompare_isATotalOrderOfWhateverAFieldMayHold(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a ]{0,4}`), rapid.SampledFrom([]string{"SHARD_END", "LATEST", ""}))
	fields := rapid.Custom(func(t *rapid.T) ExtendedSequenceNumber {
		return sub(text.Draw(t, "text"), rapid.Int64Range(-1, 1).Draw(t, "sub"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := fields.Draw(t, "a"), fields.Draw(t, "b"), fields.Draw(t, "c")
		if sign(a.Compare(b)) != -sign(b.Compare(a)) {
			t.Fatalf("%q and %q: %d, the other way round %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%q ≤ %q ≤ %q, but not %[1]q ≤ %[3]q", a, b, c)
		}
	})
}

func TestParse_keepsTheTextAndCompareItsValue(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"0", "7", "007", "49590338271490256608559692538361571095921575989136588898",
		"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END",
	} {
		p, err := Parse(s)
		if err != nil || p != at(s) || p.Check() != nil {
			t.Errorf("Parse(%q) = %v, %v; Check: %v", s, p, err, p.Check())
		}
	}
	if seven, _ := Parse("007"); seven.Compare(at("7")) != 0 {
		t.Error("007 is not 7")
	}
}

func TestParse_namesTheValueAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	const want = ", want decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END"
	for _, s := range []string{
		"", "12x", "x12", "-1", "+5", " 5", "5 ", "5\n", "1.0", "1e5", "0x1", "1_000", "١٢", "bogus", "latest",
		"SHARD_END ", "TRIM_HORIZON\x00", "null", "12:3", "12/3",
	} {
		p, err := Parse(s)
		if err == nil || !strings.HasPrefix(err.Error(), "sequence number is \"") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Parse(%q): %v", s, err)
		}
		if !p.IsZero() {
			t.Errorf("Parse(%q) failed and returned %v", s, p)
		}
	}
	for s, want := range map[string]string{
		"":    `sequence number is ""` + want,
		"12x": `sequence number is "12x"` + want,
		"-5":  `sequence number is "-5"` + want,
	} {
		if _, err := Parse(s); err.Error() != want {
			t.Errorf("Parse(%q):\n got %v\nwant %s", s, err, want)
		}
	}
	_, err := Parse(strings.Repeat("1", 1000) + "x")
	if !strings.Contains(err.Error(), "(1001 bytes)") || len(err.Error()) > 300 {
		t.Errorf("an endless value makes an error of %d bytes: %v", len(err.Error()), err)
	}
}

func TestCheck_wantsASubSequenceNumberOnlyBesideARecord(t *testing.T) {
	t.Parallel()
	for p, want := range map[ExtendedSequenceNumber]string{
		sub("5", -1):        "sub-sequence number of 5 is -1, want 0 or more",
		sub("SHARD_END", 1): "sub-sequence number of SHARD_END is 1, want 0",
		{}:                  `sequence number is "", want decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END`,
	} {
		if err := p.Check(); err == nil || err.Error() != want {
			t.Errorf("%#v.Check():\n got %v\nwant %s", p, err, want)
		}
	}
	if err := sub("5", 1<<62).Check(); err != nil {
		t.Error(err)
	}
}

func TestString_showsTheSubSequenceNumberUnlessZero(t *testing.T) {
	t.Parallel()
	for p, want := range map[ExtendedSequenceNumber]string{at("5"): "5", sub("5", 3): "5/3", ShardEnd: "SHARD_END", {}: "none"} {
		if p.String() != want {
			t.Errorf("%#v is printed as %s, want %s", p, p, want)
		}
	}
}

func TestIsSentinel_looksAtTheNameOnly(t *testing.T) {
	t.Parallel()
	for _, p := range []ExtendedSequenceNumber{TrimHorizon, Latest, AtTimestamp, ShardEnd, sub("LATEST", 4)} {
		if !p.IsSentinel() || p.IsShardEnd() != (p == ShardEnd) {
			t.Errorf("%s: sentinel %t, shard end %t", p, p.IsSentinel(), p.IsShardEnd())
		}
	}
	for _, p := range []ExtendedSequenceNumber{{}, at("0"), at("latest"), at("bogus")} {
		if p.IsSentinel() || p.IsShardEnd() {
			t.Errorf("%s is a sentinel", p)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "12x", "-1", "+5", " 5", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END", "٣"} {
		f.Add(s)
	}
	names := []string{"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		want := slices.Contains(names, s) || s != "" && strings.Trim(s, "0123456789") == ""
		if (err == nil) != want {
			t.Fatalf("Parse(%q): %v, want success %t", s, err, want)
		}
		if err == nil && (p != at(s) || p.String() != s || p.Compare(at(s)) != 0) {
			t.Fatalf("Parse(%q) = %#v", s, p)
		}
	})
}

func TestCompare_doesNotAllocate(t *testing.T) {
	a, b := at("49590338271490256608559692538361571095921575989136588898"), at("49590338271490256608559692538361571095921575989136588899")
	if n := testing.AllocsPerRun(100, func() { _ = a.Compare(b) + a.Compare(ShardEnd) + TrimHorizon.Compare(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCompare(b *testing.B) {
	x, y := at("49590338271490256608559692538361571095921575989136588898"), at("49590338271490256608559692538361571095921575989136588899")
	b.ReportAllocs()
	for b.Loop() {
		if x.Compare(y) >= 0 {
			b.Fatal("wrong order")
		}
	}
}
