package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// What KCL 2.x chooses among 1 to 40 sorted owners.
var kclLeaders = []int{
	0, 0, 2, 3, 4, 2, 2, 2, 3, 8, 6, 9, 12, 4, 10, 11, 13, 11, 0, 14,
	13, 7, 1, 1, 0, 3, 9, 20, 12, 3, 22, 19, 21, 31, 23, 19, 22, 31, 35, 18,
}

func TestLeaderOf_isKCLsForEachNumberOfOwners(t *testing.T) {
	t.Parallel()
	var owners []string
	for n, want := range kclLeaders {
		owners = append(owners, fmt.Sprintf("OWNER%02d", n))
		if got, found := LeaderOf(owners); !found || got != owners[want] {
			t.Errorf("of %d owners %q leads, want number %d", n+1, got, want)
		}
	}
}

// The first numbers of new java.util.Random(42), by a JDK. A power of two has an algorithm of its own, and of 2^30+1 every
// second number is thrown away.
func TestJavaRandom_isJavas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n    int
		want []int
	}{
		{10, []int{0, 3, 8, 4, 0, 5, 5, 8}},
		{16, []int{11, 0, 10, 0, 4, 15, 4, 11}},
		{1<<30 + 1, []int{117392763, 102948884, 662969970, 595021505, 196118093, 969067502, 791955276, 819572292}},
		{1<<31 - 1, []int{1562431130, 117392763, 1467211248, 102948884, 662969970, 2023087525, 595021505, 1519796918}},
	} {
		r := newJavaRandom(42)
		var got []int
		for range c.want {
			got = append(got, r.intn(c.n))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("nextInt(%d) (-want +got)\n%s", c.n, d)
		}
	}
}

func TestJavaRandom_staysBelowItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newJavaRandom(rapid.Uint64().Draw(t, "seed"))
		n := rapid.OneOf(rapid.IntRange(1, 1<<31-1), rapid.SampledFrom([]int{1, 2, 1 << 30, 1<<30 + 1, 1<<31 - 1})).Draw(t, "n")
		for range 20 {
			if v := r.intn(n); v < 0 || v >= n {
				t.Fatalf("intn(%d) = %d", n, v)
			}
		}
	})
}

// What Collections.shuffle(list, new Random(1947)) moves to the front, by a JDK.
func TestLeaderOf_isKCLsInLargeFleets(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{41: 3, 64: 46, 100: 95, 128: 89, 500: 63, 1000: 748, 4096: 1436, 10000: 1338} {
		if got := leaderIndex(n); got != want {
			t.Errorf("of %d owners number %d leads, want %d", n, got, want)
		}
	}
}

func TestLeaderOf_nobodyAmongNobody(t *testing.T) {
	t.Parallel()
	if got, found := LeaderOf(nil); found {
		t.Errorf("%q leads", got)
	}
}

func TestLeaderOf_ordersAsJavaDoes(t *testing.T) {
	t.Parallel()
	// Among two the first leads. U+1F600 is D83D DE00 in UTF-16, before FF5E, but F0… in UTF-8, after EF….
	if got, _ := LeaderOf([]string{"\uff5e", "\U0001f600"}); got != "\U0001f600" {
		t.Errorf("%q leads, want the emoji", got)
	}
}

func TestLeaderOf_dependsOnTheSetOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owners := rapid.SliceOfN(rapid.String(), 1, 60).Draw(t, "owners")
		want, _ := LeaderOf(owners)
		mixed := rapid.Permutation(append(slices.Clone(owners), owners[0])).Draw(t, "mixed")
		if got, found := LeaderOf(mixed); !found || got != want {
			t.Fatalf("%q leads, in another order %q", want, got)
		}
		if !slices.Contains(owners, want) {
			t.Fatalf("%q leads and is none of %q", want, owners)
		}
	})
}

const leaderFailover = 10 * time.Second

// looked is a view after looks at these rows, one every five seconds.
func looked(me string, looks ...[]leases.Lease) leases.View {
	v := leases.NewView(me, config.LeaseManagementConfig{FailoverTime: leaderFailover})
	for i, rows := range looks {
		v = v.Look(rows, time.Unix(0, 0).Add(time.Duration(i)*leaderFailover/2))
	}
	return v
}

func row(key, owner string, counter int64) leases.Lease {
	return leases.Lease{Key: key, Owner: owner, Counter: counter, Checkpoint: checkpoint.TrimHorizon}
}

