package shardsync

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// The rows N1 to N14 and those of single leases are KCL's, except that four rows (marked) want no ancestor of a leased
// shard where KCL makes one.
func TestDetermineNewLeases_createsWhatKCLDoes(t *testing.T) {
	t.Parallel()
	all := graphs()
	for _, c := range []struct{ row, graph, have, latest, oldest string }{
		{"N1", "A", "3 4 5", "2 6", "0 1 2"},
		{"N2", "A", "4 5 7", "6", "0 1"},
		{"N5", "A", "4 5 6 7", "-", "-"},
		{"N6", "A", "0 1 2 3 4 5 6 7", "-", "-"},
		{"N7", "A", "-", "4 8 9 10", "0 1 2 3 4 5"},
		{"N8", "A", "0 1 4 7 9 10", "-", "-"},
		{"N9", "B", "6", "7", "7"}, // KCL: 0 1, its own test for 7 is disabled
		{"N10", "B", "5", "-", "-"},
		{"N11", "B", "0 1 2 3 4 5", "-", "-"},
		{"N12", "B", "-", "9 10", "0 1"},
		{"N14", "A", "1 2 3 4 5 7 9 10", "0", "0"},
		{"lease layer", "A", "4 9 10", "8", "0 1 2 3"},
		{"lease layer", "A", "2 6", "3 4 9 10", "3 4 5"},
		{"A0", "A", "0", "1 4 7 9 10", "1 2 3 4 5"},
		{"A1", "A", "1", "0 4 7 9 10", "0 2 3 4 5"},
		{"A2", "A", "2", "3 4 6 9 10", "0 1 3 4 5"},
		{"A3", "A", "3", "2 4 6 9 10", "0 1 2 4 5"},
		{"A4", "A", "4", "8 9 10", "0 1 2 3 5"},
		{"A5", "A", "5", "4 8", "0 1 2 3 4"},
		{"A6", "A", "6", "4 7 9 10", "2 3 4 5"},
		{"A7", "A", "7", "4 6 9 10", "0 1 4 5"},
		{"A9", "A", "9", "4 8 10", "0 1 2 3 4 10"}, // KCL: 5, the parent of 9, instead of 10
		{"B0", "B", "0", "1", "1"},
		{"B1", "B", "1", "0", "0"},
		{"B2", "B", "2", "-", "-"},
		{"B4", "B", "4", "3", "3"}, // KCL: 0 1
		{"B8", "B", "8", "-", "-"},
		{"B9", "B", "9", "10", "10"}, // KCL: 0 1
		{"B10", "B", "10", "9", "9"}, // KCL: 0 1
		{"C none", "C", "-", "1 6 7 8 9 10", "0 1 2 3"},
		{"C0", "C", "0", "1 6", "1 2 3"},
		{"C1", "C", "1", "6 7 8 9 10", "0 2 3"},
		{"C3", "C", "3", "1 2 7 8 9 10", "0 1 2"},
		{"C5", "C", "5", "1 6 7 8", "1 2 3 4"},      // KCL: 0, the parent of 5, instead of 4
		{"C7", "C", "7", "1 6 8 9 10", "1 2 3 5 8"}, // KCL: 0 instead of 5 and 8
		{"C8", "C", "8", "1 6 7 9 10", "1 2 3 5 7"}, // likewise
		{"C4", "C", "4", "1 6 9 10", "1 2 3 5"},     // KCL: 0, the parent of 4, instead of 5
	} {
		for _, from := range positions {
			want := ints(c.oldest)
			if from.IsLatest() {
				want = ints(c.latest)
			}
			got := determine(t, all[c.graph], leased(all[c.graph], ints(c.have)...), from)
			if diff := cmp.Diff(want, numbersOf(got)); diff != "" {
				t.Errorf("%s at %s: %s", c.row, name(from), diff)
			}
			for _, l := range got {
				if l.Checkpoint != sentinel(from) {
					t.Errorf("%s at %s: %s starts at %v", c.row, name(from), l.Key, l.Checkpoint)
				}
			}
		}
	}
}

