package shardsync

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardlease/shardlease/checkpoint"
)

// Open reports whether the shard takes records: it has no ending sequence number.
func (s Shard) Open() bool { return s.EndingSequenceNumber == "" }

// ParentIDs are the ids of the shards that this one follows, sorted: two after a merge, one after a split.
func (s Shard) ParentIDs() []string {
	switch p, a := s.ParentID, s.AdjacentParentID; {
	case p == "" && a == "":
		return nil
	case a == "" || a == p:
		return []string{p}
	case p == "":
		return []string{a}
	case a < p:
		return []string{a, p}
	default:
		return []string{p, a}
	}
}

// compareAge orders shards such that ancestors come first: by starting sequence number, which is a number, then by id.
func compareAge(a, b Shard) int {
	return cmp.Or(
		checkpoint.ExtendedSequenceNumber{SequenceNumber: a.StartingSequenceNumber}.Compare(
			checkpoint.ExtendedSequenceNumber{SequenceNumber: b.StartingSequenceNumber}),
		cmp.Compare(a.ID, b.ID))
}

// graph is a listing of shards with its edges. Nodes are numbers: an index into shards, or, from len(shards) on, a shard
// that a listed one names as its parent and that is not listed any more.
type graph struct {
	shards  []Shard
	index   map[string]int
	parents [][]int // of listed shards
	names   []string
	order   []int // listed shards, parents first
}

// newGraph refuses a listing that contradicts itself: a shard listed twice, a shard that is its own ancestor, an open
// shard that has a child. The error wraps [ErrInconsistent].
func newGraph(shards []Shard) (*graph, error) {
	g := &graph{
		shards:  slices.SortedFunc(slices.Values(shards), compareAge),
		index:   make(map[string]int, len(shards)),
		parents: make([][]int, len(shards)),
		names:   make([]string, len(shards)),
	}
	for i, s := range g.shards {
		if _, twice := g.index[s.ID]; twice {
			return nil, fmt.Errorf("%w: shard %s is listed twice", ErrInconsistent, s.ID)
		}
		g.index[s.ID], g.names[i] = i, s.ID
	}
	for i, s := range g.shards {
		for _, id := range s.ParentIDs() {
			p, known := g.index[id]
			switch {
			case !known:
				p = len(g.names)
				g.index[id], g.names = p, append(g.names, id)
			case p < len(g.shards) && g.shards[p].Open():
				return nil, fmt.Errorf("%w: shard %s is open and has child %s", ErrInconsistent, id, s.ID)
			}
			g.parents[i] = append(g.parents[i], p)
		}
	}
	return g, g.sort()
}

// sort fills order. Age already is such an order for a real stream; this one holds for any listing.
func (g *graph) sort() error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(g.names))
	var visit func(i int) error
	visit = func(i int) error {
		switch {
		case i >= len(g.shards) || state[i] == done:
			return nil
		case state[i] == open:
			return fmt.Errorf("%w: shard %s is its own ancestor", ErrInconsistent, g.names[i])
		}
		state[i] = open
		for _, p := range g.parents[i] {
			if err := visit(p); err != nil {
				return err
			}
		}
		state[i] = done
		g.order = append(g.order, i)
		return nil
	}
	for i := range g.shards {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}

// mark sets set for every ancestor of the nodes in from (not for those themselves, unless they are ancestors of others).
func (g *graph) mark(set []bool, from []int) {
	for len(from) > 0 {
		i := from[len(from)-1]
		from = from[:len(from)-1]
		if i >= len(g.shards) {
			continue
		}
		for _, p := range g.parents[i] {
			if !set[p] {
				set[p] = true
				from = append(from, p)
			}
		}
	}
}
