package shardsync_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/shardsync"
)

// endOf is what a source says at the end of a shard.
func (w *world) endOf(n int) shardsync.End {
	var end shardsync.End
	for _, s := range w.shards() {
		if slices.Contains(s.ParentIDs(), shard(n)) {
			end.Children = append(end.Children, shardsync.ChildShard{
				ID: s.ID, ParentIDs: s.ParentIDs(), StartingHashKey: s.HashKeyRange.Start.String(), EndingHashKey: s.HashKeyRange.End.String(),
			})
		}
	}
	return end
}

// S3 and S6 of KCL's tests, and a server that names no children.
func TestEndShard_createsTheChildrenAndThenNamesThem(t *testing.T) {
	t.Parallel()
	for name, named := range map[string]bool{"children named": true, "children looked up": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(ctx context.Context, w *world) {
				s := w.syncer("w", config.Latest())
				if _, err := s.Sync(ctx); err != nil {
					t.Fatal(err)
				}
				w.split(0)
				parent := w.rows()[shard(0)]
				var end shardsync.End
				if named {
					end = w.endOf(0)
				}
				for range 2 { // twice is the same as once
					if err := s.EndShard(ctx, parent, end); err != nil {
						t.Fatal(err)
					}
				}
				rows := w.rows()
				for _, n := range []int{2, 3} {
					l := rows[shard(n)]
					if l.Checkpoint != checkpoint.TrimHorizon || l.StartAtMillis != parent.StartAtMillis || l.StartAtMillis == 0 ||
						!slices.Equal(l.ParentShardIDs, []string{shard(0)}) || !l.HashKeyRange.Known || l.Owner != "" {
						t.Errorf("child %+v", l)
					}
				}
				got := rows[shard(0)]
				if diff := cmp.Diff([]string{shard(2), shard(3)}, got.ChildShardIDs); diff != "" {
					t.Error(diff)
				}
				if got.Counter != parent.Counter || got.Checkpoint != parent.Checkpoint {
					t.Errorf("parent %+v, was %+v", got, parent)
				}
				if ended, err := s.ParentsEnded(ctx, rows[shard(2)]); err != nil || ended {
					t.Errorf("ParentsEnded = %v, %v while the parent is read", ended, err)
				}
				w.set(0, checkpoint.ShardEnd)
				if ended, err := s.ParentsEnded(ctx, rows[shard(2)]); err != nil || !ended {
					t.Errorf("ParentsEnded = %v, %v after its end", ended, err)
				}
			})
		})
	}
}

