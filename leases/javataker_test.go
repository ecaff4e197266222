package leases

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// javaTaker is the LeaseTaker of KCL 2.x at its defaults: what it remembers between two runs. A run is in [fleetSim.lookAsJava].
type javaTaker struct {
	counter map[string]int64
	moved   map[string]time.Duration // lastCounterIncrement
}

// javaEvery is how long a Java worker waits between two runs, from the end of one to the start of the next.
const javaEvery = 2 * (10*second + 25*time.Millisecond)

// startJava adds a Java worker that runs for the first time at a random moment of the next d.
func (s *fleetSim) startJava(d time.Duration) *simWorker {
	w := s.start(0, d)
	w.java = &javaTaker{map[string]int64{}, map[string]time.Duration{}}
	return w
}

// lookAsJava is one run of a Java worker, step by step as KCL does it.
func (s *fleetSim) lookAsJava(w *simWorker) {
	failover, t := s.cfg.FailoverTime, w.java
	listing := s.listing()
	for _, l := range listing {
		before, seen := t.counter[l.Key]
		switch {
		case seen && before == l.Counter:
		case !seen && l.Owner == "":
			t.moved[l.Key] = -time.Hour // the zero of a clock that runs since the machine was started
		default:
			t.moved[l.Key] = s.now
		}
		t.counter[l.Key] = l.Counter
	}
	counts := map[string]int{w.id: 0}
	var available, veryOld []Lease
	for _, l := range listing {
		if l.Owner == "" || s.now-t.moved[l.Key] > failover {
			available = append(available, l)
		} else {
			counts[l.Owner]++
		}
		if s.now-3*failover > t.moved[l.Key] {
			veryOld = append(veryOld, l)
		}
	}
	target := 1
	if len(counts) < len(listing) {
		target = (len(listing) + len(counts) - 1) / len(counts)
	}
	needed := target - counts[w.id]
	var take []Lease
	switch {
	case len(veryOld) > 0: // before and beyond any share
		take = s.anyOf(veryOld, len(veryOld))
	case needed <= 0:
	case len(available) > 0:
		take = s.anyOf(available, needed)
	default:
		take = s.steals(listing, counts, target, needed)
	}
	for _, l := range take {
		s.take(w, l)
		if r := s.rows[l.Key].lease; r.Owner == w.id {
			t.counter[l.Key], t.moved[l.Key] = r.Counter, s.now
		}
	}
	w.next = s.now + javaEvery
}

// steals is one lease of the most loaded worker; which one that is among several is left to chance.
func (s *fleetSim) steals(listing []Lease, counts map[string]int, target, needed int) []Lease {
	ids := slices.Sorted(maps.Keys(counts))
	s.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	most := slices.MaxFunc(ids, func(a, b string) int { return cmp.Compare(counts[a], counts[b]) })
	if counts[most] < target {
		return nil
	}
	n := min(needed, counts[most]-target)
	if needed > 1 && n == 0 {
		n = 1
	}
	theirs := slices.DeleteFunc(slices.Clone(listing), func(l Lease) bool { return l.Owner != most })
	return s.anyOf(theirs, min(n, 1)) // maxLeasesToStealAtOneTime
}

func (s *fleetSim) anyOf(ls []Lease, n int) []Lease {
	slices.SortFunc(ls, func(a, b Lease) int { return cmp.Compare(a.Key, b.Key) })
	s.random.Shuffle(len(ls), func(i, j int) { ls[i], ls[j] = ls[j], ls[i] })
	return ls[:max(0, min(n, len(ls)))]
}

// A fleet of Go and Java workers becomes even, at the pace of the Java ones, and then neither takes a lease from the other
// again, however long it runs.
func TestPlan_convergesBesideJavaTakersAndNeverTakesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		leases := rapid.IntRange(1, 16).Draw(t, "leases")
		s := newFleetSim(rapid.Uint64().Draw(t, "seed"), leases)
		within := time.Duration(rapid.SampledFrom([]int{1, 5, 60}).Draw(t, "spread of the starts, s")) * second
		for range rapid.IntRange(1, 3).Draw(t, "Go workers") {
			s.start(0, within)
		}
		for range rapid.IntRange(1, 3).Draw(t, "Java workers") {
			s.startJava(within)
		}
		settle := func(what string) {
			t.Helper()
			// Each Java worker gains one lease a run at the least, beside those that lack a second look.
			s.run(2*time.Minute + time.Duration(leases+3)*javaEvery)
			s.check(t, what)
			quiet := s.lastMove
			s.run(10 * time.Minute)
			if s.lastMove != quiet {
				t.Fatalf("%s: a lease moved at %v, after the fleet had stood still since %v", what, s.lastMove, quiet)
			}
		}
		settle("start")
		moves, before := s.moves, s.counts()
		s.start(0, second)
		settle("a Go worker joins")
		gained := 0
		for w, n := range s.counts() {
			gained += max(0, n-before[w])
		}
		// A Java worker that looks while the new one takes its share sees counts that are half way, and may take a lease in between: in one
		// fleet of some thousands.
		if s.moves-moves > gained+1 {
			t.Fatalf("a Go worker's join took %d moves, %d are enough", s.moves-moves, gained)
		}
		s.startJava(second)
		settle("a Java worker joins")
		s.living()[rapid.IntRange(0, len(s.living())-1).Draw(t, "who dies")].alive = false
		settle("a worker dies")
	})
}
