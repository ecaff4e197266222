package shardsync

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// draw returns a number from least to most.
type draw func(least, most int, what string) int

func drawnBy(t *rapid.T) draw {
	return func(least, most int, what string) int { return rapid.IntRange(least, most).Draw(t, what) }
}

// drawnFrom draws evenly, which rapid does not: it prefers small numbers, and so short histories.
func drawnFrom(seed uint64) draw {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(least, most int, _ string) int { return least + r.IntN(most-least+1) }
}

// randomHistory reshards a stream at random until it has had about n shards.
func randomHistory(draw draw, n int) []Shard {
	seq := 100
	first := draw(1, 6, "first shards")
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
		i := draw(0, len(open)-1, "shard")
		a := open[i]
		if r := shards[a].HashKeyRange; i+1 < len(open) && draw(0, 1, "merge") == 1 {
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
	rapid.Check(t, func(rt *rapid.T) { checkHistory(rt, drawnBy(rt), 120) })
}

func TestDetermineNewLeases_reachesEverythingInALongHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			checkHistory(t, drawnFrom(seed), 2000)
		})
	}
}

// checkHistory takes a random history, with random leases, and checks what is created, also if it is created in parts.
func checkHistory(t interface{ Fatalf(string, ...any) }, draw draw, most int) {
	shards := randomHistory(draw, draw(1, most, "shards"))
	if draw(0, 1, "trimmed") == 1 { // the oldest are listed no more
		cut := draw(0, len(shards)/2, "cut")
		kept := shards[:0:0]
		for i, s := range shards {
			if i >= cut || s.Open() {
				kept = append(kept, s)
			}
		}
		shards = kept
	}
	var have []leases.Lease
	odds := draw(1, 10, "one lease in")
	for _, s := range shards {
		if draw(1, odds, "lease") > 1 {
			continue
		}
		l := newLease(s, position{at: checkpoint.TrimHorizon})
		if !s.Open() && draw(0, 1, "finished") == 1 {
			l.Checkpoint = checkpoint.ShardEnd
		}
		have = append(have, l)
	}
	g, err := newGraph(shards)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, from := range positions {
		created, err := DetermineNewLeases(shards, have, from)
		if err != nil {
			t.Fatalf("at %s: %v", name(from), err)
		}
		if err := checkNew(g, have, created); err != nil {
			t.Fatalf("at %s: %v", name(from), err)
		}
		// Some of them exist now, because whoever made them died: the next run finishes the work.
		part := slices.Clone(have)
		for _, l := range created {
			if draw(0, 1, "made") == 1 {
				part = append(part, l)
			}
		}
		rest, err := DetermineNewLeases(shards, part, from)
		if err != nil {
			t.Fatalf("at %s: %v", name(from), err)
		}
		if err := checkNew(g, part, rest); err != nil {
			t.Fatalf("at %s, after a half done run: %v", name(from), err)
		}
		// After a whole run nothing is missing.
		if again, err := DetermineNewLeases(shards, append(slices.Clone(have), created...), from); err != nil || len(again) != 0 {
			t.Fatalf("at %s: a second run creates %d leases, %v", name(from), len(again), err)
		}
	}
}

// P14 and P15 of KCL's tests: leases whose parents are finished and whose children exist never leave a hole, some parents
// still in progress or not.
func TestFindHole_findsNoneWhileShardsEndInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		draw := drawnFrom(seed)
		shards := randomHistory(draw, draw(1, 400, "shards"))
		unread := draw(0, 3, "shards of ten that are unread")
		rows := map[string]*leases.Lease{}
		for _, s := range shards {
			if len(s.ParentIDs()) == 0 {
				l := newLease(s, position{at: checkpoint.TrimHorizon})
				rows[s.ID] = &l
			}
		}
		children := map[string][]Shard{}
		for _, s := range shards {
			for _, p := range s.ParentIDs() {
				children[p] = append(children[p], s)
			}
		}
		// Shards end at random, their children's rows first.
		for _, s := range shards {
			l := rows[s.ID]
			if l == nil || s.Open() || draw(1, 10, "unread") <= unread {
				continue
			}
			ready := true
			for _, p := range s.ParentIDs() {
				ready = ready && rows[p] != nil && rows[p].Finished()
			}
			if !ready {
				continue
			}
			for _, c := range children[s.ID] {
				if rows[c.ID] == nil {
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
			t.Fatalf("seed %d: hole between %v and %v", seed, around[0], around[1])
		}
	}
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
