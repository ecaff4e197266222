package leases

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/config"
)

// fleetSim runs the real View and Plan of many workers on one table in virtual time. A write takes no time and a renewal
// is never missed; what a worker sees is what is there.
type fleetSim struct {
	cfg     config.LeaseManagementConfig
	rows    map[string]*simRow
	workers []*simWorker
	random  *rand.Rand
	now     time.Duration
	by      AssignmentStrategy

	writes, failed, moves int
	lastMove              time.Duration
}

type simRow struct {
	lease   Lease
	renewed time.Duration
}

type simWorker struct {
	id    string
	max   int
	view  View
	next  time.Duration
	alive bool
	java  *javaTaker // nil for a Go worker
}

func newFleetSim(seed uint64, leases int) *fleetSim {
	s := &fleetSim{cfg: planConfig(), by: LeaseCount{}, rows: map[string]*simRow{}, random: rand.New(rand.NewPCG(seed, 1))}
	for i := range leases {
		key := fmt.Sprintf("shardId-%012d", i)
		s.rows[key] = &simRow{lease: Lease{Key: key}}
	}
	return s
}

// start adds a worker that first looks at a random moment of the next d.
func (s *fleetSim) start(limit int, d time.Duration) *simWorker {
	cfg := s.cfg
	cfg.MaxLeasesForWorker = limit
	w := &simWorker{id: fmt.Sprintf("host-%d/%d", len(s.workers), s.random.Uint32()), max: limit, alive: true, next: s.now}
	if d > 0 {
		w.next += time.Duration(s.random.Int64N(int64(d)))
	}
	w.view = NewView(w.id, cfg)
	s.workers = append(s.workers, w)
	return w
}

func (s *fleetSim) run(d time.Duration) {
	for end := s.now + d; ; {
		w := slices.MinFunc(s.living(), func(a, b *simWorker) int { return cmp.Compare(a.next, b.next) })
		if w.next > end {
			s.now = end
			return
		}
		s.now = max(s.now, w.next)
		s.look(w)
	}
}

func (s *fleetSim) living() (l []*simWorker) {
	for _, w := range s.workers {
		if w.alive {
			l = append(l, w)
		}
	}
	return l
}

func (s *fleetSim) listing() []Lease {
	alive := map[string]*simWorker{}
	for _, w := range s.living() {
		alive[w.id] = w
	}
	out := make([]Lease, 0, len(s.rows))
	for _, r := range s.rows {
		if w := alive[r.lease.Owner]; w != nil && s.now-r.renewed >= 3300*time.Millisecond {
			if w.java != nil {
				r.lease.Counter++ // a tenure that an earlier owner left falls silent
			} else {
				r.lease = renewed([]Lease{r.lease}, 1)[0]
			}
			r.renewed = s.now
		}
		out = append(out, r.lease)
	}
	return out
}

func (s *fleetSim) plan(w *simWorker) Moves {
	cfg := s.cfg
	cfg.MaxLeasesForWorker = w.max
	return Plan(w.id, w.view, cfg, s.by)
}

func (s *fleetSim) look(w *simWorker) {
	if w.java != nil {
		s.lookAsJava(w)
		return
	}
	w.view = w.view.Look(s.listing(), t0.Add(s.now))
	m := s.plan(w)
	s.apply(w, m)
	w.next = s.now + s.cfg.LeaseTakerInterval - time.Duration(s.random.Int64N(int64(500*time.Millisecond)))
	if m.Again > 0 {
		w.next = min(w.next, s.now+m.Again)
	}
}

func (s *fleetSim) apply(w *simWorker, m Moves) {
	for _, l := range m.Take {
		s.take(w, l)
	}
	for _, l := range m.Ask {
		if r := s.rows[l.Key]; r.lease.Owner == l.Owner { // read again
			s.take(w, r.lease)
		}
	}
}

