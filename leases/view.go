package leases

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
)

// Knowledge is what one worker knows of one row: whether somebody keeps renewing it. docs/lease-lifecycle.md draws it;
// [nextKnowledge] is the drawing as a function.
type Knowledge int

// What a worker may know of a row.
const (
	Unseen Knowledge = iota // never read, or gone
	Free                    // nobody owns it
	Fresh                   // owned, and its counter has not stood still for its failover time in our eyes
	Stale                   // owned, and its counter has: it may be taken
)

var knowledgeNames = [...]string{"unseen", "free", "fresh", "stale"}

func (k Knowledge) String() string { return knowledgeNames[k] }

// sight is what can happen to a worker's knowledge of a row.
type sight int

const (
	sawFree  sight = iota // read it without an owner
	sawMoved              // read it owned, with a counter not seen before
	sawSame               // read it owned, with the counter known
	expired               // its failover time has passed on our clock since the counter was first seen
	sawGone               // a whole listing lacks it
)

var sightNames = [...]string{"read without owner", "read moved", "read unchanged", "failover time passed", "gone"}

func (s sight) String() string { return sightNames[s] }

// nextKnowledge is what a worker knows after s. An owned row seen for the first time is never stale, whatever its
// counter: its owner may have renewed it a moment ago.
func nextKnowledge(k Knowledge, s sight) Knowledge {
	switch s {
	case sawFree:
		return Free
	case sawMoved:
		return Fresh
	case sawSame:
		if k == Stale {
			return Stale
		}
		return Fresh
	case expired:
		if k == Fresh {
			return Stale
		}
		return k
	case sawGone:
		return Unseen
	}
	return k
}

// Sighting is one row in a [View]. It is a value that nothing changes.
type Sighting struct {
	Lease     *Lease // shared with the listing that showed it: not to be changed; never nil
	Knowledge Knowledge
	Since     time.Time // when this worker first saw this counter; on its own clock, as all times here
	Read      time.Time // when it last read the row and did not find it changed by then
	// Before is a time at which the present owner was alive for certain: the last reading before one that showed the
	// counter moved under the same owner. Zero if that was never seen.
	Before time.Time
}

// Expires is when the row counts as stale if its counter stays: Since plus the larger of our own failover time and the one
// that the owner's tenure wrote. Zero for a row that nobody owns.
func (s *Sighting) expires(own time.Duration) time.Time {
	if s.Lease.Owner == "" {
		return time.Time{}
	}
	return s.Since.Add(s.failover(own))
}

// failover is how long the row is respected: an owner that was promised more than we would grant keeps its promise.
func (s *Sighting) failover(own time.Duration) time.Duration {
	if s.Lease.TenureSpeaks() {
		return max(own, s.Lease.Tenure.Failover)
	}
	return own
}

// A View is what one worker knows of the lease table as of one moment of its own clock. It is a value: its methods return
// another View and leave the receiver as it was, so that it can be read from several goroutines.
//
// Only our own clock counts. A row is stale when this worker has seen its counter unchanged for the failover time; nothing
// that another machine wrote is compared with it.
type View struct {
	me       string
	failover time.Duration
	rows     []*Sighting // by key
	// expiry is of each row what expiryOf tells: side by side, because it is looked through far more often than the rows.
	expiry []time.Duration
	base   time.Time // what those count from: the first reading
	// sparse says that rows are read more seldom than their failover times pass: then a row becomes stale only once it has been
	// read again and had not moved. Otherwise all the rows would, time and again, and each be read by itself.
	sparse bool
	now    time.Time

	// How the fleet has been appearing, for the slow start of Plan.
	started time.Time // of the first whole look since this worker holds nothing
	grew    time.Time // when a look last showed more than a few workers that the one before had not
	live    []string  // of the last whole look, sorted
	// appeared is when a whole look first showed each of those; zero for those of the first one, which may have been there before us.
	appeared map[string]time.Time
	settled  bool // starters have stopped appearing, once

	// watched are the keys of the rows in the segments that this worker watches, nil if it watches none.
	watched map[string]bool

	leaving map[string]time.Time // when a look first showed that a worker is stopping
}

// NewView is the view of a worker that has seen nothing.
func NewView(me string, cfg config.LeaseManagementConfig) View {
	return View{me: me, failover: cfg.FailoverTime}
}

