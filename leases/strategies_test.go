package leases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
)

// fleetOf makes a fleet of texts such as "a b:3 c/east j!" (id, limit, zone, Java worker) and "1:a 2:- 3:b=80 4:b+"
// (key, holder, throughput, "+" for a hand-off under way).
func fleetOf(workers, leases string) Fleet {
	var f Fleet
	at := map[string]int{"-": -1}
	for i, text := range strings.Fields(workers) {
		text, zone, _ := strings.Cut(text, "/")
		id, limit, _ := strings.Cut(text, ":")
		id, java := strings.CutSuffix(id, "!")
		w := FleetWorker{ID: id, Go: !java, Zone: zone}
		_, _ = fmt.Sscan(limit, &w.Max)
		at[id] = i
		f.Workers = append(f.Workers, w)
	}
	for i, text := range strings.Fields(leases) {
		text, kbps, known := strings.Cut(text, "=")
		text, fixed := strings.CutSuffix(text, "+")
		key, holder, _ := strings.Cut(text, ":")
		l := FleetLease{Lease: Lease{Key: key, HasThroughput: known}, Holder: at[holder], Former: -1, Near: -1, Fixed: fixed}
		_, _ = fmt.Sscan(kbps, &l.Lease.ThroughputKBps)
		l.Lease.HashKeyRange = hashkey.Range{Start: hashkey.Key{Hi: uint64(i)}, End: hashkey.Key{Hi: uint64(i), Lo: 1}, Known: true}
		l.Unread = l.Holder < 0
		f.Leases = append(f.Leases, l)
	}
	return f
}

// countsOf is how many leases each worker gets, in order.
func countsOf(f Fleet, target []int) []int {
	n := make([]int, len(f.Workers))
	for _, w := range target {
		if w >= 0 {
			n[w]++
		}
	}
	return n
}

