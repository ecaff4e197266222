package leases

import (
	"cmp"
	"slices"
)

// Average cuts the ring of hash keys, stream by stream, into one contiguous piece for each worker, as equal in number of
// shards as their limits allow: 4 shards on 3 workers are 2, 1 and 1. The workers stand in the order of their ids.
//
// Choose it when neighbouring hash keys belong together, so that one process should see them: keys that sort by customer or
// place, joins of neighbours. The price: when a worker comes or goes, or a shard splits, the cuts between all the pieces
// shift, and far more leases move than under [LeaseCount].
//
// Leases that a Java worker holds stay with it; the others are cut as if those were not there.
// (KCL: none)
type Average struct{}

// Assign implements [AssignmentStrategy].
func (Average) Assign(f Fleet) []int {
	s := newSharing(f)
	slices.SortFunc(s.open, func(a, b int) int {
		x, y := f.Leases[a].Lease, f.Leases[b].Lease
		byRange := 0
		if x.HashKeyRange.Known && y.HashKeyRange.Known {
			byRange = x.HashKeyRange.Start.Compare(y.HashKeyRange.Start)
		}
		return cmp.Or(
			cmp.Compare(x.StreamName, y.StreamName),
			-compareBool(x.HashKeyRange.Known, y.HashKeyRange.Known),
			byRange,
			cmp.Compare(x.Key, y.Key),
		)
	})
	left := s.open
	for at, n := range s.cuts(len(s.open)) {
		for _, i := range left[:n] {
			s.give(i, s.receivers[at])
		}
		left = left[n:]
	}
	return s.target
}

// cuts is how many leases each receiver gets: all the same number or their limit, the first ones one more.
func (s *sharing) cuts(n int) []int {
	size := make([]int, len(s.receivers))
	for left := n; left > 0; {
		// One round gives everybody below its limit an equal part of what is left, at least the first of them one.
		var open []int
		for at, w := range s.receivers {
			if limit := s.fleet.Workers[w].Max; limit == 0 || size[at] < limit {
				open = append(open, at)
			}
		}
		if len(open) == 0 {
			break
		}
		part, more := left/len(open), left%len(open)
		for i, at := range open {
			give := part
			if part == 0 && i < more {
				give = 1
			}
			if limit := s.fleet.Workers[s.receivers[at]].Max; limit > 0 {
				give = min(give, limit-size[at])
			}
			size[at] += give
			left -= give
		}
	}
	return size
}