// Now is the moment as of which the view holds.
func (v View) Now() time.Time { return v.now }

// Len is the number of rows known.
func (v View) Len() int { return len(v.rows) }

// All returns every row known, sorted by key.
func (v View) All() []Sighting {
	all := make([]Sighting, len(v.rows))
	for i, s := range v.rows {
		all[i] = *s
	}
	return all
}

// Get returns what is known of one row; its Knowledge is Unseen if nothing is.
func (v View) Get(key string) Sighting {
	if i, ok := v.find(key); ok {
		return *v.rows[i]
	}
	return Sighting{Lease: &Lease{}}
}

// Expires is when the row of that key counts as stale if its counter does not move; zero if nobody owns it.
func (v View) Expires(key string) time.Time {
	s := v.Get(key)
	return s.expires(v.failover)
}

// NextExpiry is the earliest time at which a row owned by another worker becomes stale if nothing moves.
func (v View) NextExpiry() (at time.Time, ok bool) {
	best := never
	for i, e := range v.expiry {
		if e < best && v.rows[i].Lease.ActualOwner() != v.me {
			best = e
		}
	}
	return v.base.Add(best), best < never
}

// never is the expiry of a row that will not become stale by the passing of time.
const never = time.Duration(math.MaxInt64)

// from gives the view its base, with the first reading.
func (v View) from(at time.Time) View {
	if v.base.IsZero() {
		v.base = at
	}
	return v
}

// expiryOf is when a row that is known so becomes stale, after base, or never. It is no time of day, which may be set.
func (v View) expiryOf(s *Sighting) time.Duration {
	if s.Knowledge != Fresh || v.sparse && !s.confirmed(v.failover) {
		return never
	}
	return s.expires(v.failover).Sub(v.base)
}

// At is the view as of a later moment, without anything read since: rows whose failover time has passed are stale.
func (v View) At(now time.Time) View {
	if now.Before(v.now) {
		return v
	}
	v.now = now
	copied, since := false, now.Sub(v.base)
	for i, e := range v.expiry {
		if e > since {
			continue
		}
		if !copied {
			v.rows, v.expiry, copied = slices.Clone(v.rows), slices.Clone(v.expiry), true
		}
		aged := *v.rows[i]
		aged.Knowledge = nextKnowledge(aged.Knowledge, expired)
		v.rows[i], v.expiry[i] = &aged, never
	}
	return v
}

// Look is the view after a listing of the whole table that had arrived by at. Rows that it lacks are forgotten. The view keeps rows,
// which must not be changed afterwards.
//
// A listing may be eventually consistent. A counter smaller than one seen before is an old replica's and changes nothing: if
// it did, replicas that disagree would start a dead owner's time again and again. If it persists for a failover time, the
// row was deleted and made anew.
func (v View) Look(rows []Lease, at time.Time) View {
	sorted := make([]*Lease, len(rows))
	for i := range rows {
		sorted[i] = &rows[i]
	}
	slices.SortFunc(sorted, func(a, b *Lease) int { return strings.Compare(a.Key, b.Key) })
	next, expiry := make([]*Sighting, len(sorted)), make([]time.Duration, len(sorted))
	made := make([]Sighting, len(sorted))
	v = v.from(at)
	old := v.rows
	for i, l := range sorted {
		for len(old) > 0 && old[0].Lease.Key < l.Key {
			old = old[1:]
		}
		var before *Sighting
		if len(old) > 0 && old[0].Lease.Key == l.Key {
			before = old[0]
		}
		next[i] = v.sight(&made[i], before, l, at, false)
		expiry[i] = v.expiryOf(next[i])
	}
	v.rows, v.expiry = next, expiry
	return v.At(later(v.now, at)).lookAround()
}

// Own is the view with the leases that this worker holds as it last wrote them: what it knows of its own rows is newer than
// any reading.
func (v View) Own(held []Lease, at time.Time) View {
	if len(held) == 0 {
		return v.At(at)
	}
	v.rows, v.expiry = slices.Clone(v.rows), slices.Clone(v.expiry)
	for n := range held {
		l := &held[n]
		if i, ok := v.find(l.Key); ok && l.Counter >= v.rows[i].Lease.Counter {
			v.rows[i] = v.sight(new(Sighting), v.rows[i], l, at, true)
			v.expiry[i] = v.expiryOf(v.rows[i])
		}
	}
	return v.At(at)
}

