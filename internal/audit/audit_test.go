package audit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// got makes the report of a batch: records are written as "key:number", or "key:from-to".
func got(at int, worker, shard string, token int64, records ...string) Arrival {
	a := Arrival{Worker: worker, At: time.Duration(at) * time.Second, Report: Report{Kind: Batch, Shard: shard, Token: token}}
	for _, r := range records {
		key, span, _ := strings.Cut(r, ":")
		var from, to int64
		if n, _ := fmt.Sscanf(span, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		for n := from; n <= to; n++ {
			a.Keys, a.Numbers = append(a.Keys, key), append(a.Numbers, n)
		}
	}
	return a
}

// refused is the report of a checkpoint that failed.
func refused(at int, worker, shard string, token int64) Arrival {
	return Arrival{Worker: worker, At: time.Duration(at) * time.Second, Report: Report{Kind: Refused, Shard: shard, Token: token}}
}

func took(at int, worker, shard, from string) Arrival {
	return Arrival{Worker: worker, At: time.Duration(at) * time.Second, Report: Report{Kind: Taken, Shard: shard, From: from}}
}

func TestAudit_tellsWhatHappened(t *testing.T) {
	t.Parallel()
	const one, two, child = "shardId-000000000001", "shardId-000000000002", "shardId-000000000003"
	dead := Fate{Worker: "w1", What: Killed, At: 5 * time.Second, Held: []string{one}}
	for name, c := range map[string]struct {
		produced   map[string]int64
		doubtful   map[string]map[int64]bool
		arrivals   []Arrival
		fates      []Fate
		delivered  int64
		lost       int64
		unknown    int64
		outOfOrder int64
		duplicates map[string]int64
	}{
		"all well": {
			produced:  map[string]int64{"a": 4, "b": 2},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1", "b:1-2", "a:2"), got(2, "w1", one, 1, "a:3-4")},
			delivered: 6,
		},
		"the end of a key is lost": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-3")},
			delivered: 3, lost: 1,
		},
		"a gap is lost": {
			produced:  map[string]int64{"a": 4, "b": 1},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1", "a:4")},
			delivered: 2, lost: 3,
		},
		"a kill makes records come again, by the next tenure": {
			produced:  map[string]int64{"a": 6},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-2"), got(4, "w1", one, 1, "a:3-4"), got(8, "w2", one, 7, "a:3-6")},
			fates:     []Fate{dead},
			delivered: 6, duplicates: map[string]int64{"kill -9 of w1": 2},
		},
		"a move does, too": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-3"), got(3, "w2", one, 2, "a:2-4")},
			fates:     []Fate{dead}, // later than the move
			delivered: 4, duplicates: map[string]int64{"move of a lease from w1 to w2": 2},
		},
		"pipes may be read in any order": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(3, "w2", one, 7, "a:3-4"), got(3, "w1", one, 1, "a:1-2")},
			delivered: 4,
		},
		"children come after parents, whatever their tokens": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 90, "a:1-2"), got(2, "w2", child, 1, "a:3-4")},
			delivered: 4,
		},
		"a child that is read too early": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", two, 90, "a:1-2"), got(2, "w2", child, 1, "a:3"), got(3, "w1", two, 91, "a:4")},
			delivered: 4, outOfOrder: 1,
		},
		"back within a tenure": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-3"), got(2, "w1", one, 1, "a:2", "a:4")},
			delivered: 4, outOfOrder: 1, duplicates: map[string]int64{"the same tenure": 1},
		},
		"first deliveries swapped": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1", "a:3", "a:2", "a:4")},
			delivered: 4, outOfOrder: 1,
		},
		"a later tenure brings what an earlier one skipped": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1", "a:3-4"), got(2, "w2", one, 5, "a:2-4")},
			delivered: 4, outOfOrder: 1, duplicates: map[string]int64{"move of a lease from w1 to w2": 2},
		},
		"a batch comes again after its checkpoint failed": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-3"), refused(2, "w1", one, 1), got(3, "w1", one, 1, "a:1-3"), got(4, "w1", one, 1, "a:4")},
			delivered: 4, duplicates: map[string]int64{"a checkpoint that failed: the batch is repeated": 3},
		},
		"a part of it does": {
			produced:  map[string]int64{"a": 4},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-3"), refused(2, "w1", one, 1), got(3, "w1", one, 1, "a:2-4")},
			delivered: 4, outOfOrder: 2, duplicates: map[string]int64{"the same tenure": 2},
		},
		"another tenure's checkpoint failed": {
			produced:  map[string]int64{"a": 2},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-2"), refused(2, "w1", one, 2), got(3, "w1", one, 1, "a:1-2")},
			delivered: 2, outOfOrder: 2, duplicates: map[string]int64{"the same tenure": 2},
		},
		"the last that befell a worker is to blame": {
			produced:  map[string]int64{"a": 2},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-2"), got(9, "w2", one, 7, "a:2")},
			fates:     []Fate{{Worker: "w1", What: "cut", At: 2 * time.Second}, {What: "the table's restart", At: 3 * time.Second}, {Worker: "w2", What: "cut", At: 4 * time.Second}, {Worker: "w1", What: "cut", At: 10 * time.Second}},
			delivered: 2, duplicates: map[string]int64{"the table's restart": 1},
		},
		"what may not have been stored need not come": {
			produced:  map[string]int64{"a": 4},
			doubtful:  map[string]map[int64]bool{"a": {2: true, 3: true}},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1", "a:3-4")},
			delivered: 3,
		},
		"but in order if it does": {
			produced:  map[string]int64{"a": 3},
			doubtful:  map[string]map[int64]bool{"a": {2: true}},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1", "a:3", "a:2")},
			delivered: 3, outOfOrder: 1,
		},
		"what nobody produced": {
			produced:  map[string]int64{"a": 1},
			arrivals:  []Arrival{got(1, "w1", one, 1, "a:1-2", "z:1")},
			delivered: 1, unknown: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := Judge(Evidence{Produced: c.produced, Doubtful: c.doubtful, Arrivals: c.arrivals, Fates: c.fates})
			if c.duplicates == nil {
				c.duplicates = map[string]int64{}
			}
			type figures struct {
				Delivered, Lost, Unknown, OutOfOrder int64
				Duplicates                           map[string]int64
			}
			want := figures{c.delivered, c.lost, c.unknown, c.outOfOrder, c.duplicates}
			if diff := cmp.Diff(want, figures{v.Delivered, v.Lost, v.Unknown, v.OutOfOrder, v.Duplicates}); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			bad := c.lost+c.unknown+c.outOfOrder > 0
			if v.OK() == bad {
				t.Errorf("ok = %v, want %v", v.OK(), !bad)
			}
			if bad != (len(v.Examples) > 0) {
				t.Errorf("examples = %q, want some exactly if something is wrong", v.Examples)
			}
			var text bytes.Buffer
			v.Print(&text)
			for _, line := range []string{fmt.Sprintf("\n  lost %d\n", c.lost), fmt.Sprintf("\n  out of order %d\n", c.outOfOrder)} {
				if !strings.Contains(text.String(), line) {
					t.Errorf("printed\n%s\nwant the line %q", &text, line)
				}
			}
		})
	}
}

