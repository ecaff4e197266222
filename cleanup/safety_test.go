package cleanup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// restless is a table in which other workers do something before each call.
type restless struct {
	*memTable
	before func()
}

func (r restless) Get(ctx context.Context, key string) (leases.Lease, bool, error) {
	r.before()
	return r.memTable.Get(ctx, key)
}

func (r restless) Delete(ctx context.Context, seen leases.Lease) error {
	r.before()
	return r.memTable.Delete(ctx, seen)
}

// anyRow is a row of s as it may be found, whatever made it; none in one of four cases.
func anyRow(t *rapid.T, h *history, s *past) (leases.Lease, bool) {
	if rapid.IntRange(0, 3).Draw(t, "row") == 0 {
		return leases.Lease{}, false
	}
	l := h.lease(s, rapid.SampledFrom([]checkpoint.ExtendedSequenceNumber{
		checkpoint.ShardEnd, checkpoint.ShardEnd, checkpoint.ShardEnd, at("7"), at("8"),
		checkpoint.TrimHorizon, checkpoint.Latest, checkpoint.AtTimestamp,
	}).Draw(t, "checkpoint"))
	if s.open() && l.Finished() {
		l.Checkpoint = at("9")
	}
	if rapid.Bool().Draw(t, "pinned") {
		l = pinned(l)
	}
	if l.Finished() && rapid.IntRange(0, 3).Draw(t, "silent") > 0 {
		l.ChildShardIDs = s.children
	}
	if rapid.IntRange(0, 7).Draw(t, "early") == 0 {
		l.HashKeyRange.Known = false
	}
	return l, true
}

// From any table, with rows seen at an earlier time, and with workers that go on between any two calls: no row is deleted
// that is still needed at the moment of its deletion.
func TestPass_deletesNothingThatIsNeeded(t *testing.T) {
	t.Parallel()
	deleted, garbage := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		h := newHistory(rapid.IntRange(1, 4).Draw(t, "shards"))
		for range rapid.IntRange(1, 12).Draw(t, "reshards") {
			h.reshard(rng)
		}
		h.forget(rapid.IntRange(0, len(h.shards)).Draw(t, "forgotten"))
		table := newMemTable()
		for _, s := range h.shards {
			if l, there := anyRow(t, h, s); there {
				table.rows[l.Key] = l
			}
		}
		table.check = func(l leases.Lease) {
			if wrong := table.mayGo(h, l); wrong != "" {
				t.Errorf("row %s was deleted although %s", l.Key, wrong)
			}
			deleted++
			if h.get(l.Key).gone {
				garbage++
			}
		}
		seen := table.list()
		steps := func() {
			for range rng.IntN(3) {
				table.live(h, rng)
			}
		}
		m := newManager(restless{table, steps}, h, func() []leases.Lease { return seen }, nil)
		for range 3 {
			if _, err := m.Pass(context.Background()); err != nil && !errors.Is(err, leases.ErrLeaseLost) {
				// A row that is written between each reading and deleting is left to the next pass.
				t.Log(err)
			}
			if rng.IntN(2) == 0 {
				seen = table.list()
			}
			steps()
		}
	})
	if deleted == 0 || garbage == 0 {
		t.Errorf("%d rows deleted, %d of them of forgotten shards: the test tests nothing", deleted, garbage)
	}
	t.Logf("%d rows deleted, %d of them of shards that the service had forgotten", deleted, garbage)
}