func TestDeterministicLeader_choosesAmongLiveOwners(t *testing.T) {
	t.Parallel()
	finished := row("s9", "c", 4)
	finished.Checkpoint = checkpoint.ShardEnd
	same := []leases.Lease{row("s1", "a", 1), row("s2", "b", 1), row("s3", "c", 1)}
	without := func(n int64) []leases.Lease { // a and c are dead: of four owners d would lead, of two b does
		return []leases.Lease{row("s1", "a", 1), row("s2", "b", n), row("s3", "c", 1), row("s4", "d", n)}
	}
	for name, c := range map[string]struct {
		looks   [][]leases.Lease
		leaders []string // of a, b, c and d, which owns nothing
	}{
		"nothing read":         {nil, []string{"a", "b", "c", "d"}},
		"empty table":          {[][]leases.Lease{{}}, []string{"a", "b", "c", "d"}},
		"nobody owns":          {[][]leases.Lease{{row("s1", "", 3), row("s2", "", 0)}}, []string{"a", "b", "c", "d"}},
		"one of two":           {[][]leases.Lease{{row("s1", "b", 3), row("s2", "a", 0), row("s3", "b", 1)}}, []string{"a"}},
		"one of three":         {[][]leases.Lease{same}, []string{"c"}},
		"finished leases too":  {[][]leases.Lease{{row("s1", "a", 1), row("s2", "b", 1), finished}}, []string{"c"}},
		"dead ones do not":     {[][]leases.Lease{without(1), without(2), without(3)}, []string{"b"}},
		"half stale ones do":   {[][]leases.Lease{{row("s1", "c", 1), row("s2", "c", 1)}, {row("s1", "c", 1), row("s2", "c", 2)}, {row("s1", "c", 1), row("s2", "c", 3)}}, []string{"c"}},
		"all dead, each leads": {[][]leases.Lease{{row("s1", "x", 1)}, {row("s1", "x", 1)}, {row("s1", "x", 1)}}, []string{"a", "b", "c", "d"}},
		"of a hand-off the one it goes to": {[][]leases.Lease{{{
			Key: "s1", Owner: "b", CheckpointOwner: "a", HandoffTo: "b", Counter: 4, Checkpoint: checkpoint.TrimHorizon,
			Tenure: &leases.Tenure{Worker: "a", Nonce: "n", At: 4},
		}}}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var leaders []string
			for _, me := range []string{"a", "b", "c", "d"} {
				v := looked(me, c.looks...)
				if NewDeterministicLeader(me, func() leases.View { return v }).IsLeader() {
					leaders = append(leaders, me)
				}
			}
			if d := cmp.Diff(c.leaders, leaders); d != "" {
				t.Errorf("leaders (-want +got)\n%s", d)
			}
		})
	}
}

// A fleet of five loses its leader. Each of the others sees the dead worker's counters stand; when they have stood for the
// failover time, all choose the same new one.
func TestDeterministicLeader_anotherLeadsWhenTheLeaderIsStale(t *testing.T) {
	t.Parallel()
	workers := []string{"w0", "w1", "w2", "w3", "w4"} // w4 leads
	alive := workers[:4]
	views := map[string]leases.View{}
	leadersAt := func() (leaders []string) {
		for _, me := range alive {
			if NewDeterministicLeader(me, func() leases.View { return views[me] }).IsLeader() {
				leaders = append(leaders, me)
			}
		}
		return leaders
	}
	const looks = 3 * time.Second
	start := time.Unix(0, 0)
	var stale time.Duration
	for at := time.Duration(0); at <= 3*leaderFailover; at += looks {
		var rows []leases.Lease
		for i, w := range workers {
			counter := int64(at / looks)
			if w == "w4" {
				counter = 0 // died after its first write
			}
			rows = append(rows, row(fmt.Sprintf("s%d", i), w, counter))
		}
		for _, me := range alive {
			v, seen := views[me]
			if !seen {
				v = leases.NewView(me, config.LeaseManagementConfig{FailoverTime: leaderFailover})
			}
			views[me] = v.Look(rows, start.Add(at))
		}
		leaders := leadersAt()
		if len(leaders) > 1 {
			t.Fatalf("after %v: %v lead", at, leaders)
		}
		if len(leaders) == 1 && stale == 0 {
			stale = at
			if leaders[0] != "w3" { // number 3 of four
				t.Errorf("%s leads, want w3", leaders[0])
			}
		}
	}
	if stale == 0 || stale > leaderFailover*3/2 {
		t.Errorf("another leader after %v, want at most 1.5 times the FailoverTime of %v", stale, leaderFailover)
	}
}
