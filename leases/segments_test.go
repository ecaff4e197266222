package leases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlease/shardlease/config"
)

// readerFleet is a table of so many leases, shared evenly by so many workers, as it is after some renewals.
func readerFleet(leases, workers, renewals int) []Lease {
	ls := make([]Lease, leases)
	for i := range ls {
		ls[i] = goLease(fmt.Sprintf("shardId-%012d", i), fmt.Sprintf("worker-%03d", i%workers), 1)
	}
	return renewed(ls, int64(renewals))
}

func readerConfig() config.LeaseManagementConfig {
	return config.Default("app", "orders").Complete().LeaseManagement
}

// segmentOf puts the rows of a scope into a listing.
func segmentOf(ls []Lease, s Scope) []Lease {
	if s.Whole() {
		return ls
	}
	var part []Lease
	for _, l := range ls {
		if l.Owner == "worker-003" || slices.Contains(s.Segments, int(hashOf("place of "+l.Key)%uint64(s.Of))) { // its own it knows
			part = append(part, l)
		}
	}
	return part
}

func unitsOf(rows []Lease) float64 { return max(0.5, float64(len(rows)*420)/8192) }

// readAt lets a reader look at a table at a time.
func readAt(r Reader, v View, ls []Lease, at time.Duration) (Reader, View, Moves, time.Duration) {
	rows := segmentOf(ls, r.Scope())
	r, v = r.Look(v, r.Scope(), rows, unitsOf(rows), after(at), readerConfig())
	r, m, wait := r.Plan(v.me, v, readerConfig(), nil)
	return r, v, m, wait
}

func TestReader_readsEverythingWithinTheBudget(t *testing.T) {
	t.Parallel()
	r, v := Reader{}, testView("worker-003")
	var wait time.Duration
	for i := range 6 {
		if r, v, _, wait = readAt(r, v, readerFleet(1000, 10, i), time.Duration(i)*5*second); !r.Scope().Whole() {
			t.Fatalf("look %d is followed by %v", i, r.Scope())
		}
	}
	if wait != 5*second {
		t.Errorf("looks again after %v, want 5 s", wait)
	}
}

// settledReader is a worker of a hundred that has started at a large table.
func settledReader(t *testing.T) (Reader, View, time.Duration) {
	t.Helper()
	r, v := Reader{}, testView("worker-003")
	at := time.Duration(0)
	for i := range 40 {
		var (
			m    Moves
			wait time.Duration
		)
		r, v, m, wait = readAt(r, v, readerFleet(10_000, 100, i), at)
		if len(m.Take)+len(m.Ask) > 0 {
			t.Fatalf("at %v takes [%s], asks for [%s] of a balanced fleet", at, names(m.Take), names(m.Ask))
		}
		at += max(wait, time.Millisecond)
		if r.Scope().Of == 100 {
			return r, v, at
		}
	}
	t.Fatalf("after %v the scope is %v, want segments of 100", at, r.Scope())
	return r, v, at
}

func TestReader_watchesSegmentsOfALargeTable(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	r, v, at := settledReader(t)
	if n := len(r.Scope().Segments); n != 5 {
		t.Errorf("watches %d segments, want 5: of 10,000 rows, five of each other worker", n)
	}
	// As long as all is calm nothing but the watched segments is read for six failover times.
	began, units := at, 0.0
	for i := 100; r.Scope().Of == 100; i++ {
		var wait time.Duration
		units += unitsOf(segmentOf(readerFleet(10_000, 100, i), r.Scope()))
		r, v, _, wait = readAt(r, v, readerFleet(10_000, 100, i), at)
		at += max(wait, time.Millisecond)
	}
	if calm := at - began; calm < 50*second || calm > 61*second {
		t.Errorf("a whole look after %v of calm, want after a minute", calm)
	}
	if perMinute := 100 * (units + 513); perMinute > 149_000 {
		t.Errorf("the fleet reads %.0f units a minute, want at most 149,000", perMinute)
	}
}

