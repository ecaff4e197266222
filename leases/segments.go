package leases

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
)

// Scope is a part of the lease table: some segments of a parallel scan, or, if Of is 0, all of it.
type Scope struct {
	Segments []int
	Of       int
}

// Whole reports whether the scope is the whole table.
func (s Scope) Whole() bool { return s.Of == 0 }

// Reader decides what a worker reads next, how much of it, and when. It is a value; each of its methods returns the next one.
//
// If the fleet can read the whole table each LeaseTakerInterval within its ReadBudget, it does. Beyond that, two things
// take the place of most whole looks:
//
//   - A starter, after one look at everything, looks at the lobby, a sixteenth of the table, until no other starters appear.
//     Whoever starts takes its first lease there, so the lobby shows all who start.
//   - Afterwards a worker watches a few segments, so many that it sees some rows of every other worker, and such that each
//     segment has watchers. What it sees there never makes it act, only look at everything: when a row has no owner or its
//     owner looks dead, at once; when a worker is stopping or has appeared, with a delay that lets others act first; and
//     otherwise once in a while, because a sample may deceive.
type Reader struct {
	scope Scope
	units float64   // what a whole look costs; 0 = not known
	whole time.Time // of the last one
	lobby bool      // scope is the lobby
	start bool      // the lobby of this start has been visited
	// leaving is when a worker that is stopping was first seen since the last whole look; zero if none was.
	leaving time.Time
	seen    []*Sighting // what the last look at a part showed
	// shown are the workers of whom the segments watched have shown a row since the last whole look. vanished says that they show
	// none any more of one of those: it has died, or left, and others took its rows before they were seen to stand still.
	shown    map[string]bool
	vanished bool
}

const (
	lobbyOf    = 16
	lobbyUnits = 130 // what a whole look must cost for starters to go into the lobby
	sampleRows = 5   // of every other worker, in what one worker watches
)

// Scope is what to read now.
func (r Reader) Scope() Scope { return r.scope }

// Everything is the Reader of a worker that has a reason to look at the whole table now.
func (r Reader) Everything() Reader {
	r.scope, r.lobby = Scope{}, false
	return r
}

// Look puts what was read of a scope, for so many units, into a view. rows has the worker's own leases in any case.
func (r Reader) Look(v View, scope Scope, rows []Lease, units float64, at time.Time, cfg config.LeaseManagementConfig) (Reader, View) {
	if scope.Whole() {
		r.units, r.whole, r.leaving, r.seen = max(units, 0.5), at, time.Time{}, nil
		r.shown, r.vanished = nil, false
		v = v.Look(rows, at)
		v = v.asSparse(r.overBudget(v, cfg))
	} else {
		v, r.seen = v.asSparse(true).part(rows, at)
		if r.lobby {
			v = v.lookAround()
		} else {
			v.watched = keysOf(rows)
			r = r.sampled(v)
		}
	}
	r.start = r.start && !v.settled
	return r, v
}

// asSparse is the view with that said of it.
func (v View) asSparse(sparse bool) View {
	if v.sparse == sparse {
		return v
	}
	v.sparse = sparse
	if !sparse {
		v.watched = nil
	}
	v.expiry = make([]time.Duration, len(v.rows))
	for i, s := range v.rows {
		v.expiry[i] = v.expiryOf(s)
	}
	return v
}

func keysOf(rows []Lease) map[string]bool {
	keys := make(map[string]bool, len(rows))
	for i := range rows {
		keys[rows[i].Key] = true
	}
	return keys
}

// part is the view after a listing of a part of the table, and what it showed. What it lacks is not forgotten.
func (v View) part(rows []Lease, at time.Time) (View, []*Sighting) {
	v = v.from(at)
	v.rows, v.expiry = slices.Clone(v.rows), slices.Clone(v.expiry)
	made, seen := make([]Sighting, len(rows)), make([]*Sighting, len(rows))
	added := false
	for i := range rows {
		var before *Sighting
		at0, known := v.find(rows[i].Key)
		if known {
			before = v.rows[at0]
		}
		s := v.sight(&made[i], before, &rows[i], at, false)
		if known {
			v.rows[at0], v.expiry[at0] = s, v.expiryOf(s)
		} else {
			added = true
		}
		seen[i] = s
	}
	if added {
		v = v.with(seen)
	}
	return v.At(later(v.now, at)), seen
}

// only is the view with these rows alone.
func (v View) only(seen []*Sighting) View {
	v.rows, v.expiry = nil, nil
	return v.with(seen)
}

// with is the view with the rows added that it lacks.
func (v View) with(seen []*Sighting) View {
	var lacking []*Sighting
	for _, s := range seen {
		if _, known := v.find(s.Lease.Key); !known {
			lacking = append(lacking, s)
		}
	}
	v.rows = append(v.rows, lacking...)
	slices.SortFunc(v.rows, func(a, b *Sighting) int { return strings.Compare(a.Lease.Key, b.Lease.Key) })
	v.expiry = make([]time.Duration, len(v.rows))
	for i, s := range v.rows {
		v.expiry[i] = v.expiryOf(s)
	}
	return v
}