func movesOf(f Fleet, target []int) (moves int) {
	for i, l := range f.Leases {
		if l.Holder >= 0 && target[i] != l.Holder {
			moves++
		}
	}
	return moves
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	idle := strings.Repeat("x:a=0 ", 9)
	for name, c := range map[string]struct {
		by      AssignmentStrategy
		workers string
		leases  string
		counts  []int
		moves   int
	}{
		"Average, 4 on 3":                     {Average{}, "a b c", "1:- 2:- 3:- 4:-", []int{2, 1, 1}, 0},
		"Average, a limit":                    {Average{}, "a:1 b c", "1:- 2:- 3:- 4:- 5:- 6:-", []int{1, 3, 2}, 0},
		"Average, limits below what there is": {Average{}, "a:1 b:1", "1:- 2:- 3:-", []int{1, 1}, 0},
		"Average, in place":                   {Average{}, "a b", "1:a 2:a 3:b 4:b", []int{2, 2}, 0},
		"Average, more workers":               {Average{}, "a b c", "1:a", []int{1, 0, 0}, 0},
		"Average, one joins":                  {Average{}, "a b c", "1:a 2:a 3:a 4:b 5:b 6:b", []int{2, 2, 2}, 3},
		"Average, Java keeps":                 {Average{}, "a b j!", "1:j 2:j 3:j 4:- 5:-", []int{1, 1, 3}, 0},
		"Sticky, one joins":                   {Sticky{}, "a b", "1:a 2:a 3:a", []int{3, 0}, 0},
		"Sticky, one leaves":                  {Sticky{}, "a b", "1:a 2:a 3:a 4:- 5:- 6:-", []int{3, 3}, 0},
		"Sticky, limits":                      {Sticky{}, "a:1 b:2", "1:a 2:- 3:- 4:-", []int{1, 2}, 0},
		"Throughput, one heavy moves":         {ThroughputVariance{}, "a b", "1:a=90 2:a=10 3:a=10 4:a=10 5:a=10 6:a=10 7:a=10", []int{6, 1}, 1},
		"Throughput, alone with its owner":    {ThroughputVariance{}, "a b c", "1:a=1000 2:b=10 3:c=10", []int{1, 1, 1}, 0},
		"Throughput, within a tenth":          {ThroughputVariance{}, "a b", "1:a=100 2:b=90", []int{1, 1}, 0},
		"Throughput, no figures":              {ThroughputVariance{}, "a b c", "1:a 2:a 3:a 4:a 5:a 6:a", []int{2, 2, 2}, 4},
		"Throughput, missing is the mean":     {ThroughputVariance{}, "a b", "1:a=10 2:a=10 3:a 4:a", []int{2, 2}, 2},
		"Throughput, idle shards count too":   {ThroughputVariance{}, "a b", idle + "y:b=100", []int{9, 1}, 0},
		"Throughput, free ones":               {ThroughputVariance{}, "a b", "1:-=60 2:-=30 3:-=30", []int{0, 0}, 0},
		"Throughput, limit":                   {ThroughputVariance{}, "a b:1", "1:a=10 2:a=10 3:a=10 4:a=10", []int{3, 1}, 1},
		"Throughput, a hand-off counts":       {ThroughputVariance{}, "a b", "1:a=10 2:b=10+", []int{1, 1}, 0},
		"Zone, each its own":                  {zoneOfKey, "a/x b/y", "x1:- x2:- y1:- y2:-", []int{2, 2}, 0},
		"Zone, moved home":                    {zoneOfKey, "a/x b/y", "x1:b x2:b y1:a y2:a", []int{2, 2}, 4},
		"Zone, even in a zone":                {zoneOfKey, "a/x b/x c/y", "x1:a x2:a x3:a x4:a y1:c", []int{2, 2, 1}, 2},
		"Zone, spills without worker":         {zoneOfKey, "a/x b/x", "y1:- y2:- y3:- y4:-", []int{2, 2}, 0},
		"Zone, spills to the emptiest":        {zoneOfKey, "a/x b/z", "x1:- x2:- x3:- y1:- y2:- y3:-", []int{3, 3}, 0},
		"Zone, spills over a limit":           {zoneOfKey, "a:1/x b/y", "x1:- x2:- x3:-", []int{1, 2}, 0},
		"Zone, Java keeps":                    {zoneOfKey, "a/x j!", "x1:j x2:- x3:-", []int{2, 1}, 0},
	} {
		f := fleetOf(c.workers, c.leases)
		target := c.by.Assign(f)
		counts := countsOf(f, target)
		if name == "Throughput, free ones" { // either of the two gets the heavy one
			slices.Sort(counts)
			c.counts = []int{1, 2}
		}
		if d := gocmp.Diff(c.counts, counts); d != "" || movesOf(f, target) != c.moves {
			t.Errorf("%s: counts %v with %d moves, want %v with %d", name, counts, movesOf(f, target), c.counts, c.moves)
		}
	}
}

// zoneOfKey is the first letter of the key.
var zoneOfKey = Zone(func(l Lease) string { return l.Key[:1] })