// A worker of which the sample shows nothing could die unnoticed.
func TestReader_watchesMoreIfItsSampleLacksAWorker(t *testing.T) {
	t.Parallel()
	r, v, at := settledReader(t)
	before := len(r.Scope().Segments)
	lacking := func(i int) []Lease { // of worker-050 only rows outside the segments watched first
		ls := readerFleet(10_000, 100, i)
		for k := range ls {
			if ls[k].Owner == "worker-050" && slices.Contains(r.Scope().Segments[:before], int(hashOf("place of "+ls[k].Key)%100)) {
				ls[k] = renewed([]Lease{goLease(ls[k].Key, "worker-051", 1)}, int64(i))[0]
			}
		}
		return ls
	}
	for i := 100; i < 110; i++ {
		var wait time.Duration
		r, v, _, wait = readAt(r, v, lacking(i), at)
		at += max(wait, time.Millisecond)
	}
	shows := slices.ContainsFunc(r.seen, func(s *Sighting) bool { return s.Lease.Owner == "worker-050" })
	if n := len(r.Scope().Segments); n <= before || n > 2*before || !shows {
		t.Errorf("watches %d segments after %d; they show worker-050: %v; want more, until they do", n, before, shows)
	}
}

func TestReader_looksAtEverythingWhenItsSampleIsNotCalm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(l *Lease, look int)
		within time.Duration
	}{
		"a row without owner": {func(l *Lease, _ int) { l.Owner, l.Tenure = "", nil }, 3 * second},
		"an owner that stands still": {func(l *Lease, _ int) {
			l.Counter, l.Tenure.At = 1000, 1000
		}, 8 * second},
		"one that is stopping":  {func(l *Lease, _ int) { l.Tenure.Leaving = true }, 16 * second},
		"one that was not seen": {func(l *Lease, _ int) { l.Owner, l.Tenure.Worker = "new", "new" }, 31 * second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, v, at := settledReader(t)
			began := at
			for i := 100; r.Scope().Of == 100 && at-began < time.Minute; i++ {
				ls := readerFleet(10_000, 100, i)
				for k := range ls {
					if ls[k].Owner == "worker-050" {
						tenure := *ls[k].Tenure
						ls[k].Tenure = &tenure
						c.change(&ls[k], i)
					}
				}
				var wait time.Duration
				r, v, _, wait = readAt(r, v, ls, at)
				at += max(wait, time.Millisecond)
			}
			if took := at - began; took > c.within {
				t.Errorf("a whole look after %v, want within %v", took, c.within)
			}
		})
	}
}

func TestView_sparseKnowsNothingOfARowReadOnce(t *testing.T) {
	t.Parallel()
	ls := []Lease{goLease("s", "a", 7)}
	v := testView("me").asSparse(true).Look(ls, t0)
	if _, ok := v.NextExpiry(); ok || v.At(after(time.Minute)).Get("s").Knowledge != Fresh {
		t.Error("a row that was read once becomes stale")
	}
	v = v.Look(ls, after(5*second))
	if at, ok := v.NextExpiry(); !ok || !at.Equal(after(10*second)) {
		t.Errorf("read again unchanged, it expires at %v, %v; want after 10 s", at.Sub(t0), ok)
	}
	if k := v.At(after(10 * second)).Get("s").Knowledge; k != Stale {
		t.Errorf("then it is %v", k)
	}
}

func TestReader_looksLessOftenAboveItsReadBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		units   float64
		workers int
		want    time.Duration
	}{{50, 10, 5 * second}, {100, 11, 10 * second}, {500, 100, 22 * second}} {
		if got := (Reader{units: c.units}).interval(c.workers, readerConfig()); got != c.want {
			t.Errorf("%v units, %d workers: %v, want %v", c.units, c.workers, got, c.want)
		}
	}
}