// Plan is [Plan] after a look, as far as what was read allows a decision. wait is when to look again.
func (r Reader) Plan(me string, v View, cfg config.LeaseManagementConfig, by AssignmentStrategy) (next Reader, m Moves, wait time.Duration) {
	p := paceOf(cfg.FailoverTime)
	switch {
	case r.lobby:
		return r.inLobby(me, v, cfg, by)
	case !r.scope.Whole() && r.misses(v) && len(r.scope.Segments) < min(2*v.share(), r.scope.Of):
		last := r.scope.Segments[len(r.scope.Segments)-1]
		r.scope.Segments = append(slices.Clone(r.scope.Segments), (last+1)%r.scope.Of)
		return r, Moves{}, p.fast / 5
	case !r.scope.Whole():
		at := r.due(v, cfg)
		if at.After(v.now) {
			return r, Moves{}, min(r.watchEvery(v, cfg), max(p.fast/5, at.Sub(v.now)))
		}
		return r.Everything(), Moves{}, 0
	case !v.settled && !r.start && r.units > lobbyUnits:
		r.scope, r.lobby, r.start = Scope{Segments: []int{0}, Of: lobbyOf}, true, true
		return r, Moves{}, 0
	}
	m = Plan(me, v, cfg, by)
	usual := r.interval(m.Workers, cfg)
	if r.watched(me, v, cfg).Whole() {
		if m.Again > 0 {
			usual = min(usual, m.Again)
		}
		return r, m, usual
	}
	switch wait, upset := r.unrest(me, v, cfg); {
	case upset:
		return r, m, wait
	case m.Held < m.Target || m.Again > 0 && (!v.settled || len(m.Ask) > 0):
		// A worker that lacks something goes on looking, whatever it waits for: a sample does not show what it lacks.
		if m.Again > 0 {
			usual = min(cfg.LeaseTakerInterval, m.Again)
		}
		return r, m, max(p.slow, min(usual, cfg.LeaseTakerInterval))
	}
	r.scope = r.watched(me, v, cfg)
	return r, m, r.watchEvery(v, cfg)
}

// inLobby is Plan for a starter at a large table.
func (r Reader) inLobby(me string, v View, cfg config.LeaseManagementConfig, by AssignmentStrategy) (Reader, Moves, time.Duration) {
	p := paceOf(cfg.FailoverTime)
	if v.settled {
		return r.Everything(), Moves{}, 0
	}
	if v.shows(me) {
		return r, Moves{}, min(p.slow, max(p.fast/5, v.grew.Add(2*p.slow).Sub(v.now)))
	}
	m := Plan(me, v.only(r.seen), cfg, by)
	if len(m.Take)+len(m.Ask) == 0 { // nothing to be had here
		return r.Everything(), m, 0
	}
	return r, m, p.fast
}

// interval is the usual time between two whole looks: longer if the fleet would read more than its budget, up to a little
// more than twice the failover time, which is how often a Java worker looks.
func (r Reader) interval(workers int, cfg config.LeaseManagementConfig) time.Duration {
	least := time.Duration(0)
	if budget := float64(cfg.ReadBudget); budget > 0 {
		least = time.Duration(float64(workers) * r.units / budget * float64(time.Second))
	}
	return max(cfg.LeaseTakerInterval, min(least, 22*cfg.FailoverTime/10))
}

// overBudget reports whether the fleet would read too much if each worker read the whole table each LeaseTakerInterval.
func (r Reader) overBudget(v View, cfg config.LeaseManagementConfig) bool {
	return float64(len(v.live))*r.units > float64(cfg.ReadBudget)*cfg.LeaseTakerInterval.Seconds()
}

// watched is the scope of a worker while all is calm: everything, unless that is over the budget.
func (r Reader) watched(me string, v View, cfg config.LeaseManagementConfig) Scope {
	ring := v.ring()
	n, k := len(ring), v.share()
	rank := slices.Index(ring, me)
	if !r.overBudget(v, cfg) || n < 2 || k >= n || rank < 0 {
		return Scope{}
	}
	s := Scope{Of: n}
	for i := range k {
		s.Segments = append(s.Segments, (rank+i)%n)
	}
	return s
}

// sampled notes whose rows the last look at the segments watched has shown.
func (r Reader) sampled(v View) Reader {
	now, before := map[string]bool{v.me: true}, r.shown
	for _, row := range r.seen {
		now[row.Lease.ActualOwner()], now[row.Lease.Owner] = true, true
	}
	r.vanished = slices.ContainsFunc(v.live, func(w string) bool { return before[w] && !now[w] })
	maps.Copy(now, before)
	r.shown = now
	return r
}

// misses reports whether the sample has shown no row of some live worker. Its death would go unnoticed here, and this worker
// would stay below its share: of a hundred samples of five rows of each worker on average, every second lacks a worker.
func (r Reader) misses(v View) bool {
	return slices.ContainsFunc(v.live, func(w string) bool { return !r.shown[w] })
}