func (s *fleetSim) take(w *simWorker, seen Lease) {
	s.writes++
	r := s.rows[seen.Key]
	if r.lease.Counter != seen.Counter {
		s.failed++
		return
	}
	s.moves++
	s.lastMove = s.now
	r.renewed = s.now
	if w.java != nil {
		r.lease.Owner, r.lease.Counter = w.id, seen.Counter+1
		return
	}
	l := goLease(seen.Key, w.id, seen.Counter+1)
	l.Tenure.Max = w.max
	r.lease = l
	w.view = w.view.Row(l, t0.Add(s.now))
}

func (s *fleetSim) counts() map[string]int {
	n := map[string]int{}
	for _, w := range s.living() {
		n[w.id] = 0
	}
	for _, r := range s.rows {
		n[r.lease.Owner]++
	}
	return n
}

// check fails unless everything is owned by living workers and as even as their limits allow.
func (s *fleetSim) check(t interface{ Fatalf(string, ...any) }, what string) {
	n := s.counts()
	capacity, unlimited := 0, false
	most := 0
	for _, w := range s.living() {
		if w.max > 0 && n[w.id] > w.max {
			t.Fatalf("%s: %s holds %d, above its limit of %d", what, w.id, n[w.id], w.max)
		}
		capacity += w.max
		unlimited = unlimited || w.max == 0
		most = max(most, n[w.id])
	}
	owned := 0
	for _, w := range s.living() {
		owned += n[w.id]
		if n[w.id] < most-1 && (w.max == 0 || n[w.id] < w.max) {
			t.Fatalf("%s: %s holds %d of %v: not balanced", what, w.id, n[w.id], n)
		}
	}
	want := len(s.rows)
	if !unlimited {
		want = min(want, capacity)
	}
	if owned != want {
		t.Fatalf("%s: %d leases of %d are owned, want %d", what, owned, len(s.rows), want)
	}
}

func TestPlan_converges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newFleetSim(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 60).Draw(t, "leases"))
		for range rapid.IntRange(1, 8).Draw(t, "workers") {
			limit := 0
			if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
				limit = rapid.IntRange(1, 10).Draw(t, "limit")
			}
			s.start(limit, 10*second)
		}
		s.run(120 * second)
		s.check(t, "start")
		quiet := s.lastMove
		s.run(120 * second)
		if s.lastMove != quiet {
			t.Fatalf("a balanced fleet moved a lease at %v, after standing still since %v", s.lastMove, quiet)
		}
		s.start(0, second)
		moves, before := s.moves, s.counts()
		s.run(120 * second)
		s.check(t, "a worker joins")
		gained := 0
		for w, n := range s.counts() {
			if w != "" {
				gained += max(0, n-before[w])
			}
		}
		if s.moves-moves != gained {
			t.Fatalf("a join took %d moves, %d are enough", s.moves-moves, gained)
		}
		if len(s.living()) > 1 {
			s.living()[0].alive = false
			s.run(120 * second)
			s.check(t, "a worker dies")
			quiet = s.lastMove
			s.run(60 * second)
			if s.lastMove != quiet {
				t.Fatalf("a balanced fleet moved a lease at %v", s.lastMove)
			}
		}
	})
}

// A worker without a lease is in nobody's view, so that it cannot be meant by the others' plans: which lease it asks for first must be one that
// it would keep. Of strategies that say who is to have which lease, two workers could else take two leases from each other for ever.
func TestPlan_comesToRestWithEveryStrategy(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]AssignmentStrategy{
		"LeaseCount": LeaseCount{}, "Average": Average{}, "ConsistentHash": ConsistentHash{}, "Sticky": Sticky{}, "ThroughputVariance": ThroughputVariance{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s := newFleetSim(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 8).Draw(t, "leases"))
				s.by = by
				for range rapid.IntRange(2, 5).Draw(t, "workers") {
					s.start(0, 10*second)
				}
				s.run(120 * second)
				for key, r := range s.rows { // as one worker's death, or an outage, may leave it
					if rapid.Bool().Draw(t, "to the last "+key) {
						s.take(s.workers[len(s.workers)-1], r.lease)
					}
				}
				s.run(120 * second)
				quiet := s.lastMove
				s.run(120 * second)
				if s.lastMove != quiet {
					t.Fatalf("a lease moved at %v, %d moves in all: %v", s.lastMove, s.moves, s.counts())
				}
			})
		})
	}
}