func TestDetermineNewLeases_returnsWholeLeasesOldestFirst(t *testing.T) {
	t.Parallel()
	got := determine(t, parseGraph(graphA), nil, config.AtTimestamp(at1000))
	var order []string
	for _, l := range got {
		order = append(order, l.Key)
	}
	if want := []string{id("0"), id("1"), id("2"), id("3"), id("4"), id("5")}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	got = determine(t, parseGraph(graphA), nil, config.Latest())
	want := []leases.Lease{
		{Key: id("4"), Checkpoint: checkpoint.Latest, HashKeyRange: ring("400-499")},
		{Key: id("10"), Checkpoint: checkpoint.Latest, HashKeyRange: ring("800-MAX"), ParentShardIDs: []string{id("5")}}, // as text it comes before 8
		{Key: id("8"), Checkpoint: checkpoint.Latest, HashKeyRange: ring("0-399"), ParentShardIDs: []string{id("6"), id("7")}},
		{Key: id("9"), Checkpoint: checkpoint.Latest, HashKeyRange: ring("500-799"), ParentShardIDs: []string{id("5")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDetermineNewLeases_pinsLatestToTheSmallestTimeInTheTable(t *testing.T) {
	t.Parallel()
	a := parseGraph(graphA)
	have := leased(a, 8, 9)
	have[0].StartAtMillis, have[1].StartAtMillis = 7000, 5000
	for _, l := range determine(t, a, have, config.Latest()) {
		if l.StartAtMillis != 5000 {
			t.Errorf("%s is pinned to %d, want 5000", l.Key, l.StartAtMillis)
		}
	}
	for _, l := range determine(t, a, have, config.AtTimestamp(at1000)) {
		if l.StartAtMillis != 1000 {
			t.Errorf("%s is pinned to %d, want 1000", l.Key, l.StartAtMillis)
		}
	}
	for _, l := range determine(t, a, have, config.TrimHorizon()) {
		if l.StartAtMillis != 0 {
			t.Errorf("%s is pinned to %d", l.Key, l.StartAtMillis)
		}
	}
}

// N14 at another time: the time is on the row and decides nothing else.
func TestDetermineNewLeases_doesNotLookAtTheTimeOnceThereAreLeases(t *testing.T) {
	t.Parallel()
	a := parseGraph(graphA)
	for _, at := range []int64{200, 1000} {
		got := determine(t, a, leased(a, 1, 2, 3, 4, 5, 7, 9, 10), config.AtTimestamp(time.UnixMilli(at)))
		want := []leases.Lease{{Key: id("0"), Checkpoint: checkpoint.AtTimestamp, StartAtMillis: at, HashKeyRange: ring("0-99")}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %d: %s", at, diff)
		}
	}
}

// H20 to H22, H24, O2 to O6.
func TestShard_knowsItsParentsAndWhetherItIsOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parent, adjacent string
		want             []string
	}{
		{"", "", nil},
		{"a", "", []string{"a"}},
		{"", "a", []string{"a"}},
		{"a", "a", []string{"a"}},
		{"a", "b", []string{"a", "b"}},
		{"b", "a", []string{"a", "b"}},
	} {
		s := Shard{ID: "c", ParentID: c.parent, AdjacentParentID: c.adjacent}
		if diff := cmp.Diff(c.want, s.ParentIDs()); diff != "" {
			t.Errorf("%q, %q: %s", c.parent, c.adjacent, diff)
		}
		// O5: a new lease has both.
		if diff := cmp.Diff(c.want, newLease(s, position{}).ParentShardIDs); diff != "" {
			t.Errorf("lease of %q, %q: %s", c.parent, c.adjacent, diff)
		}
	}
	for end, open := range map[string]bool{"": true, "1000": false, "340282366920938463463374607431768211455": false} {
		if s := (Shard{EndingSequenceNumber: end}); s.Open() != open {
			t.Errorf("a shard that ends at %q is open: %v", end, s.Open())
		}
	}
	// H24: by starting sequence number, which is a number, then by id.
	old := []Shard{{ID: "z", StartingSequenceNumber: "9"}, {ID: "a", StartingSequenceNumber: "10"}, {ID: "b", StartingSequenceNumber: "10"}}
	if got := slices.SortedFunc(slices.Values([]Shard{old[2], old[1], old[0]}), compareAge); !slices.Equal(got, old) {
		t.Errorf("order %v", got)
	}
}

// H20 to H22, H23: a shard gets no lease if a lease above it will bring it.
func TestDetermineNewLeases_leavesWhatALeaseWillBring(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, shards, have, want string }{
		{"it has a lease", "1 - 1-open 0-MAX", "1", "-"},
		{"its parent has one", "0 - 1-5 0-MAX\n1 0 6-open 0-MAX", "0", "-"},
		{"its parent is trimmed", "1 0 6-open 0-MAX", "-", "1"},
		{"its grandparent has one", "0 - 1-5 0-MAX\n1 0 6-9 0-MAX\n2 1 10-open 0-MAX", "0", "-"},
		{"nobody has", "0 - 1-5 0-MAX\n1 0 6-open 0-MAX", "-", "1"},
	} {
		shards := parseGraph(c.shards)
		if got := numbersOf(determine(t, shards, leased(shards, ints(c.have)...), config.Latest())); !slices.Equal(got, ints(c.want)) {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// H1, H2, H5, H23 and O1 of KCL's tests.
func TestDetermineNewLeases_smallLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, shards, have, want string }{
		{"H1, H7: nothing", "", "-", "-"},
		{"H2: two open shards", "0 - 342980-open 0-9\n1 - 342980-open 10-MAX", "-", "0 1"},
		{"H5: closed shards without descendants", "2 - 202-302 0-9\n0 - 303-404 0-9\n1 - 405-open 0-9", "2", "1"},
		{"O1: the other parent of a merge", "0 - 1-9 0-9\n1 - 1-9 10-MAX\n2 0,a1 10-open 0-MAX", "0", "1"},
		{"H23: neither parent", "0 - 1-9 0-9\n1 - 1-9 10-MAX\n2 0,a1 10-open 0-MAX", "-", "2"},
		{"O2, H21: trimmed parents", "2 0,a1 10-open 0-MAX", "-", "2"},
		{"O4: one parent is trimmed", "0 - 1-9 0-9\n2 0,a1 10-open 0-MAX", "0", "-"},
	} {
		shards := parseGraph(c.shards)
		if got := numbersOf(determine(t, shards, leased(shards, ints(c.have)...), config.Latest())); !slices.Equal(got, ints(c.want)) {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// The end of a shard that left retention brings its children like any other end.
func TestDetermineNewLeases_leavesTheChildrenOfALeasedShardThatIsListedNoMore(t *testing.T) {
	t.Parallel()
	shards := parseGraph("2 0 10-open 0-99\n3 0 10-open 100-MAX")
	parent := leases.Lease{Key: id("0"), Checkpoint: checkpoint.TrimHorizon}
	for _, from := range positions {
		if got := numbersOf(determine(t, shards, []leases.Lease{parent}, from)); len(got) != 0 {
			t.Errorf("at %s: %v", name(from), got)
		}
	}
}

// Somebody deleted the row of a child whose parent was read to its end: what follows the parent's records is unread.
func TestDetermineNewLeases_startsALostChildWhereItsFinishedParentEnded(t *testing.T) {
	t.Parallel()
	a := parseGraph(graphA)
	have := leased(a, 4, 5, 8, 9)
	for i := range have {
		if have[i].Key == id("5") {
			have[i].Checkpoint, have[i].StartAtMillis = checkpoint.ShardEnd, 77
		}
	}
	for _, from := range positions {
		got := determine(t, a, have, from)
		want := []leases.Lease{{Key: id("10"), Checkpoint: checkpoint.TrimHorizon, StartAtMillis: 77, ParentShardIDs: []string{id("5")}, HashKeyRange: ring("800-MAX")}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %s: %s", name(from), diff)
		}
	}
}

func TestDetermineNewLeases_trustsALeaseThatTheListingDoesNotShowYet(t *testing.T) {
	t.Parallel()
	// The listing is older than the split of 0 into 1 and 2, whose rows exist; the row of 0 is gone.
	shards := parseGraph("0 - 1-open 0-MAX")
	have := []leases.Lease{
		{Key: id("1"), Checkpoint: checkpoint.ExtendedSequenceNumber{SequenceNumber: "12"}, ParentShardIDs: []string{id("0")}},
		{Key: id("2"), Checkpoint: checkpoint.ExtendedSequenceNumber{SequenceNumber: "12"}, ParentShardIDs: []string{id("0")}},
	}
	for _, from := range positions {
		if got := determine(t, shards, have, from); len(got) != 0 {
			t.Errorf("at %s: %v", name(from), got)
		}
	}
}

func TestDetermineNewLeases_refusesAListingThatContradictsItself(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an open shard has a child":   "0 - 1-open 0-MAX\n1 0 2-open 0-9",
		"a shard is listed twice":     "0 - 1-open 0-MAX\n0 - 1-open 0-MAX",
		"a shard is its own ancestor": "0 1 1-2 0-MAX\n1 0 3-4 0-MAX",
		"H9":                          "3 - 11-open 300-MAX\n2 - 11-102 0-299\n7 2,a3 103-205 0-MAX",
	} {
		got, err := DetermineNewLeases(parseGraph(text), nil, config.Latest())
		if !errors.Is(err, ErrInconsistent) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// KCL as its reference describes it, to compare with: the leases that it would create.
func kclDetermines(g *graph, has []bool, from config.InitialPosition) map[int]bool {
	created, root := map[int]bool{}, map[int]bool{}
	memo := map[int]bool{}
	var descends func(i int) bool
	descends = func(i int) (d bool) {
		if i >= len(g.shards) {
			return false
		}
		if has[i] {
			return true
		}
		if d, done := memo[i]; done {
			return d
		}
		defer func() { memo[i] = d }()
		through := map[int]bool{}
		for _, p := range g.parents[i] {
			if p < len(g.shards) && (descends(p) || root[p]) {
				d, through[p] = true, true
			}
		}
		if !d {
			root[i] = !from.IsLatest()
			return false
		}
		for _, p := range g.parents[i] {
			if p < len(g.shards) && !has[p] && (root[p] || !through[p]) {
				created[p] = true
			}
		}
		return true
	}
	for i, s := range g.shards {
		if s.Open() && !has[i] && !descends(i) {
			created[i] = true
		}
	}
	return created
}

// Every subset of leases of three graphs at three positions: no ancestor of a leased shard is made, everything open is
// reached, and where KCL makes no ancestor either, the result is KCL's.
func TestDetermineNewLeases_Exhaustive(t *testing.T) {
	t.Parallel()
	cases, like, better := 0, 0, 0
	for graphName, shards := range graphs() {
		g, err := newGraph(shards)
		if err != nil {
			t.Fatal(err)
		}
		for set := range 1 << len(shards) {
			var have []int
			has := make([]bool, len(shards))
			for n := range shards {
				if set&(1<<n) != 0 {
					have = append(have, n)
					has[g.index[id(strconv.Itoa(n))]] = true
				}
			}
			rows := leased(shards, have...)
			above := make([]bool, len(g.names))
			for i := range shards {
				if has[i] {
					g.mark(above, []int{i})
				}
			}
			for _, from := range positions {
				cases++
				got := determine(t, shards, rows, from)
				if err := checkNew(g, rows, got); err != nil {
					t.Fatalf("graph %s with leases %v at %s: new leases %v: %v", graphName, have, name(from), numbersOf(got), err)
				}
				kcl := kclDetermines(g, has, from)
				hazard := false
				for i := range kcl {
					hazard = hazard || above[i]
				}
				if hazard {
					better++
					continue
				}
				like++
				mine := map[int]bool{}
				for _, l := range got {
					mine[g.index[l.Key]] = true
				}
				if diff := cmp.Diff(kcl, mine); diff != "" {
					t.Fatalf("graph %s with leases %v at %s: KCL creates others: %s", graphName, have, name(from), diff)
				}
			}
		}
	}
	t.Logf("cases %d (%d as KCL, %d where KCL creates an ancestor of a leased shard)", cases, like, better)
	if cases != 3*2048*3 {
		t.Errorf("%d cases", cases)
	}
}

// checkNew checks what must hold for any leases: D1, no ancestor of a new lease is new too, none is new that exists, and in
// the end every open shard has a lease.
func checkNew(g *graph, have, created []leases.Lease) error {
	row, above := g.place(have)
	will := make([]bool, len(g.names))
	fresh := make([]bool, len(g.names))
	for _, l := range created {
		i := g.index[l.Key]
		switch {
		case row[i] != nil:
			return fmt.Errorf("%s has a lease already", l.Key)
		case above[i]:
			return fmt.Errorf("%s is an ancestor of a leased shard", l.Key)
		case fresh[i]:
			return fmt.Errorf("%s is created twice", l.Key)
		}
		fresh[i] = true
	}
	for _, l := range created {
		ancestors := make([]bool, len(g.names))
		g.mark(ancestors, []int{g.index[l.Key]})
		for i, f := range fresh {
			if f && ancestors[i] {
				return fmt.Errorf("%s and its ancestor %s are both created", l.Key, g.names[i])
			}
		}
	}
	// Play the stream to its end: a shard that has a lease, unless it was finished before, brings its children.
	for _, i := range g.order {
		will[i] = will[i] || row[i] != nil || fresh[i]
		for _, p := range g.parents[i] {
			if will[p] && (row[p] == nil || !row[p].Finished()) {
				will[i] = true
			}
		}
		if g.shards[i].Open() && !will[i] {
			return fmt.Errorf("open shard %s is never reached", g.names[i])
		}
	}
	return nil
}
