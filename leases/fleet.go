package leases

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
)

// survey is what the rows of a view tell about the workers.
type survey struct {
	suspect map[string]bool // looks dead: a row of it stood still, and no row of it is known to have moved later
	leaving map[string]bool // said that it is stopping, and a replacement has had time to appear
	live    map[string]bool // holds a row that is not stale and is neither of the above; this worker always
}

// ripe is for how long a worker that is stopping counts as live all the same: its replacement may be about to show itself,
// and whoever asked at once would give it its share back.
func ripe(failover time.Duration) time.Duration { return failover / 4 }

// saysLeaving are the workers whose last write of some row says that they are stopping.
func (v View) saysLeaving() map[string]bool {
	says := map[string]bool{}
	for _, row := range v.rows {
		if l := row.Lease; row.Knowledge == Fresh && l.TenureSpeaks() && l.Tenure.Leaving && l.Tenure.Worker == l.ActualOwner() && l.Tenure.Worker != v.me {
			says[l.Tenure.Worker] = true
		}
	}
	return says
}

// GoPeers is how many other Go workers, not about to stop, this worker can see: those that may ask for its leases. One that holds
// nothing is in nobody's view.
func (v View) GoPeers() int {
	s, leaving, peers := v.survey(), v.saysLeaving(), map[string]bool{}
	for _, row := range v.rows {
		l := row.Lease
		if !l.TenureSpeaks() {
			continue
		}
		// The one that asked for a row is there too, but its tenure is not on it.
		for _, w := range []string{l.Tenure.Worker, l.HandoffTo} {
			if w != v.me && s.live[w] && !leaving[w] {
				peers[w] = true
			}
		}
	}
	return len(peers)
}

// Sparse reports whether this worker's looks may show a row more seldom than its failover time passes, because the fleet is at its
// ReadBudget.
func (v View) Sparse() bool { return v.sparse }

// JavaInSight reports whether Java workers take part, as far as this worker can see: whether a row has an owner that no Go worker
// has written. A leader of KCL 3.x that assigns a lease of ours leaves such a row before anything else.
func (v View) JavaInSight() bool {
	return slices.ContainsFunc(v.rows, func(s *Sighting) bool {
		l := s.Lease
		return l.Owner != "" && (!l.TenureSpeaks() || l.Owner != l.Tenure.Worker && l.Owner != l.HandoffTo)
	})
}

// suspicion is how long a row must have been seen unchanged for its owner to look dead before the row is stale: a renewal
// interval, which is at most a third of the failover time, and a tenth of it for a late one.
func suspicion(failover time.Duration) time.Duration { return failover/3 + failover/10 }

// survey looks at the workers. An owner that looks dead counts as gone before the last of its rows is stale: otherwise
// the others would count it as one that deserves a share, be full without its leases, and leave the first of them lying.
func (v View) survey() survey {
	s := survey{suspect: map[string]bool{}, leaving: map[string]bool{}, live: map[string]bool{v.me: true}}
	stood, alive := map[string]time.Time{}, map[string]time.Time{}
	for _, row := range v.rows {
		owner := row.Lease.ActualOwner()
		if owner == "" || owner == v.me {
			continue
		}
		if row.Before.After(alive[owner]) {
			alive[owner] = row.Before
		}
		still := row.Knowledge == Stale || row.Read.Sub(row.Since) >= suspicion(row.failover(v.failover))
		if since, ok := stood[owner]; still && (!ok || row.Since.After(since)) {
			stood[owner] = row.Since
		}
	}
	holds := v.shows(v.me) // if not, this worker may be the replacement
	for owner, since := range v.leaving {
		s.leaving[owner] = !holds || v.now.Sub(since) >= ripe(v.failover)
	}
	for owner, since := range stood {
		s.suspect[owner] = !alive[owner].After(since)
	}
	for _, row := range v.rows {
		if row.Knowledge != Fresh {
			continue
		}
		for _, w := range []string{row.Lease.ActualOwner(), row.Lease.Owner} { // an asker is present too
			if !s.suspect[w] && !s.leaving[w] {
				s.live[w] = true
			}
		}
	}
	return s
}

// liveWorkers are the workers that count, sorted.
func (v View) liveWorkers() []string {
	return slices.Sorted(maps.Keys(v.survey().live))
}

// fleet is the view as a strategy sees it, and for each of its leases the sighting that it was made of.
func (v View) fleet(s survey, cfg config.LeaseManagementConfig) (Fleet, []*Sighting) {
	var f Fleet
	for _, id := range slices.Sorted(maps.Keys(s.live)) {
		f.Workers = append(f.Workers, FleetWorker{ID: id})
	}
	index := make(map[string]int, len(f.Workers))
	for i, w := range f.Workers {
		index[w.ID] = i
	}
	last, lastAt := "", -1 // mostly one row's names are all the same
	at := func(id string) int {
		if id != last {
			i, ok := index[id]
			if !ok {
				i = -1
			}
			last, lastAt = id, i
		}
		return lastAt
	}
	f.Leases = make([]FleetLease, 0, len(v.rows))
	sightings := make([]*Sighting, 0, len(v.rows))
	for _, row := range v.rows {
		l := row.Lease
		if l.TenureSpeaks() {
			if w := at(l.Tenure.Worker); w >= 0 {
				f.Workers[w].Go = true
				f.Workers[w].Max = l.Tenure.Max
				f.Workers[w].Zone = l.Tenure.Zone
			}
			// Whoever asks is a Go worker, and may have no row with its tenure yet.
			if w := at(l.Owner); w >= 0 && l.HandoffTo == l.Owner {
				f.Workers[w].Go = true
			}
		}
		if row.Lease.Finished() {
			continue
		}
		claim := FleetLease{Lease: *l, Holder: -1, Former: -1, Near: -1}
		state := l.State()
		claim.Java = !l.TenureSpeaks() && l.Owner != ""
		switch {
		case row.Knowledge == Free:
			claim.Unread = true
		case row.Knowledge == Stale:
			claim.Unread = true
			if l.ActualOwner() != v.me {
				if claim.Former = at(l.ActualOwner()); claim.Former >= 0 {
					f.Workers[claim.Former].Failing = true
				}
			}
		case state == RowHandingOver || state == RowInTransit:
			claim.Holder, claim.Fixed = at(l.Owner), true // the one it goes to
		case s.suspect[l.ActualOwner()]:
			claim.Unread = true
		case s.leaving[l.ActualOwner()]:
			claim.Leaving = true
		default:
			claim.Holder = at(l.ActualOwner())
		}
		for _, parent := range l.ParentShardIDs {
			if claim.Holder < 0 && claim.Near < 0 {
				claim.Near = at(v.ownerOf(parent, *l))
			}
		}
		f.Leases = append(f.Leases, claim)
		sightings = append(sightings, row)
	}
	me := at(v.me)
	f.Workers[me] = FleetWorker{ID: v.me, Max: cfg.MaxLeasesForWorker, Zone: cfg.Zone, Go: true}
	return f, sightings
}

// ownerOf is who keeps the lease of a child's parent; empty if nobody does.
func (v View) ownerOf(parent string, child Lease) string {
	// In multi-stream mode a key is the stream's identifier and the shard's id.
	key := strings.TrimSuffix(child.Key, child.Shard()) + parent
	if i, ok := v.find(key); ok && v.rows[i].Knowledge == Fresh {
		return v.rows[i].Lease.ActualOwner()
	}
	return ""
}
