package cleanup

import (
	"slices"

	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// Shard is one shard as the service lists it.
type Shard struct {
	ID           string
	ParentIDs    []string
	HashKeyRange hashkey.Range
}

// lineage tells which shards follow a shard: by its id.
type lineage map[string][]Shard

func newLineage(shards []Shard) lineage {
	g := lineage{}
	for _, s := range shards {
		for _, id := range s.ParentIDs {
			g[id] = append(g[id], s)
		}
	}
	return g
}

// children returns the ids of the children of a shard with these hash keys, none unless they are all there. A split gives two
// children, and for a while only one of them may be seen; together they cover what the parent did.
func (g lineage) children(id string, keys hashkey.Range) (ids []string) {
	var ranges []hashkey.Range
	for _, s := range g[id] {
		ids = append(ids, s.ID)
		ranges = append(ranges, s.HashKeyRange)
	}
	if !union(ranges).cover(keys) {
		return nil
	}
	return ids
}

// shardsOf is what rows tell about shards.
func shardsOf(rows []leases.Lease) []Shard {
	shards := make([]Shard, 0, len(rows))
	for _, l := range rows {
		shards = append(shards, Shard{ID: l.Shard(), ParentIDs: l.ParentShardIDs, HashKeyRange: l.HashKeyRange})
	}
	return shards
}

// openKeys are the hash keys that unfinished leases cover.
func openKeys(rows []leases.Lease) spans {
	var ranges []hashkey.Range
	for _, l := range rows {
		if !l.Finished() {
			ranges = append(ranges, l.HashKeyRange)
		}
	}
	return union(ranges)
}

// spans is a set of hash keys as ranges in their order, between any two of which there is a gap.
type spans []hashkey.Range

// union joins ranges, which are reordered; those that are not known are left out.
func union(ranges []hashkey.Range) spans {
	slices.SortFunc(ranges, hashkey.Range.Compare)
	var s spans
	for _, r := range ranges {
		if !r.Known {
			continue
		}
		if n := len(s); n > 0 && (s[n-1].Overlaps(r) || s[n-1].Adjacent(r)) {
			if r.End.Compare(s[n-1].End) > 0 {
				s[n-1].End = r.End
			}
			continue
		}
		s = append(s, r)
	}
	return s
}

// cover reports whether all keys of r are in s. A range that is not known may be any, so that only the whole ring covers it.
func (s spans) cover(r hashkey.Range) bool {
	if !r.Known {
		r = hashkey.Full()
	}
	return slices.ContainsFunc(s, func(have hashkey.Range) bool { return have.Contains(r.Start) && have.Contains(r.End) })
}
