package dynamodb

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonical_hasOneTextForEachNumber(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "00012": "12", "+7": "7", "1.50": "1.5", "-1.50": "-1.5", ".5": "0.5", "5.": "5", "1e3": "1000", "1E-3": "0.001",
		"12.5e1": "125", "-0.00120": "-0.0012", "9999999999999999999": "9999999999999999999",
		"1e125":                                  "1" + strings.Repeat("0", 125),
		"1e-130":                                 "0." + strings.Repeat("0", 129) + "1",
		"12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
		"0.12345678901234567890123456789012345678":  "0.12345678901234567890123456789012345678",
		"340282366920938463463374607431768211455e0": "",
	} {
		got, err := canonical(in)
		if want == "" {
			if err == nil {
				t.Errorf("canonical(%q) = %q, want an error: 39 digits", in, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("canonical(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "cannot be converted", "x": "cannot be converted", "1x": "cannot be converted", "--1": "cannot be converted", "1e": "cannot be converted",
		".": "cannot be converted", "1.2.3": "cannot be converted", "NaN": "cannot be converted", "0x10": "cannot be converted", "1_000": "cannot be converted",
		"1e126": "overflow", "-1e200": "overflow", "1e-131": "underflow", "1e99999999999": "cannot be converted",
	} {
		if got, err := canonical(in); err == nil || !strings.Contains(err.Message, want) {
			t.Errorf("canonical(%q) = %q, %v, want an error with %q", in, got, err, want)
		}
	}
}

// decimalText draws a number that the service takes.
func decimalText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		digits := rapid.StringMatching(`[0-9]{1,15}(\.[0-9]{1,15})?`).Draw(t, "digits")
		sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		return fmt.Sprintf("%s%se%d", sign, digits, rapid.IntRange(-30, 30).Draw(t, "exponent"))
	})
}

func rational(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number to big.Rat", s)
	}
	return r
}

func TestNumbers_compareSortAndAddAsRationalsDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := decimalText().Draw(t, "a"), decimalText().Draw(t, "b")
		x, y := rational(t, a), rational(t, b)
		ca, err := canonical(a)
		if err != nil {
			t.Fatal(err)
		}
		cb, err := canonical(b)
		if err != nil {
			t.Fatal(err)
		}
		if rational(t, ca).Cmp(x) != 0 {
			t.Fatalf("canonical(%s) = %s", a, ca)
		}
		want := x.Cmp(y)
		if got := compareNumbers(ca, cb); sign(got) != want {
			t.Fatalf("compareNumbers(%s, %s) = %d, want %d", ca, cb, got, want)
		}
		if got := strings.Compare(mustNumber(ca).sortKey(), mustNumber(cb).sortKey()); got != want {
			t.Fatalf("sort keys of %s and %s compare to %d, want %d", ca, cb, got, want)
		}
		for _, subtract := range []bool{false, true} {
			exact := new(big.Rat).Add(x, y)
			if subtract {
				exact.Sub(x, y)
			}
			sum, err := addNumbers(ca, cb, subtract)
			if err != nil {
				if !strings.Contains(err.Message, "38 significant digits") {
					t.Fatalf("%s ± %s: %v", ca, cb, err)
				}
				continue
			}
			if rational(t, sum).Cmp(exact) != 0 {
				t.Fatalf("%s ± %s = %s, want %s", ca, cb, sum, exact.RatString())
			}
			if again, _ := canonical(sum); again != sum {
				t.Fatalf("the sum %s is not canonical, want %s", sum, again)
			}
		}
	})
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func TestPartition_keysThatAreNotOrderedTextKeepTheirOrder(t *testing.T) {
	t.Parallel()
	k := keySchema{hash: "h", sort: "s", hashKind: kindS, sortKind: kindB}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "\x00", "\x01", "\xff", "a"})
		a := text.Draw(t, "a1") + text.Draw(t, "a2") + text.Draw(t, "a3")
		b := text.Draw(t, "b1") + text.Draw(t, "b2") + text.Draw(t, "b3")
		at := func(s string) string {
			return k.position(fields{{"h", stringValue("x")}, {"s", value{kind: kindB, text: s}}})
		}
		if got, want := strings.Compare(at(a), at(b)), strings.Compare(a, b); got != want {
			t.Fatalf("positions of %q and %q compare to %d, want %d", a, b, got, want)
		}
		if prefix := partition(stringValue("x")); !strings.HasPrefix(at(a), prefix) {
			t.Fatalf("position %q does not begin with its partition %q", at(a), prefix)
		}
	})
}
