package hashkey

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ranges() *rapid.Generator[Range] {
	return rapid.Custom(func(t *rapid.T) Range {
		a, b := keys().Draw(t, "start"), keys().Draw(t, "end")
		if a.Compare(b) > 0 {
			a, b = b, a
		}
		return Range{Start: a, End: b, Known: true}
	})
}

func TestParseRange_readsWhatItPrints(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := ranges().Draw(t, "range")
		got, err := ParseRange(want.Start.String(), want.End.String())
		if err != nil || got != want {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}

func TestParseRange_namesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ start, end, want string }{
		{"5", "4", "start of range is 5, want at most its end 4"},
		{
			"340282366920938463463374607431768211455", "0",
			"start of range is 340282366920938463463374607431768211455, want at most its end 0",
		},
		{"", "4", `start of range: hash key is "", want decimal digits`},
		{"0", "four", `end of range: hash key is "four", want decimal digits`},
		{
			"0", "340282366920938463463374607431768211456",
			`end of range: hash key is "340282366920938463463374607431768211456", want at most 340282366920938463463374607431768211455`,
		},
	} {
		r, err := ParseRange(c.start, c.end)
		if err == nil || err.Error() != c.want {
			t.Errorf("ParseRange(%q, %q):\n got %v\nwant %s", c.start, c.end, err, c.want)
		}
		if r != (Range{}) {
			t.Errorf("ParseRange(%q, %q) failed and returned %v", c.start, c.end, r)
		}
	}
}

func TestRange_containsOverlapsAndComparesLikeBigInts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, k := ranges().Draw(t, "a"), ranges().Draw(t, "b"), keys().Draw(t, "key")
		le := func(x, y Key) bool { return big128(x).Cmp(big128(y)) <= 0 }
		if got, want := a.Contains(k), le(a.Start, k) && le(k, a.End); got != want {
			t.Fatalf("%s contains %s: %t, want %t", a, k, got, want)
		}
		if got, want := a.Overlaps(b), a.Contains(b.Start) || b.Contains(a.Start); got != want {
			t.Fatalf("%s overlaps %s: %t, want %t", a, b, got, want)
		}
		after := new(big.Int).Add(big128(a.End), big.NewInt(1))
		if got, want := a.Adjacent(b), after.Cmp(big128(b.Start)) == 0; got != want {
			t.Fatalf("%s adjacent to %s: %t, want %t", a, b, got, want)
		}
		if got, want := a.Compare(b) == 0, a == b; got != want || a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%s.Compare(%s) = %d, the other way round %d", a, b, a.Compare(b), b.Compare(a))
		}
	})
}

func TestRange_dividedAtAnyKeysIsAdjacentPartByPart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfN(keys(), 0, 8).Draw(t, "cuts")
		slices.SortFunc(cuts, Key.Compare)
		cuts = slices.Compact(slices.DeleteFunc(cuts, func(k Key) bool { return k == Max }))
		parts, start := []Range(nil), Key{}
		for _, end := range append(cuts, Max) {
			parts = append(parts, Range{Start: start, End: end, Known: true})
			start, _ = end.Next()
		}
		k := keys().Draw(t, "key")
		holders := 0
		for i, p := range parts {
			if i > 0 && (!parts[i-1].Adjacent(p) || parts[i-1].Overlaps(p) || parts[i-1].Compare(p) >= 0) {
				t.Fatalf("%s and %s do not follow each other", parts[i-1], p)
			}
			if p.Contains(k) {
				holders++
			}
		}
		if holders != 1 || !Full().Contains(k) {
			t.Fatalf("%s lies in %d parts of %v", k, holders, parts)
		}
	})
}

func TestRange_thatIsNotKnownCoversNothingAndComesFirst(t *testing.T) {
	t.Parallel()
	var unknown Range
	if unknown.Contains(Key{}) || unknown.Overlaps(Full()) || Full().Overlaps(unknown) || unknown.Adjacent(unknown) {
		t.Error("an unknown range covers something")
	}
	if unknown.Compare(Full()) >= 0 || Full().Compare(unknown) <= 0 || unknown.Compare(Range{}) != 0 {
		t.Error("an unknown range does not come first")
	}
	if Full().Adjacent(Full()) {
		t.Error("the ring's last key has a next one")
	}
	if got := unknown.String() + " " + Full().String(); !strings.HasPrefix(got, "unknown 0-3402823669") {
		t.Errorf("String: %s", got)
	}
}