func TestAudit_measuresTakeoverAndHandoff(t *testing.T) {
	t.Parallel()
	const one, two, three = "shardId-000000000001", "shardId-000000000002", "shardId-000000000003"
	kill := Fate{Worker: "w1", What: Killed, At: 10 * time.Second, Held: []string{one, two}}
	stop := Fate{Worker: "w2", What: Stopped, At: 20 * time.Second, Held: []string{three}}
	v := Judge(Evidence{
		Produced: map[string]int64{"a": 4, "c": 2},
		Fates:    []Fate{kill, stop},
		Arrivals: []Arrival{
			took(1, "w1", one, ""), took(1, "w1", two, ""), took(1, "w2", three, ""),
			got(9, "w1", one, 1, "a:1-2"), took(12, "w2", one, "w1"), got(13, "w2", one, 8, "a:3"),
			took(12, "w2", two, "w1"), // and no record after that
			got(14, "w3", one, 9, "a:4"),
			got(19, "w2", three, 1, "c:1"), took(21, "w3", three, "w2"), got(22, "w3", three, 5, "c:2"),
		},
	})
	want := []Move{
		{Fate: kill, Shard: one, To: "w2", Taken: 2 * time.Second, First: 3 * time.Second, Gap: 4 * time.Second},
		{Fate: kill, Shard: two, To: "w2", Taken: 2 * time.Second, First: -1, Gap: -1},
		{Fate: stop, Shard: three, To: "w3", Taken: time.Second, First: 2 * time.Second, Gap: 3 * time.Second},
	}
	if diff := cmp.Diff(want, v.Moves); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
	var text bytes.Buffer
	v.PrintMoves(&text)
	for _, line := range []string{
		"takeover time after kill -9 of w1: 3.00 s at most, of 2 shards\n",
		"handoff gap after graceful stop of w2: 3.00 s\n",
		"shard 3: taken by w3 after 1.00 s, first record after 2.00 s, 3.00 s after the last one before\n",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("printed\n%s\nwant %q", &text, line)
		}
	}
}