func TestEndShard_keepsAChildThatHasBegun(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.set(0, number("5"))
		w.split(0)
		begun := w.set(1, number("77"))
		if err := w.syncer("w", config.TrimHorizon()).EndShard(ctx, w.rows()[shard(0)], w.endOf(0)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(begun, w.rows()[shard(1)]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEndShard_refusesChildrenThatAreNoChildren(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		parent := w.set(0, number("5"))
		for _, c := range []shardsync.ChildShard{
			{ID: shard(1), ParentIDs: []string{shard(7)}, StartingHashKey: "0", EndingHashKey: "9"},
			{ID: shard(1), ParentIDs: []string{shard(0)}, StartingHashKey: "0", EndingHashKey: "x"},
			{ID: shard(1), ParentIDs: []string{shard(0)}, StartingHashKey: "10", EndingHashKey: "9"},
		} {
			err := w.syncer("w", config.TrimHorizon()).EndShard(ctx, parent, shardsync.End{Children: []shardsync.ChildShard{c}})
			if err == nil || !strings.Contains(err.Error(), shard(0)) || !strings.Contains(err.Error(), shard(1)) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if len(w.rows()) != 1 {
			t.Errorf("rows %v", w.keys())
		}
	})
}

// A shard that left retention while nobody read it: its children are listed, or nothing of it is.
func TestEndShard_looksForTheChildrenOfAShardThatIsGone(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		parent := w.set(0, number("5"))
		w.split(0)
		s := w.syncer("w", config.Latest(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard { return shards[1:] })
		if err := s.EndShard(ctx, parent, shardsync.End{Gone: true}); err != nil || len(w.rows()) != 3 {
			t.Errorf("%v, rows %v", err, w.keys())
		}
		s = w.syncer("w", config.Latest(), func(shardsync.Filter, []shardsync.Shard) []shardsync.Shard { return nil })
		if err := s.EndShard(ctx, w.rows()[shard(1)], shardsync.End{Gone: true}); err != nil || len(w.rows()) != 3 {
			t.Errorf("%v, rows %v", err, w.keys())
		}
	})
}

// Shards 0 and 1; 1 was split into 2 and 3, and 2 was merged with 0 into 4. Shard 0 ends; what there is of 2, the other
// parent of 4, decides.
func TestEndShard_waitsForTheOtherParentOfAMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world)
		from    config.InitialPosition
		wait    bool
		want    []string // rows afterwards
	}{
		"it is being read":           {prepare: func(w *world) { w.set(2, number("5")) }, want: []string{"", "2", "4"}},
		"it was finished":            {prepare: func(w *world) { w.set(2, checkpoint.ShardEnd) }, want: []string{"", "2", "4"}},
		"its ancestor is being read": {prepare: func(w *world) { w.set(1, number("5")) }, wait: true, want: []string{"", "1"}},
		"its ancestor was finished, and it lost its row": {prepare: func(w *world) {
			w.set(1, checkpoint.ShardEnd)
			w.set(3, number("5"))
		}, want: []string{"", "1", "2", "3", "4"}},
		"nobody ever read its lineage, from the oldest": {prepare: func(*world) {}, from: config.TrimHorizon(), wait: true, want: []string{"", "1"}},
		"nobody ever read its lineage, from the latest": {prepare: func(*world) {}, from: config.Latest(), want: []string{"", "2", "4"}},
		"it was finished and cleaned up":                {prepare: func(w *world) { w.set(4, number("5")) }, want: []string{"", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(ctx context.Context, w *world) {
				w.set(0, number("5"))
				w.split(1)
				w.merge(0, 2)
				c.prepare(w)
				s := w.syncer("w", c.from)
				err := s.EndShard(ctx, w.rows()[shard(0)], w.endOf(0))
				if c.wait != errors.Is(err, shardsync.ErrOtherParentUnread) || !c.wait && err != nil {
					t.Errorf("EndShard: %v", err)
				}
				if got := w.keys(); !slices.Equal(got, c.want) {
					t.Errorf("rows %q, want %q", got, c.want)
				}
				children := w.rows()[shard(0)].ChildShardIDs
				if want := []string{shard(4)}; c.wait == slices.Equal(children, want) {
					t.Errorf("children %v", children)
				}
				if !c.wait {
					return
				}
				// Its ancestor ends, and with that the wait.
				if err := s.EndShard(ctx, w.rows()[shard(1)], w.endOf(1)); err != nil {
					t.Fatal(err)
				}
				w.set(1, checkpoint.ShardEnd)
				if err := s.EndShard(ctx, w.rows()[shard(0)], w.endOf(0)); err != nil {
					t.Fatal(err)
				}
				if got := w.keys(); !slices.Equal(got, []string{"", "1", "2", "3", "4"}) {
					t.Errorf("rows %q", got)
				}
			})
		})
	}
}

// The other parent left retention: there is nothing of it to wait for.
func TestEndShard_goesOnWithoutAnOtherParentThatIsListedNoMore(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		w.set(0, number("5"))
		w.merge(0, 1)
		s := w.syncer("w", config.TrimHorizon(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard {
			return slices.DeleteFunc(shards, func(s shardsync.Shard) bool { return s.ID == shard(1) })
		})
		if err := s.EndShard(ctx, w.rows()[shard(0)], w.endOf(0)); err != nil || !slices.Equal(w.keys(), []string{"", "2"}) {
			t.Errorf("%v, rows %v", err, w.keys())
		}
	})
}

// A crash before or after any request of an end leaves a parent that is not finished, and whose next owner gets to the same
// rows.
func TestEndShard_isFinishedByTheNextOwnerWhereverItStopped(t *testing.T) {
	t.Parallel()
	for _, effect := range []struct {
		name string
		emulator.Effect
	}{{"before", emulator.Freeze()}, {"after", emulator.DropReply()}} {
		for at := range 12 {
			t.Run(effect.name+" request "+string(rune('a'+at)), func(t *testing.T) {
				bubble(t, 2, func(ctx context.Context, w *world) {
					w.set(0, number("5"))
					w.merge(0, 1)
					end := w.endOf(0)
					// The worker gets no answer any more from this request on.
					w.server.Inject(emulator.Rule{Client: "dead", Skip: at, Effect: emulator.Freeze()})
					if effect.name == "after" {
						w.server.Inject(emulator.Rule{Client: "dead", Skip: max(at-1, 0), Times: 1, Effect: effect.Effect})
					}
					dead, cancel := context.WithCancel(ctx)
					done := make(chan struct{})
					go func() {
						defer close(done)
						_ = w.syncer("dead", config.Latest()).EndShard(dead, w.rows()[shard(0)], end)
					}()
					time.Sleep(time.Minute)
					cancel()
					<-done
					parent := w.rows()[shard(0)]
					if parent.Finished() {
						t.Fatal("the parent is finished")
					}
					if len(parent.ChildShardIDs) > 0 {
						if _, there := w.rows()[shard(2)]; !there {
							t.Fatal("the parent names a child without a row")
						}
					}
					if err := w.syncer("next", config.Latest()).EndShard(ctx, parent, end); err != nil {
						t.Fatal(err)
					}
					if got := w.keys(); !slices.Equal(got, []string{"", "1", "2"}) || !slices.Equal(w.rows()[shard(0)].ChildShardIDs, []string{shard(2)}) {
						t.Errorf("rows %q, parent %+v", got, w.rows()[shard(0)])
					}
				})
			})
		}
	}
}