// Over a long history of reshards, with consumers that lag, rows never grow beyond what is being read, and when all is read
// the rows of the open shards remain and no other.
func TestPass_rowsReturnToTheOpenShards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHistory(rapid.IntRange(1, 6).Draw(t, "shards"))
		table := newMemTable()
		for _, s := range h.shards {
			table.rows[s.ID] = h.lease(s, checkpoint.TrimHorizon)
		}
		table.check = func(l leases.Lease) {
			if wrong := table.mayGo(h, l); wrong != "" {
				t.Errorf("row %s was deleted although %s", l.Key, wrong)
			}
		}
		m := newManager(table, h, table.list, nil)
		for range 20 {
			h.reshard(rng)
			for range rng.IntN(40) {
				table.live(h, rng)
			}
			if _, err := m.Pass(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		done := func() bool {
			for _, s := range h.shards {
				if l, there := table.rows[s.ID]; s.open() && (!there || l.Checkpoint.IsSentinel()) {
					return false
				}
			}
			return true
		}
		for step := 0; !done(); step++ {
			if step > 1_000_000 {
				t.Fatalf("the stream is never read to its end; rows: %s", table.keys())
			}
			table.live(h, rng)
		}
		passes := 0
		for ; len(table.rows) > len(h.openShards()) && passes < 3; passes++ {
			if _, err := m.Pass(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := len(table.rows), len(h.openShards()); got != want {
			t.Fatalf("%d rows after %d passes, want one for each of %d open shards: %s", got, passes, want, table.keys())
		}
	})
}

// A lineage of six generations goes in one pass, and of the children that wait one generation of parents remains.
func TestPass_takesALineageAtOnce(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{true, false} {
		h := newHistory(1)
		table := newMemTable()
		for i := range 6 {
			s := h.shards[len(h.shards)-1]
			if i%2 == 1 { // merge what was split before
				open := h.openShards()
				h.add(together(open), open...)
			} else {
				half := s.HashKeyRange.End.Hi / 2
				h.add(keysOf(0, half), s)
				h.add(keysOf(half+1, s.HashKeyRange.End.Hi), s)
			}
		}
		for _, s := range h.shards {
			l := h.lease(s, checkpoint.ShardEnd)
			l.ChildShardIDs = s.children
			if s.open() {
				if l.Checkpoint = checkpoint.TrimHorizon; begun {
					l.Checkpoint = at("5")
				}
			}
			table.rows[l.Key] = l
		}
		want := len(h.openShards())
		if !begun {
			want += 2 // the parents of the last merge
		}
		res := mustPass(t, newManager(table, h, table.list, nil))
		if len(table.rows) != want || res.Finished-res.Deleted != want-len(h.openShards()) {
			t.Errorf("open shards begun: %t; %d rows remain, want %d: %s; %+v", begun, len(table.rows), want, table.keys(), res)
		}
	}
}

// The rows of a table in which a pass finds something of each kind: three generations that are done, one with a child that
// waits, one that the service has forgotten, one whose row names no children.
func variety() (*history, *memTable) {
	h := newHistory(4)
	split := func(s *past) {
		middle := s.HashKeyRange.Start.Hi + (s.HashKeyRange.End.Hi-s.HashKeyRange.Start.Hi)/2
		h.add(keysOf(s.HashKeyRange.Start.Hi, middle), s)
		h.add(keysOf(middle+1, s.HashKeyRange.End.Hi), s)
	}
	merge := func(a, b *past) { h.add(together([]*past{a, b}), a, b) }
	split(h.shards[0])              // s004 s005
	merge(h.shards[4], h.shards[5]) // s006
	split(h.shards[1])              // s007 s008: one waits
	split(h.shards[2])              // s009 s010: both wait
	split(h.shards[3])              // s011 s012
	h.shards[2].gone = true
	table := newMemTable()
	for _, s := range h.shards {
		l := h.lease(s, checkpoint.ShardEnd)
		l.ChildShardIDs = s.children
		switch {
		case s.ID == "s007" || s.ID == "s009" || s.ID == "s010":
			l.Checkpoint = checkpoint.TrimHorizon
		case s.open():
			l.Checkpoint = at("5")
		case s.ID == "s003":
			l.ChildShardIDs = nil
		}
		table.rows[l.Key] = l
	}
	return h, table
}

const varietyLeft = "s001 s006 s007 s008 s009 s010 s011 s012"

// at which call something happens, and whether before or after it has its effect.
type strike struct {
	call  int
	after bool
}

// struckTable counts calls and does something at one of them.
type struckTable struct {
	*memTable
	at    strike
	do    func() error
	calls int
}

func (s *struckTable) around(call func() error) error {
	s.calls++
	if s.calls != s.at.call {
		return call()
	}
	if !s.at.after {
		if err := s.do(); err != nil {
			return err
		}
		return call()
	}
	if err := call(); err != nil {
		return err
	}
	return s.do()
}

func (s *struckTable) Get(ctx context.Context, key string) (l leases.Lease, there bool, err error) {
	if err := ctx.Err(); err != nil {
		return leases.Lease{}, false, err
	}
	err = s.around(func() error { l, there, err = s.memTable.Get(ctx, key); return err })
	return l, there, err
}

func (s *struckTable) Delete(ctx context.Context, seen leases.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.around(func() error { return s.memTable.Delete(ctx, seen) })
}

// Two leaders at once, and leaders that die: whenever the second begins (before or after any call of the first), and
// whenever either dies, the table in the end is the one that a single leader leaves.
func TestPass_leavesTheSameTableHoweverManyLeaders(t *testing.T) {
	t.Parallel()
	count := func() int {
		h, table := variety()
		counted := &struckTable{memTable: table}
		mustPass(t, newManager(counted, h, table.list, nil))
		if got := table.keys(); got != varietyLeft {
			t.Fatalf("one leader leaves %s, want %s", got, varietyLeft)
		}
		return counted.calls
	}
	calls := count()
	errDead := errors.New("the process died")
	// dying is a pass that dies at a call; 0 lets it live.
	dying := func(ctx context.Context, h *history, table *memTable, at strike, seen []leases.Lease) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := &struckTable{memTable: table, at: at, do: func() error { cancel(); return errDead }}
		_, err := newManager(s, h, func() []leases.Lease { return seen }, nil).Pass(ctx)
		if err != nil && (at.call == 0 || !errors.Is(err, errDead)) {
			t.Errorf("a pass that dies at %+v: %v", at, err)
		}
	}
	cases := 0
	for first := range calls + 1 {
		for second := range calls + 1 {
			for _, after := range []bool{false, true} {
				for _, firstDies := range []bool{false, true} {
					h, table := variety()
					seen := table.list()
					s := &struckTable{memTable: table, at: strike{first, after}}
					ctx, cancel := context.WithCancel(t.Context())
					s.do = func() error {
						dying(t.Context(), h, table, strike{second, after}, seen)
						if firstDies {
							cancel()
							return errDead
						}
						return nil
					}
					_, err := newManager(s, h, func() []leases.Lease { return seen }, nil).Pass(ctx)
					cancel()
					if err != nil && !firstDies {
						t.Errorf("first %d, second %d, after %t: %v", first, second, after, err)
					}
					dying(t.Context(), h, table, strike{}, seen) // a third one, which has seen what the others saw
					if got := table.keys(); got != varietyLeft {
						t.Errorf("first struck at %d (dies: %t), second at %d, after %t: left %s", first, firstDies, second, after, got)
					}
					if dup := duplicate(table.deleted); dup != "" {
						t.Errorf("%s was deleted twice", dup)
					}
					cases++
				}
			}
		}
	}
	t.Logf("%d calls of one leader, cases %d", calls, cases)
}