// Row is the view after one strongly consistent reading of one row, or one write of our own, answered by at.
func (v View) Row(l Lease, at time.Time) View {
	i, ok := v.find(l.Key)
	var before *Sighting
	if ok {
		before = v.rows[i]
	}
	v = v.from(at)
	s := v.sight(new(Sighting), before, &l, at, true)
	v.rows, v.expiry = slices.Clone(v.rows), slices.Clone(v.expiry)
	if !ok {
		v.rows, v.expiry = slices.Insert(v.rows, i, s), slices.Insert(v.expiry, i, never)
	}
	v.rows[i], v.expiry[i] = s, v.expiryOf(s)
	return v.At(later(v.now, at))
}

// Gone is the view after a strongly consistent reading that found no row of that key.
func (v View) Gone(key string) View {
	if i, ok := v.find(key); ok {
		v.rows = slices.Delete(slices.Clone(v.rows), i, i+1)
		v.expiry = slices.Delete(slices.Clone(v.expiry), i, i+1)
	}
	return v
}

func (v View) find(key string) (int, bool) {
	return slices.BinarySearchFunc(v.rows, key, func(s *Sighting, key string) int { return strings.Compare(s.Lease.Key, key) })
}

// sight is what a reading tells of a row: next, filled in, or old if the reading changes nothing. exact says that the reading
// cannot be older than anything seen before.
func (v View) sight(next, old *Sighting, l *Lease, at time.Time, exact bool) *Sighting {
	switch {
	case old == nil:
		*next = Sighting{Lease: l, Knowledge: nextKnowledge(Unseen, sightOf(l, true)), Since: at, Read: at}
		return next
	case l.Counter < old.Lease.Counter && !exact && at.Sub(old.Read) <= old.failover(v.failover):
		return old
	case at.Before(old.Read) && l.Counter == old.Lease.Counter:
		return old
	}
	moved := l.Counter != old.Lease.Counter || old.Lease.Owner == "" // an owner that came without a counter is new to us
	*next = Sighting{Lease: l, Knowledge: nextKnowledge(old.Knowledge, sightOf(l, moved)), Since: at, Read: at}
	sameOwner := l.ActualOwner() == old.Lease.ActualOwner()
	if l.Counter == old.Lease.Counter && (l.Owner == "") == (old.Lease.Owner == "") {
		next.Since = old.Since
	}
	switch {
	case sameOwner && l.Counter > old.Lease.Counter:
		next.Before = old.Read
	case sameOwner:
		next.Before = old.Before
	}
	return next
}

func sightOf(l *Lease, moved bool) sight {
	switch {
	case l.Owner == "":
		return sawFree
	case moved:
		return sawMoved
	}
	return sawSame
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// quietShare is how much of the live fleet may be new in a look without the fleet counting as still starting: in a rolling
// restart of a hundred workers one new at a time is no reason to wait.
const quietShare = 0.02

// lookAround notes, after a whole look, whether other workers are still appearing.
func (v View) lookAround() View {
	holds := v.shows(v.me)
	if !holds || v.started.IsZero() { // a starter, or one that lost everything and is like one
		if v.started.IsZero() || v.settled {
			v.started, v.grew = v.now, v.now
		}
		v.settled = false
	}
	live := v.liveWorkers()
	fresh := 0
	appeared := make(map[string]time.Time, len(live))
	for _, w := range live {
		_, known := slices.BinarySearch(v.live, w)
		if !known && w != v.me {
			fresh++
		}
		switch {
		case known:
			appeared[w] = v.appeared[w]
		case v.live != nil:
			appeared[w] = v.now
		}
	}
	if v.live != nil && float64(fresh) > quietShare*float64(len(live)) {
		v.grew = v.now
	}
	v.live, v.appeared = live, appeared
	leaving := map[string]time.Time{}
	for w := range v.saysLeaving() {
		leaving[w] = v.now
		if since, ok := v.leaving[w]; ok {
			leaving[w] = since
		}
	}
	v.leaving = leaving
	quiet, since := v.now.Sub(v.grew), v.now.Sub(v.started)
	v.settled = v.settled || holds && (quiet >= 2*v.failover/5 || since >= v.failover)
	return v
}
