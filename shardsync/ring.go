package shardsync

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// FindHole looks for a part of the ring of hash keys that no unfinished lease covers. around holds the ranges before and
// after the first hole, so that two audits can tell whether they saw the same one; at an end of the ring, and if nothing is
// covered at all, the missing neighbour is unknown (Range.Known is false). Ranges may overlap, as they do while the shards
// after a reshard wait for their parents. Leases without a known range are left out.
// It is pure. (KCL: PeriodicShardSyncManager.hasHoleInLeases)
func FindHole(have []leases.Lease) (around [2]hashkey.Range, found bool) {
	ranges := make([]hashkey.Range, 0, len(have))
	for _, l := range have {
		if !l.Finished() && l.HashKeyRange.Known {
			ranges = append(ranges, l.HashKeyRange)
		}
	}
	slices.SortFunc(ranges, compareRanges)
	var (
		last hashkey.Range // the one that reaches furthest
		next hashkey.Key   // the first key not covered
	)
	for _, r := range ranges {
		if r.Start.Compare(next) > 0 {
			return [2]hashkey.Range{last, r}, true
		}
		if !last.Known || r.End.Compare(last.End) > 0 {
			last = r
			var more bool
			if next, more = r.End.Next(); !more {
				return [2]hashkey.Range{}, false
			}
		}
	}
	return [2]hashkey.Range{last, {}}, true
}

func compareRanges(a, b hashkey.Range) int {
	return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End))
}

// partition reports whether the shards cover the ring without a gap and without an overlap, as all shards that were open
// at one moment do.
func partition(shards []Shard) bool {
	ranges := make([]hashkey.Range, 0, len(shards))
	for _, s := range shards {
		if !s.HashKeyRange.Known {
			return false
		}
		ranges = append(ranges, s.HashKeyRange)
	}
	slices.SortFunc(ranges, compareRanges)
	next, more := hashkey.Key{}, true
	for _, r := range ranges {
		if !more || r.Start != next {
			return false
		}
		next, more = r.End.Next()
	}
	return !more
}

func openShards(shards []Shard) []Shard {
	var open []Shard
	for _, s := range shards {
		if s.Open() {
			open = append(open, s)
		}
	}
	return open
}

// filterOf selects the shards that were open at from.
func filterOf(from config.InitialPosition) Filter {
	if t, ok := from.Timestamp(); ok {
		return Filter{Kind: AtTimestamp, At: t}
	}
	if from.IsLatest() {
		return Filter{Kind: AtLatest}
	}
	return Filter{Kind: AtTrimHorizon}
}

// firstLeases returns the leases of an empty table: one for every shard of a listing by filterOf, open or closed.
// A server that ignores filters lists every shard, which is seen by ranges that overlap; then the right ones are chosen
// as [DetermineNewLeases] does. The error wraps [ErrInconsistent]: the ring has a gap.
// (KCL: EmptyLeaseTableSynchronizer)
func firstLeases(shards []Shard, from config.InitialPosition) ([]leases.Lease, error) {
	if partition(shards) {
		start := startOf(from, nil)
		out := make([]leases.Lease, 0, len(shards))
		for _, s := range slices.SortedFunc(slices.Values(shards), compareAge) {
			out = append(out, newLease(s, start))
		}
		return out, nil
	}
	if err := checkRing(shards); err != nil {
		return nil, err
	}
	return DetermineNewLeases(shards, nil, from)
}

// checkRing reports whether a listing of all shards shows a whole stream: its open shards cover the ring once. The error
// wraps [ErrInconsistent].
func checkRing(shards []Shard) error {
	open := openShards(shards)
	if !partition(open) {
		return fmt.Errorf("%w: %d of its %d shards are open, and these do not cover the ring of hash keys exactly once", ErrInconsistent, len(open), len(shards))
	}
	return nil
}
