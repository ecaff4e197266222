package shardsync

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// randomHistory reshards a stream at random until it has had about n shards.
func randomHistory(t *rapid.T, n int) []Shard {
	seq := 100
	first := rapid.IntRange(1, 6).Draw(t, "first shards")
	var shards []Shard
	var open []int // by hash key
	add := func(s Shard) int {
		seq++
		s.ID, s.StartingSequenceNumber = fmt.Sprintf("shardId-%d", len(shards)), strconv.Itoa(seq)
		shards = append(shards, s)
		return len(shards) - 1
	}
	last := hashkey.Key{}
	for i := range first {
		end := hashkey.Key{Hi: uint64(i+1) << 60, Lo: 0}
		if i == first-1 {
			end = hashkey.Max
		}
		open = append(open, add(Shard{HashKeyRange: hashkey.Range{Start: last, End: end, Known: true}}))
		last, _ = end.Next()
	}
	end := func(i int) {
		seq++
		shards[i].EndingSequenceNumber = strconv.Itoa(seq)
	}
	for len(shards) < n {
		i := rapid.IntRange(0, len(open)-1).Draw(t, "shard")
		a := open[i]
		if r := shards[a].HashKeyRange; i+1 < len(open) && rapid.Bool().Draw(t, "merge") {
			b := open[i+1]
			end(a)
			end(b)
			child := Shard{ParentID: shards[a].ID, AdjacentParentID: shards[b].ID, HashKeyRange: hashkey.Range{Start: r.Start, End: shards[b].HashKeyRange.End, Known: true}}
			open = slices.Replace(open, i, i+2, add(child))
		} else if r.End.Hi-r.Start.Hi > 4 {
			mid := hashkey.Key{Hi: r.Start.Hi + (r.End.Hi-r.Start.Hi)/2}
			next, _ := mid.Next()
			end(a)
			left := add(Shard{ParentID: shards[a].ID, HashKeyRange: hashkey.Range{Start: r.Start, End: mid, Known: true}})
			right := add(Shard{ParentID: shards[a].ID, HashKeyRange: hashkey.Range{Start: next, End: r.End, Known: true}})
			open = slices.Replace(open, i, i+1, left, right)
		}
	}
	return shards
}

func TestDetermineNewLeases_reachesEverythingInARandomHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		shards := randomHistory(rt, rapid.IntRange(1, 120).Draw(rt, "shards"))
		if rapid.Bool().Draw(rt, "trimmed") { // the oldest are listed no more
			cut := rapid.IntRange(0, len(shards)/2).Draw(rt, "cut")
			kept := shards[:0:0]
			for i, s := range shards {
				if i >= cut || s.Open() {
					kept = append(kept, s)
				}
			}
			shards = kept
		}
		var have []leases.Lease
		odds := rapid.IntRange(1, 10).Draw(rt, "one lease in")
		for _, s := range shards {
			if rapid.IntRange(1, odds).Draw(rt, "lease") > 1 {
				continue
			}
			l := newLease(s, position{at: checkpoint.TrimHorizon})
			if !s.Open() && rapid.Bool().Draw(rt, "finished") {
				l.Checkpoint = checkpoint.ShardEnd
			}
			have = append(have, l)
		}
		g, err := newGraph(shards)
		if err != nil {
			rt.Fatal(err)
		}
		for _, from := range positions {
			created, err := DetermineNewLeases(shards, have, from)
			if err != nil {
				rt.Fatal(err)
			}
			if err := checkNew(g, have, created); err != nil {
				rt.Fatalf("at %s: %v", name(from), err)
			}
			// Some of them exist now, because whoever made them died: the next run finishes the work.
			part := slices.Clone(have)
			for _, l := range created {
				if rapid.Bool().Draw(rt, "made") {
					part = append(part, l)
				}
			}
			rest, err := DetermineNewLeases(shards, part, from)
			if err != nil {
				rt.Fatal(err)
			}
			if err := checkNew(g, part, rest); err != nil {
				rt.Fatalf("at %s, after a half done run: %v", name(from), err)
			}
			// After a whole run nothing is missing.
			if again, err := DetermineNewLeases(shards, append(slices.Clone(have), created...), from); err != nil || len(again) != 0 {
				rt.Fatalf("at %s: a second run creates %d leases, %v", name(from), len(again), err)
			}
		}
	})
}

// P14 of KCL's tests: leases whose parents are finished and whose children exist never leave a hole.
func TestFindHole_findsNoneWhileShardsEndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		shards := randomHistory(rt, rapid.IntRange(1, 80).Draw(rt, "shards"))
		rows := map[string]*leases.Lease{}
		for _, s := range shards {
			if len(s.ParentIDs()) == 0 {
				l := newLease(s, position{at: checkpoint.TrimHorizon})
				rows[s.ID] = &l
			}
		}
		// Shards end at random, their children's rows first.
		for _, s := range shards {
			l := rows[s.ID]
			if l == nil || s.Open() || rapid.IntRange(0, 3).Draw(rt, "unread") == 0 {
				continue
			}
			ready := true
			for _, p := range s.ParentIDs() {
				ready = ready && rows[p] != nil && rows[p].Finished()
			}
			if !ready {
				continue
			}
			for _, c := range shards {
				if slices.Contains(c.ParentIDs(), s.ID) && rows[c.ID] == nil {
					child := newLease(c, position{at: checkpoint.TrimHorizon})
					rows[c.ID] = &child
				}
			}
			l.Checkpoint = checkpoint.ShardEnd
		}
		var have []leases.Lease
		for _, l := range rows {
			have = append(have, *l)
		}
		if around, found := FindHole(have); found {
			rt.Fatalf("hole between %v and %v", around[0], around[1])
		}
	})
}

// 10,000 shards, of which half were split: what an audit of a large stream has to decide.
func BenchmarkDetermineNewLeases(b *testing.B) {
	var shards []Shard
	for i := range 5000 {
		from, to := hashkey.Key{Hi: uint64(i) << 48}, hashkey.Key{Hi: uint64(i+1)<<48 - 1, Lo: hashkey.Max.Lo}
		shards = append(shards, Shard{
			ID: fmt.Sprintf("shardId-%012d", i), StartingSequenceNumber: fmt.Sprintf("49600000000000000000000000000000000000000000000000%06d", i), EndingSequenceNumber: "5",
			HashKeyRange: hashkey.Range{Start: from, End: to, Known: true},
		})
	}
	for i := range 5000 {
		p := shards[i%2500]
		shards = append(shards, Shard{ID: fmt.Sprintf("shardId-%012d", 5000+i), ParentID: p.ID, StartingSequenceNumber: fmt.Sprintf("49600000000000000000000000000000000000000000000001%06d", i), HashKeyRange: p.HashKeyRange})
	}
	have := make([]leases.Lease, 0, 2500)
	for _, s := range shards[:2500] {
		have = append(have, newLease(s, position{at: checkpoint.TrimHorizon}))
	}
	for b.Loop() {
		if _, err := DetermineNewLeases(shards, have, config.TrimHorizon()); err != nil {
			b.Fatal(err)
		}
	}
}