// ring is the live Go workers, as of the last whole look, in an order of their own.
func (v View) ring() []string {
	ours := map[string]bool{v.me: true}
	for _, row := range v.rows {
		if row.Lease.TenureSpeaks() {
			ours[row.Lease.Tenure.Worker] = true
		}
	}
	var ring []string
	for _, w := range v.live {
		if ours[w] {
			ring = append(ring, w)
		}
	}
	slices.SortFunc(ring, func(a, b string) int {
		if x, y := hashOf(a), hashOf(b); x != y {
			return compareBool(x > y, x < y)
		}
		return strings.Compare(a, b)
	})
	return ring
}

// share is how many segments one worker watches, of as many as there are workers: so many that it sees some rows of every
// other, and that each segment is watched by two, if there are more than three.
func (v View) share() int {
	n := len(v.live)
	least := 2
	if n <= 3 {
		least = 1
	}
	return max(least, int(math.Ceil(float64(sampleRows*n*n)/float64(max(1, len(v.rows))))))
}

// watchedPart is how much of the table one worker watches.
func (v View) watchedPart() float64 { return float64(v.share()) / float64(max(1, len(v.live))) }

// watchEvery is the time between two looks at what is watched: a quarter of the failover time, or longer if that would
// cost more than eight tenths of a whole look in twice the failover time.
func (r Reader) watchEvery(v View, cfg config.LeaseManagementConfig) time.Duration {
	longest := time.Duration(v.watchedPart() * 2 / 0.8 * float64(cfg.FailoverTime))
	return max(cfg.FailoverTime/4, min(cfg.LeaseTakerInterval, longest))
}

// calmEvery is the time between two whole looks while nothing seems to happen: six failover times, or longer, up to sixty, if
// together with what is watched they would cost more than nine tenths of what a KCL 2.x worker reads: the whole table in twice the
// failover time.
func (r Reader) calmEvery(v View, cfg config.LeaseManagementConfig) time.Duration {
	d := cfg.FailoverTime.Seconds()
	left := 0.9/(2*d) - v.watchedPart()/r.watchEvery(v, cfg).Seconds() // of a whole look, a second
	every := 60 * d
	if left > 1/every {
		every = max(6*d, 1/left)
	}
	return time.Duration(every * float64(time.Second))
}

// due is when, by what was just read of the segments watched, the whole table is to be looked at.
func (r *Reader) due(v View, cfg config.LeaseManagementConfig) time.Time {
	d := cfg.FailoverTime
	at := r.whole.Add(r.calmEvery(v, cfg))
	if len(v.leaving) > 0 { // when it is gone, shares are others
		at = r.whole.Add(3 * d / 2)
	}
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if r.vanished {
		sooner(r.whole.Add(d / 5))
	}
	for _, row := range r.seen {
		l := row.Lease
		if l.Finished() {
			continue
		}
		owner := l.ActualOwner()
		switch _, known := slices.BinarySearch(v.live, owner); {
		case row.Knowledge == Free:
			sooner(r.whole.Add(d / 5))
		case owner == v.me || l.Owner == v.me:
		case row.Knowledge == Stale || row.Read.Sub(row.Since) >= suspicion(row.failover(v.failover)):
			sooner(r.whole.Add(d / 5))
		case l.TenureSpeaks() && l.Tenure.Leaving && !l.MarkIsLive():
			if r.leaving.IsZero() {
				r.leaving = v.now
			}
			sooner(later(r.leaving.Add(ripe(d)), r.whole.Add(3*d/2)))
		case !known:
			sooner(r.whole.Add(3 * d))
		}
	}
	return at
}

// unrest reports whether something is going on that only whole looks show, and when to take the next one.
func (r Reader) unrest(me string, v View, cfg config.LeaseManagementConfig) (wait time.Duration, upset bool) {
	s := v.survey()
	wait = cfg.LeaseTakerInterval
	unconfirmed, expires := false, time.Time{}
	for _, row := range v.rows {
		l := row.Lease
		owner := l.ActualOwner()
		switch {
		case l.Finished() || owner == me || l.Owner == me:
		case row.Knowledge == Free || row.Knowledge == Stale:
			upset = true
		case s.suspect[owner]:
			upset = true
			unconfirmed = unconfirmed || !row.confirmed(v.failover)
			expires = later(expires, row.expires(v.failover))
		}
	}
	switch {
	// A second look starts the time of the rows that the first one showed. If it came too soon, also because looks are spread
	// over up to a tenth, it would show a dead owner of whom nothing is known to stand still: one that seems to live.
	case unconfirmed:
		wait = (suspicion(v.failover) + suspicion(v.failover)/50) * 10 / 9
	case expires.After(v.now):
		wait = max(wait, expires.Sub(v.now)+cfg.FailoverTime/10)
	}
	return wait, upset
}

// confirmed reports whether the row has been read again, unchanged, after its owner should have renewed it. Until then
// nothing is known of its owner, however long ago the row was read.
func (s *Sighting) confirmed(own time.Duration) bool {
	return s.Read.Sub(s.Since) >= suspicion(s.failover(own))
}
