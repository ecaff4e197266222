package leases

import (
	"strings"
	"testing"
)

func TestNonces_nameTheProcessAndNeverRepeat(t *testing.T) {
	t.Parallel()
	a, b := newNonces("host-1/17"), newNonces("host-1/17")
	seen := map[string]bool{}
	for range 1000 {
		for _, n := range []*nonces{a, b} {
			nonce := n.next()
			if seen[nonce] {
				t.Fatalf("%s comes twice", nonce)
			}
			seen[nonce] = true
		}
	}
	process := func(n *nonces) string { return Tenure{Nonce: n.next()}.Process() }
	first, second, other := process(a), process(a), process(b)
	if first != second || first == other || !strings.HasPrefix(first, "host-1/17/") {
		t.Errorf("processes %s, %s and %s", first, second, other)
	}
	if got, want := describeProcess(a.next()), "host-1 (process 17)"; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	if own := newNonces(""); strings.Count(own.next(), "/") < 3 {
		t.Errorf("nonce without a given host: %s", own.next())
	}
}