// Shards 0 and 1 merged into 2, which starts at TRIM_HORIZON unless told otherwise.
func TestParentsEnded_looksAtBothParents(t *testing.T) {
	t.Parallel()
	none := checkpoint.ExtendedSequenceNumber{}
	for _, c := range []struct {
		name       string
		one, other checkpoint.ExtendedSequenceNumber
		child      checkpoint.ExtendedSequenceNumber
		want       bool
	}{
		{"neither", number("5"), number("5"), checkpoint.TrimHorizon, false},
		{"one", checkpoint.ShardEnd, number("5"), checkpoint.TrimHorizon, false},
		{"the other", checkpoint.TrimHorizon, checkpoint.ShardEnd, checkpoint.TrimHorizon, false},
		{"both", checkpoint.ShardEnd, checkpoint.ShardEnd, checkpoint.TrimHorizon, true},
		{"one has no row, and nothing will bring it one", none, checkpoint.ShardEnd, checkpoint.TrimHorizon, true},
		{"one has no row, the other is read", none, number("5"), checkpoint.TrimHorizon, false},
		{"no rows, and the child has begun", none, none, number("5"), true},
		{"no rows, and the child is a first shard", none, none, checkpoint.Latest, true},
		{"no rows, and the child starts at a time", none, none, checkpoint.AtTimestamp, true},
		{"one has no row, the other is read, and the child has begun", none, number("5"), number("5"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 2, func(ctx context.Context, w *world) {
				w.merge(0, 1)
				for n, at := range []checkpoint.ExtendedSequenceNumber{c.one, c.other, c.child} {
					if at != none {
						w.set(n, at)
					}
				}
				got, err := w.syncer("w", config.TrimHorizon()).ParentsEnded(ctx, w.rows()[shard(2)])
				if err != nil || got != c.want {
					t.Errorf("ParentsEnded = %v, %v, want %v", got, err, c.want)
				}
			})
		})
	}
}

// Shard 0 was split into 1 and 2, and 1 into 3 and 4. The row of 1 is gone.
func TestParentsEnded_waitsForAnAbsentParentThatIsStillToCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grandparent checkpoint.ExtendedSequenceNumber
		child       checkpoint.ExtendedSequenceNumber
		hidden      bool
		want        bool
	}{
		"its parent is read, and the child has begun": {number("5"), number("9"), false, true},
		"its parent is read":                          {number("5"), checkpoint.TrimHorizon, false, false},
		"its parent was finished":                     {checkpoint.ShardEnd, checkpoint.TrimHorizon, false, true},
		"its parent is read, it is listed no more":    {number("5"), checkpoint.TrimHorizon, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.split(0)
				w.split(1)
				w.set(0, c.grandparent)
				w.set(3, c.child)
				s := w.syncer("w", config.TrimHorizon(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard {
					if !c.hidden {
						return shards
					}
					return slices.DeleteFunc(shards, func(s shardsync.Shard) bool { return s.ID == shard(1) })
				})
				if got, err := s.ParentsEnded(ctx, w.rows()[shard(3)]); err != nil || got != c.want {
					t.Errorf("ParentsEnded = %v, %v, want %v", got, err, c.want)
				}
			})
		})
	}
}

// Between the look at the parent's row and the listing the parent gets its row and the grandparent ends.
func TestParentsEnded_isNotFooledByAParentThatAppearsMeanwhile(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.split(0)
		w.split(1)
		w.set(0, number("5"))
		w.set(3, checkpoint.TrimHorizon)
		s := w.syncer("w", config.TrimHorizon(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard {
			w.set(1, checkpoint.TrimHorizon)
			w.set(0, checkpoint.ShardEnd)
			return shards
		})
		if got, err := s.ParentsEnded(ctx, w.rows()[shard(3)]); err != nil || got {
			t.Errorf("ParentsEnded = %v, %v", got, err)
		}
	})
}
