package shardsync

import (
	"cmp"
	"slices"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// DetermineNewLeases returns the leases that are missing, given all shards that the service lists (closed ones too) and all
// leases of the stream. It is pure. The result is sorted so that older shards come first; none of them is an ancestor of
// another, so they may be created in any order, and a run that finds only some of them determines the rest.
//
// A shard gets no lease now if the end of a shard that has an unfinished lease will bring it: that shard's children, and
// in time their children. What is left starts at from:
//
//   - TRIM_HORIZON and AT_TIMESTAMP: the oldest listed shards of each open shard's lineage;
//   - LATEST: the open shards; and where a merge joins a lineage that has a lease with one that has none, the latter's last
//     shard, although it is closed, since the merge's child waits for both.
//
// No ancestor of a shard that has a lease is ever returned, finished or not: its records were read or left out on purpose,
// and its children, created at its end, would be read from their beginning. Instead the oldest shards start that are no
// such ancestors. A child of a finished lease that has no lease itself (somebody deleted it) starts at TRIM_HORIZON
// whatever from says, since it goes on where the parent was read to.
//
// A lease that starts at LATEST is pinned to the smallest StartAtMillis of the leases in have, one at AT_TIMESTAMP to that
// of from. If there is none, StartAtMillis of the former is 0 and the caller has to pin it.
//
// The error wraps [ErrInconsistent]. (KCL: NonEmptyLeaseTableSynchronizer.determineNewLeasesToCreate)
func DetermineNewLeases(shards []Shard, have []leases.Lease, from config.InitialPosition) ([]leases.Lease, error) {
	g, err := newGraph(shards)
	if err != nil {
		return nil, err
	}
	row, above := g.place(have)
	live := g.live()

	// Leased shards and their ancestors are the upper part of the graph: a parent of either belongs to it too. The rest is
	// free, and so are all descendants of a free shard. In the upper part a shard brings if an unfinished lease in its
	// lineage will reach it; in the lower one if it will exist because of another shard's end (given), or is created (new).
	var (
		brings = make([]bool, len(g.names))
		isNew  = make([]bool, len(g.names))
		start  = startOf(from, have)
		out    []leases.Lease
	)
	for i := len(g.shards); i < len(g.names); i++ {
		brings[i] = row[i] != nil && !row[i].Finished()
	}
	create := func(i int, at position) {
		isNew[i] = true
		brings[i] = true
		out = append(out, newLease(g.shards[i], at))
	}
	for _, i := range g.order {
		switch {
		case row[i] != nil:
			brings[i] = !row[i].Finished()
			continue
		case !above[i] && !live[i]:
			continue // closed and without descendants: the listing is too old to say how its lineage goes on
		}
		var (
			brought  bool          // some parent brings
			finished *leases.Lease // of a parent
			idle     []int         // free parents that nothing brings
		)
		for _, p := range g.parents[i] {
			switch {
			case brings[p]:
				brought = true
			case row[p] != nil:
				finished = row[p]
			case p < len(g.shards) && !above[p]:
				idle = append(idle, p)
			}
		}
		if above[i] {
			brings[i] = brought
			continue
		}
		if brought || finished != nil {
			for _, p := range idle { // only at LATEST: elsewhere every live free shard is brought or created
				create(p, start)
			}
		}
		switch {
		case brought || finished != nil && len(idle) > 0:
			brings[i] = true
		case finished != nil:
			create(i, position{checkpoint.TrimHorizon, finished.StartAtMillis})
		case from.IsLatest() && !g.shards[i].Open():
		default:
			create(i, start)
		}
	}
	slices.SortFunc(out, func(a, b leases.Lease) int { return cmp.Compare(g.index[a.Key], g.index[b.Key]) })
	return out, nil
}

// place finds the leases' nodes: row is nil where there is none, above is set for every ancestor of a leased shard. A lease
// names its parents too, so that a listing that does not show its shard yet leaves no doubt about them.
func (g *graph) place(have []leases.Lease) (row []*leases.Lease, above []bool) {
	row, above = make([]*leases.Lease, len(g.names)), make([]bool, len(g.names))
	var from []int
	for n := range have {
		l := &have[n]
		if i, known := g.index[l.Shard()]; known {
			row[i] = l
			from = append(from, i)
		}
		for _, id := range l.ParentShardIDs {
			if p, known := g.index[id]; known && !above[p] {
				above[p] = true
				from = append(from, p)
			}
		}
	}
	g.mark(above, from)
	return row, above
}

// live tells which listed shards are open or have an open descendant.
func (g *graph) live() []bool {
	live := make([]bool, len(g.names))
	for _, i := range slices.Backward(g.order) {
		live[i] = live[i] || g.shards[i].Open()
		if live[i] {
			for _, p := range g.parents[i] {
				live[p] = true
			}
		}
	}
	return live
}

// position is where a new lease starts.
type position struct {
	at     checkpoint.ExtendedSequenceNumber
	millis int64
}

func startOf(from config.InitialPosition, have []leases.Lease) position {
	if t, ok := from.Timestamp(); ok {
		return position{checkpoint.AtTimestamp, t.UnixMilli()}
	}
	if from.IsLatest() {
		return position{checkpoint.Latest, smallestPin(have)}
	}
	return position{at: checkpoint.TrimHorizon}
}

// smallestPin is the smallest StartAtMillis, 0 if no lease is pinned.
func smallestPin(have []leases.Lease) int64 {
	var least int64
	for _, l := range have {
		if l.StartAtMillis > 0 && (least == 0 || l.StartAtMillis < least) {
			least = l.StartAtMillis
		}
	}
	return least
}

func newLease(s Shard, start position) leases.Lease {
	return leases.Lease{
		Key: s.ID, Checkpoint: start.at, StartAtMillis: start.millis,
		ParentShardIDs: s.ParentIDs(), HashKeyRange: s.HashKeyRange,
	}
}
