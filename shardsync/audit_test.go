package shardsync

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/internal/mermaid"
	"github.com/shardlease/shardlease/leases"
)

//go:embed doc.go
var docText string

func TestConfidence_isThatOfTheDrawing(t *testing.T) {
	t.Parallel()
	drawn := map[mermaid.Edge]bool{}
	for _, e := range mermaid.Edges(docText, "audit confidence") {
		drawn[e] = true
	}
	built := map[mermaid.Edge]bool{}
	for c := ok; c <= confirmed; c++ {
		for f := ringWhole; f <= enough; f++ {
			if to := nextConfidence(c, f); to != c {
				built[mermaid.Edge{From: c.String(), To: to.String(), Label: f.String()}] = true
			}
		}
	}
	if d := cmp.Diff(drawn, built); d != "" {
		t.Errorf("drawing and code differ (-drawn +built)\n%s", d)
	}
}

func TestConfidence_allPairs(t *testing.T) {
	t.Parallel()
	for f, want := range map[finding][3]confidence{ // from ok, suspected, confirmed
		ringWhole:   {ok, ok, ok},
		noLeases:    {confirmed, confirmed, confirmed},
		anotherHole: {suspected, suspected, suspected},
		sameHole:    {ok, suspected, confirmed},
		enough:      {confirmed, confirmed, confirmed},
	} {
		for c := ok; c <= confirmed; c++ {
			if got := nextConfidence(c, f); got != want[c] {
				t.Errorf("%v, %v: %v, want %v", c, f, got, want[c])
			}
		}
	}
}

// ringOf reads ranges such as "0-1 !2-3 ?": finished, and without a range.
func ringOf(text string) []leases.Lease {
	var have []leases.Lease
	for f := range strings.FieldsSeq(text) {
		l := leases.Lease{Checkpoint: checkpoint.TrimHorizon}
		if rest, finished := strings.CutPrefix(f, "!"); finished {
			l.Checkpoint, f = checkpoint.ShardEnd, rest
		}
		if f != "?" {
			l.HashKeyRange = ring(f)
		}
		have = append(have, l)
	}
	return have
}

// P3 to P11 of KCL's tests. Audits are separated by "|", and so are their outcomes: . nothing, S suspected, C to repair.
func TestAudit_believesWhatItHasSeenOftenEnough(t *testing.T) {
	t.Parallel()
	const (
		p1    = "0-1 2-3 4-23 6-23 25-MAX"
		p2    = "0-1 2-3 4-23 6-23 24-MAX"
		p8    = "0-1 2-3 !4-23 6-23 24-MAX"
		p9    = "!0-1 !2-3 !4-23 !6-23 !24-MAX"
		moved = "0-1 2-3 4-23 6-24 26-MAX"
		again = "0-1 3-MAX"
	)
	many := func(what string, n int) []string { return slices.Repeat([]string{what}, n) }
	for _, c := range []struct {
		name   string
		audits []string
		want   string
		needed int
	}{
		{name: "P5: no leases", audits: []string{"", ""}, want: "CC"},
		{name: "P6", audits: many(p1, 5), want: "SSCCC"},
		{name: "P7", audits: many(p2, 3), want: "..."},
		{name: "P8", audits: many(p8, 3), want: "SSC"},
		{name: "P9", audits: many(p9, 3), want: "SSC"},
		{name: "P11: the hole moves", audits: []string{p1, p1, moved, moved, again, again, again}, want: "SSSSSSC"},
		{name: "P11: it moves after it was confirmed", audits: []string{p1, p1, p1, moved, moved, moved}, want: "SSCSSC"},
		{name: "it closes in between", audits: []string{p1, p1, p2, p1, p1, p1}, want: "SS.SSC"},
		{name: "it closes", audits: []string{p1, p1, p1, p2, p1}, want: "SSC.S"},
		{name: "the table was empty in between", audits: []string{p1, "", p1}, want: "SCS"},
		{name: "one is enough", audits: []string{p1, p2, p9}, want: "C.C", needed: 1},
		{name: "extra leases over the end", audits: many(p2+" 24-45", 3), want: "..."},
	} {
		if c.needed == 0 {
			c.needed = 3
		}
		var (
			a   audit
			got strings.Builder
		)
		for _, text := range c.audits {
			a = a.look(ringOf(text), c.needed)
			got.WriteByte(".SC"[a.state])
		}
		if got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.String(), c.want)
		}
	}
}

// Whatever was seen: what is confirmed was there as often as needed, in a row, and what was there that often is confirmed.
func TestAudit_confirmsExactlyWhatWasThereThatOften(t *testing.T) {
	t.Parallel()
	rings := []string{"", "0-MAX", "0-1 3-MAX", "0-1 4-MAX", "!0-MAX", "2-MAX"}
	rapid.Check(t, func(rt *rapid.T) {
		needed := rapid.IntRange(1, 5).Draw(rt, "needed")
		var (
			a   audit
			run int
		)
		last := -1
		for range 40 {
			n := rapid.IntRange(0, len(rings)-1).Draw(rt, "ring")
			if n == last {
				run++
			} else {
				run = 1
			}
			last = n
			a = a.look(ringOf(rings[n]), needed)
			want := suspected
			switch {
			case n == 1:
				want = ok
			case n == 0, run >= needed:
				want = confirmed
			}
			if a.state != want {
				rt.Fatalf("%q for the %dth time of %d: %v", rings[n], run, needed, a.state)
			}
		}
	})
}