func duplicate(keys []string) string {
	keys = slices.Sorted(slices.Values(keys))
	for i := 1; i < len(keys); i++ {
		if keys[i] == keys[i-1] {
			return keys[i]
		}
	}
	return ""
}

// S6: whatever workers can do to a child between the reads and the deletion, the deletion stays right; and what they do to
// the row itself makes it fail and be looked at again.
func TestPass_readsAgainWhenTheRowMoves(t *testing.T) {
	t.Parallel()
	for moves := range 5 {
		t.Run(fmt.Sprint(moves, " moves"), func(t *testing.T) {
			t.Parallel()
			h := newHistory(1)
			h.add(keysOf(0, 9), h.shards[0])
			h.add(keysOf(10, 1<<64-1), h.shards[0])
			table := newMemTable(h.lease(h.shards[1], at("1")), h.lease(h.shards[2], at("1")))
			p := h.lease(h.shards[0], checkpoint.ShardEnd)
			p.ChildShardIDs = h.shards[0].children
			table.rows[p.Key] = p
			left := moves
			m := newManager(movingOwner{table, &left}, h, table.list, nil)
			res, err := m.Pass(t.Context())
			if wantErr := moves >= 3; (err != nil) != wantErr || (res.Deleted == 1) == wantErr {
				t.Errorf("deleted %d rows, error %v", res.Deleted, err)
			}
			if res.Deleted == 0 && mustPass(t, m).Deleted != 1 {
				t.Errorf("not deleted in the next pass: %s", table.keys())
			}
		})
	}
}

// What makes a row a candidate may have been seen some time ago, in a listing that was not consistent. What the table says
// now decides.
func TestPass_believesTheTableAndNotTheListing(t *testing.T) {
	t.Parallel()
	h := newHistory(1)
	h.add(keysOf(0, 9), h.shards[0])
	h.add(keysOf(10, 1<<64-1), h.shards[0])
	h.add(h.shards[1].HashKeyRange, h.shards[1])
	parent := h.lease(h.shards[0], at("4")) // came late: its owner was asked by hand to read it again
	row, child := h.lease(h.shards[1], checkpoint.ShardEnd), h.lease(h.shards[3], at("5"))
	row.ChildShardIDs = h.shards[1].children
	waiting, unfinished := child, row
	waiting.Checkpoint, unfinished.Checkpoint = checkpoint.TrimHorizon, at("3")
	seen := []leases.Lease{row, child}
	for name, c := range map[string]struct {
		now  []leases.Lease
		want map[Reason]int // why it stays
	}{
		"as seen":                           {seen, map[Reason]int{}},
		"the listing lacked a parent":       {[]leases.Lease{parent, row, child}, map[Reason]int{ParentRemains: 1}},
		"somebody deleted the child":        {[]leases.Lease{row}, map[Reason]int{ChildMissing: 1}},
		"somebody set the child back":       {[]leases.Lease{row, waiting}, map[Reason]int{ChildNotBegun: 1}},
		"somebody set the row back":         {[]leases.Lease{unfinished, child}, map[Reason]int{Unfinished: 1}},
		"another leader deleted it already": {[]leases.Lease{child}, map[Reason]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := newMemTable(c.now...)
			m := newManager(table, h, func() []leases.Lease { return seen }, nil)
			m.garbage = time.Now().Add(time.Hour)
			res := mustPass(t, m)
			if d := cmp.Diff(c.want, res.Kept); d != "" || res.Deleted != 1-len(c.want) {
				t.Errorf("deleted %d; Kept (-want +got)\n%s", res.Deleted, d)
			}
			if _, there := table.rows[row.Key]; there != (len(c.want) > 0) {
				t.Errorf("rows left: %s", table.keys())
			}
		})
	}
}

// movingOwner renews the row just before each of the first deletions.
type movingOwner struct {
	*memTable
	left *int
}

func (o movingOwner) Delete(ctx context.Context, seen leases.Lease) error {
	if *o.left > 0 {
		*o.left--
		o.mu.Lock()
		l := o.rows[seen.Key]
		l.Counter++
		o.rows[seen.Key] = l
		o.mu.Unlock()
	}
	return o.memTable.Delete(ctx, seen)
}
