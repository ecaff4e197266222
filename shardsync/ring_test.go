package shardsync

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
)

// P1, P2, P3, P5, P8 and P9 of KCL's tests, and the ends of the ring.
func TestFindHole_findsTheFirstGapInWhatIsUnfinished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, ranges, hole string }{
		{"P1", "0-1 2-3 4-23 6-23 25-MAX", "4-23 25-MAX"},
		{"P2: overlaps", "0-1 2-3 4-23 6-23 24-MAX", ""},
		{"P3: unsorted", "4-23 2-3 0-1 24-MAX 6-23", ""},
		{"P5: no leases", "", "unknown unknown"},
		{"P8: one is finished", "0-1 2-3 !4-23 6-23 24-MAX", "2-3 6-23"},
		{"P9: all are finished", "!0-1 !2-MAX", "unknown unknown"},
		{"the start is missing", "1-5 6-MAX", "unknown 1-5"},
		{"the end is missing", "0-5 6-90", "6-90 unknown"},
		{"the end is missing, the longest range was not the last", "0-90 6-10", "0-90 unknown"},
		{"a range without hash keys counts for nothing", "0-5 ? 6-MAX", ""},
		{"the whole ring", "0-MAX", ""},
		{"inside another", "0-50 10-20 51-MAX", ""},
	} {
		have := ringOf(c.ranges)
		around, found := FindHole(have)
		text := func(r hashkey.Range) string {
			if !r.Known {
				return "unknown"
			}
			return strings.Replace(r.Start.String()+"-"+r.End.String(), hashkey.Max.String(), "MAX", 1)
		}
		got := ""
		if found {
			got = text(around[0]) + " " + text(around[1])
		}
		if got != c.hole {
			t.Errorf("%s: hole %q, want %q", c.name, got, c.hole)
		}
	}
}

// E1, E2, E4, E5, E7, and servers that ignore the filter.
func TestFirstLeases_takesWhatTheFilterSelectedAndCopesWithoutOne(t *testing.T) {
	t.Parallel()
	all := graphs()
	open := func(s Shard) bool { return s.Open() }
	oldest := func(min string) func(Shard) bool {
		return func(s Shard) bool { return s.StartingSequenceNumber == min }
	}
	at200 := func(s Shard) bool { return slices.Contains([]int{4, 5, 6, 7}, numberOf(s.ID)) }
	every := func(Shard) bool { return true }
	small := parseGraph("0 - 11-open 0-1\n1 - 11-open 2-MAX")
	for _, c := range []struct {
		name   string
		shards []Shard
		filter func(Shard) bool
		from   config.InitialPosition
		want   string
	}{
		{"E1", all["A"], oldest("11"), config.TrimHorizon(), "0 1 2 3 4 5"},
		{"E2", all["A"], open, config.AtTimestamp(at1000), "4 8 9 10"},
		{"lease layer: AT_TIMESTAMP 200", all["A"], at200, config.AtTimestamp(time.UnixMilli(200)), "4 5 6 7"},
		{"E4", all["A"], open, config.Latest(), "4 8 9 10"},
		{"E5", small, every, config.TrimHorizon(), "0 1"},
		{"E5", small, every, config.Latest(), "0 1"},
		{"no filter A", all["A"], every, config.TrimHorizon(), "0 1 2 3 4 5"},
		{"no filter A", all["A"], every, config.Latest(), "4 8 9 10"},
		{"no filter A", all["A"], every, config.AtTimestamp(at1000), "0 1 2 3 4 5"}, // they have no records after the time
		{"no filter B", all["B"], every, config.Latest(), "9 10"},
		{"no filter C", all["C"], every, config.TrimHorizon(), "0 1 2 3"},
	} {
		got, err := firstLeases(slices.DeleteFunc(slices.Clone(c.shards), func(s Shard) bool { return !c.filter(s) }), c.from)
		if err != nil || !slices.Equal(numbersOf(got), ints(c.want)) {
			t.Errorf("%s at %s: %v, %v, want %s", c.name, name(c.from), numbersOf(got), err, c.want)
		}
		for _, l := range got {
			if l.Checkpoint != sentinel(c.from) {
				t.Errorf("%s: %s starts at %v", c.name, l.Key, l.Checkpoint)
			}
		}
	}
}

func TestFirstLeases_refusesARingWithAGap(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0 - 1-open 0-1\n1 - 1-open 2-3", "0 - 1-open 1-MAX", "0 - 1-open 0-5\n1 - 1-open 5-MAX", "0 - 1-2 0-MAX"} {
		got, err := firstLeases(parseGraph(text), config.Latest())
		if text == "0 - 1-2 0-MAX" { // one closed shard covers the ring: a reshard is under way, and it was open a moment ago
			if err != nil || len(got) != 1 {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			continue
		}
		if !errors.Is(err, ErrInconsistent) || got != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