func TestAverage_isContiguous(t *testing.T) {
	t.Parallel()
	f := fleetOf("a b c", "9:- 7:- 5:- 3:- 1:- 2:- 4:-") // the ring is in this order, the keys are not
	if got, want := (Average{}).Assign(f), []int{0, 0, 0, 1, 1, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestConsistentHash_movesOnlyWhatTheChangedWorkerHas(t *testing.T) {
	t.Parallel()
	var leases strings.Builder
	for i := range 600 {
		fmt.Fprintf(&leases, "%04d:- ", i)
	}
	before := fleetOf("a b c d e f", leases.String())
	had := (ConsistentHash{}).Assign(before)
	after := fleetOf("a b c d e", leases.String())
	moved := 0
	for i, w := range (ConsistentHash{}).Assign(after) {
		if had[i] == 5 {
			moved++
		} else if w != had[i] {
			t.Errorf("lease %d went from %d to %d, though only worker 5 is gone", i, had[i], w)
		}
	}
	if moved < 60 || moved > 140 {
		t.Errorf("a sixth of 600 leases is %d", moved)
	}
}

func TestStrategyByName(t *testing.T) {
	t.Parallel()
	for _, name := range config.AssignmentStrategies() {
		s, err := StrategyByName(name)
		if err != nil || !strings.HasSuffix(fmt.Sprintf("%T", s), "."+name) {
			t.Errorf("%s is %T, %v", name, s, err)
		}
	}
	if len(named) != len(config.AssignmentStrategies()) {
		t.Errorf("%d strategies have a name, config lists %d", len(named), len(config.AssignmentStrategies()))
	}
	if s, err := StrategyByName(""); s != (LeaseCount{}) || err != nil {
		t.Errorf("the default is %T, %v", s, err)
	}
	if _, err := StrategyByName("Zone"); err == nil || !strings.Contains(err.Error(), `"Zone"`) {
		t.Errorf("Zone by name: %v", err)
	}
}

func drawFleet(t *rapid.T) Fleet {
	f := Fleet{}
	for i := range rapid.IntRange(1, 9).Draw(t, "workers") {
		w := FleetWorker{ID: fmt.Sprintf("w%d-%d", i, rapid.IntRange(0, 99).Draw(t, "id")), Go: true, Zone: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "zone")}
		if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
			w.Max = rapid.IntRange(1, 12).Draw(t, "max")
		}
		f.Workers = append(f.Workers, w)
	}
	counts := make([]int, len(f.Workers))
	for i := range rapid.IntRange(1, 60).Draw(t, "leases") {
		l := FleetLease{
			Lease:  Lease{Key: fmt.Sprintf("%s%03d", rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "zone of"), i)},
			Holder: rapid.IntRange(-1, len(f.Workers)-1).Draw(t, "holder"), Former: -1, Near: -1,
		}
		if l.Holder >= 0 && f.Workers[l.Holder].Max > 0 && counts[l.Holder] >= f.Workers[l.Holder].Max {
			l.Holder = -1
		}
		l.Unread = l.Holder < 0
		if l.Holder >= 0 {
			counts[l.Holder]++
		} else if rapid.IntRange(0, 3).Draw(t, "child") == 0 {
			l.Near = rapid.IntRange(0, len(f.Workers)-1).Draw(t, "near")
		}
		if rapid.Bool().Draw(t, "measured") {
			l.Lease.HasThroughput, l.Lease.ThroughputKBps = true, float64(rapid.IntRange(0, 2000).Draw(t, "KBps"))
		}
		f.Leases = append(f.Leases, l)
	}
	slices.SortFunc(f.Leases, func(a, b FleetLease) int { return strings.Compare(a.Lease.Key, b.Lease.Key) })
	return f
}

// What every strategy promises: all is assigned as far as the limits allow, none is broken, the answer is the same each
// time, and once it has been carried out it stands.
func TestStrategies_keepWhatTheyPromise(t *testing.T) {
	t.Parallel()
	all := []AssignmentStrategy{zoneOfKey}
	for _, s := range named {
		all = append(all, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		capacity := 0
		for _, w := range f.Workers {
			if w.Max == 0 {
				capacity = len(f.Leases)
			}
			capacity += w.Max
		}
		for _, s := range all {
			target := s.Assign(f)
			assigned := 0
			for w, n := range countsOf(f, target) {
				assigned += n
				if limit := f.Workers[w].Max; limit > 0 && n > limit {
					t.Fatalf("%T gives %s %d leases, above its limit of %d", s, f.Workers[w].ID, n, limit)
				}
			}
			if want := min(len(f.Leases), capacity); assigned != want {
				t.Fatalf("%T assigns %d of %d leases, want %d", s, assigned, len(f.Leases), want)
			}
			if d := gocmp.Diff(target, s.Assign(f)); d != "" {
				t.Fatalf("%T answers differently the second time:\n%s", s, d)
			}
			done := Fleet{Workers: f.Workers, Leases: slices.Clone(f.Leases)}
			for i := range done.Leases {
				done.Leases[i].Holder, done.Leases[i].Near = target[i], -1
				done.Leases[i].Unread = target[i] < 0
			}
			if d := gocmp.Diff(target, s.Assign(done)); d != "" {
				t.Fatalf("%T changes its mind once all is done:\n%s", s, d)
			}
			// Only part of it is done: what is done stays.
			for i := range done.Leases {
				if i%2 == 0 {
					done.Leases[i] = f.Leases[i]
				}
			}
			again := s.Assign(done)
			if _, counted := s.(LeaseCount); counted {
				for i, w := range again {
					if i%2 == 1 && w != target[i] {
						t.Fatalf("%T moves lease %d on from %d to %d", s, i, target[i], w)
					}
				}
			}
		}
	})
}
