package main

import (
	"math"
	"slices"
	"time"
)

// fleet says whose workers take part.
type fleet int

const (
	ours  fleet = iota
	kcl         // KCL 2.x
	mixed       // every second one
)

var fleetNames = [...]string{"shardlease", "KCL 2.x", "both"}

func (f fleet) String() string { return fleetNames[f] }

// scenario is something that happens to a fleet.
type scenario struct {
	name    string
	leases  int
	fleets  []fleet
	absent  bool  // the rows are to be created
	slow    bool  // played only if asked for by name, or with more seeds
	before  int   // workers that run when it happens, all leases spread evenly over them
	first   fleet // theirs, if fleets is mixed
	seeds   int
	horizon time.Duration // how long to wait for balance
	steady  time.Duration // if not 0, nothing happens, and this long is watched
	// event makes it happen and returns the least number of moves that it takes, and when the last start or stop is.
	event  func(w *world, f fleet, at time.Duration) (least int, last time.Duration)
	bounds []bound
}

// result is what one run showed. Times count from the event.
type result struct {
	owned    time.Duration // when the last row got an owner
	balanced time.Duration // when the fleet was balanced for good; negative if never
	last     time.Duration // the last start or stop
	moves    int
	least    int
	writes   int
	failed   int
	minute   float64 // read units in the first minute
	steady   float64 // read units in a minute, if nothing happens
	later    int     // moves after balance
	// For how long shards stood still: by hand-offs and releases, and after crashes.
	gaps, crashGaps []time.Duration
}

// over is moves over the least possible.
func (r result) over() float64 {
	if r.least == 0 {
		return float64(r.moves)
	}
	return float64(r.moves) / float64(r.least)
}

const (
	warmUp   = 40 * time.Second
	quietFor = 30 * time.Second // how long balance must last; a minute is watched in any case
)

// run plays a scenario once.
func (s scenario) run(f fleet, seed uint64) result {
	w := newWorld(seed, s.leases, !s.absent)
	at := time.Duration(0)
	if s.before > 0 {
		who := f
		if f == mixed && s.first != mixed {
			who = s.first
		}
		w.addAll(s.before, who)
		w.spread(s.before)
		at = warmUp
		w.run(at)
	}
	w.m, w.measured = measures{}, at
	r := result{}
	if s.event != nil {
		var last time.Duration
		r.least, last = s.event(w, f, at)
		r.last = last - at
	}
	step := 100 * time.Millisecond
	horizon := s.horizon
	if f != ours {
		step, horizon = 500*time.Millisecond, max(horizon, 45*time.Minute)
	}
	if s.steady > 0 {
		horizon = s.steady
	}
	unowned, uneven, atBalance := time.Duration(-1), time.Duration(-1), -1
	now := at
	for ; now <= at+horizon; now += step {
		w.run(now)
		free, even := w.state()
		if free {
			unowned = now - at
		}
		if !even || now < at+r.last {
			uneven, atBalance = now-at, -1
		} else if atBalance < 0 {
			atBalance = w.m.moves
		}
		if s.steady == 0 && now-at-uneven > quietFor && now-at >= time.Minute {
			break
		}
	}
	r.owned, r.balanced = max(0, unowned+step), max(0, uneven+step)
	if unowned < 0 {
		r.owned = 0
	}
	if uneven < 0 {
		r.balanced = 0
	}
	if s.steady == 0 && uneven+step >= horizon {
		r.balanced = -1
	}
	r.moves, r.writes, r.failed, r.later = w.m.moves, w.m.writes, w.m.failed, w.m.moves-max(0, atBalance)
	r.gaps, r.crashGaps = w.m.gaps, w.m.crashGaps
	if len(w.m.minutes) > 0 {
		r.minute = w.m.minutes[0]
	}
	if s.steady > 0 {
		r.steady = w.m.units / s.steady.Minutes()
	}
	return r
}

// state reports whether a row is without a living owner, and whether the others are spread evenly over those who stay.
func (w *world) state() (free, even bool) {
	least, most, owned := math.MaxInt, 0, 0
	even = true
	for _, x := range w.workers {
		if !x.alive() {
			continue
		}
		owned += x.owns
		if x.leaving {
			even = even && x.owns == 0
			continue
		}
		least, most = min(least, x.owns), max(most, x.owns)
	}
	free = owned < len(w.rows)
	return free, even && !free && most-least <= 1
}

func (w *world) addAll(n int, f fleet) []*worker {
	var added []*worker
	for i := range n {
		added = append(added, w.add(f == kcl || f == mixed && i%2 == 1))
	}
	return added
}

// spread is the time within which workers that start together do so.
const spread = 5 * time.Second

// start adds workers that start within spread.
func start(n int, who fleet, least func(w *world) int) func(*world, fleet, time.Duration) (int, time.Duration) {
	return func(w *world, f fleet, at time.Duration) (int, time.Duration) {
		last := at
		if f == mixed {
			f = who
		}
		for _, x := range w.addAll(n, f) {
			begin := at + w.uniform(spread)
			last = max(last, begin)
			x.start(begin)
		}
		return least(w), last
	}
}

func crash(n int) func(*world, fleet, time.Duration) (int, time.Duration) {
	return func(w *world, _ fleet, at time.Duration) (least int, last time.Duration) {
		last = at + w.uniform(w.cfg.LeaseTakerInterval)
		for i := range n {
			least += w.workers[i].owns
			w.at(last, w.workers[i].crash)
		}
		return least, last
	}
}

// rolling stops workers one after the other, and starts another one in the place of each.
func rolling(n int, every time.Duration) func(*world, fleet, time.Duration) (int, time.Duration) {
	return func(w *world, _ fleet, at time.Duration) (least int, last time.Duration) {
		for i := range n {
			x := w.workers[i]
			least += x.owns
			stop := at + time.Duration(i)*every
			if x.java {
				w.at(stop, x.crash) // a KCL 2.x worker stops without saying so, and its leases expire
			} else {
				w.at(stop, x.leave)
			}
			last = stop + w.uniform(time.Second)
			w.add(x.java).start(last)
		}
		return least, last
	}
}

func all(w *world) int { return len(w.rows) }

// share is what so many new workers get, the others having had all.
func share(n int) func(w *world) int {
	return func(w *world) int { return n * (len(w.rows) / len(w.workers)) }
}

// gapsOf are the gaps of all runs at two points, in seconds: 99 of 100 are at most the one, all at most the other.
func gapsOf(rs []result, of func(result) []time.Duration) (p99, longest float64) {
	var all []time.Duration
	for _, r := range rs {
		all = append(all, of(r)...)
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[(len(all)*99+99)/100-1].Seconds(), all[len(all)-1].Seconds()
}

func planned(r result) []time.Duration      { return r.gaps }
func afterCrashes(r result) []time.Duration { return r.crashGaps }

// median and worst of a figure.
func figures(rs []result, of func(result) float64) (median, worst float64) {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = of(r)
	}
	slices.Sort(v)
	return v[len(v)/2], v[len(v)-1]
}