func TestPlan_isDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newFleetSim(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 40).Draw(t, "leases"))
		for range rapid.IntRange(1, 5).Draw(t, "workers") {
			s.start(0, 10*second)
		}
		s.run(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * second)
		w := s.workers[0]
		listing := s.listing()
		w.view = w.view.Look(listing, t0.Add(s.now))
		first := s.plan(w)
		s.random.Shuffle(len(listing), func(i, j int) { listing[i], listing[j] = listing[j], listing[i] })
		w.view = w.view.Look(listing, t0.Add(s.now))
		if d := gocmp.Diff(first, s.plan(w)); d != "" {
			t.Fatalf("two plans of one view differ:\n%s", d)
		}
	})
}

// Everybody starts within a second on a table that nobody reads, and sees the same: that is a deploy.
func TestPlan_coldStartIsNoStampede(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ leases, workers int }{{1000, 10}, {500, 50}} {
		for seed := range uint64(1) {
			s := newFleetSim(seed, c.leases)
			for range c.workers {
				s.start(0, second)
			}
			s.run(10 * second)
			s.check(t, fmt.Sprintf("%d leases, %d workers, seed %d", c.leases, c.workers, seed))
			if share := float64(s.failed) / float64(s.writes); share > 0.01 {
				t.Errorf("%d leases, %d workers, seed %d: %d of %d writes failed their condition, want at most 1 %%", c.leases, c.workers, seed, s.failed, s.writes)
			}
			t.Logf("%d leases, %d workers, seed %d: %d writes, %d failed, last move at %v", c.leases, c.workers, seed, s.writes, s.failed, s.lastMove)
		}
	}
}

// All workers plan on one and the same view, and all write at once: their parts must not overlap.
func TestPlan_partsOfOneViewAreDisjoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newFleetSim(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(20, 80).Draw(t, "leases"))
		for range rapid.IntRange(2, 6).Draw(t, "workers") {
			s.start(0, 0)
		}
		s.run(0) // the first lease of each
		for range 20 {
			s.now += 500 * time.Millisecond
			listing := s.listing()
			seen := map[string]string{}
			plans := map[*simWorker]Moves{}
			for _, w := range s.living() {
				w.view = w.view.Look(listing, t0.Add(s.now))
				plans[w] = s.plan(w)
				for _, l := range append(slices.Clone(plans[w].Take), plans[w].Ask...) {
					if other, taken := seen[l.Key]; taken && plans[w].Held > 0 {
						t.Fatalf("at %v both %s and %s want %s", s.now, other, w.id, l.Key)
					}
					seen[l.Key] = w.id
				}
			}
			for _, w := range s.living() {
				s.apply(w, plans[w])
			}
		}
		s.check(t, "10 s later")
	})
}

func TestPlan_allOfADeadWorkersLeasesAreTakenInTime(t *testing.T) {
	t.Parallel()
	s := newFleetSim(7, 200)
	for range 5 {
		s.start(0, 10*second)
	}
	s.run(60 * second)
	s.check(t, "start")
	s.living()[2].alive = false
	died := s.now
	// Without the taker's timers, which take a row at its very expiry, a look may be due to notice the expiry.
	s.run(s.cfg.FailoverTime + 2*s.cfg.LeaseTakerInterval)
	s.check(t, "two looks after the failover time")
	if d := s.lastMove - died; d > s.cfg.FailoverTime+2*s.cfg.LeaseTakerInterval {
		t.Errorf("the last lease was taken %v after the death", d)
	}
}
