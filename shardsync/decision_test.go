package shardsync_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

// slowlyChecked is a stream whose status takes its time, once.
type slowlyChecked struct {
	shardsync.ShardDetector
	meanwhile func()
}

func (s *slowlyChecked) Check(context.Context, string) error {
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
	}
	return nil
}

func (s *slowlyChecked) Created() (time.Time, bool) { return time.Time{}, false }

// A worker finds the table empty, and then waits for the stream's status. Meanwhile others read the only shard to its end, its
// children begin, and its row is deleted. What the worker saw of the table must not make it create that row.
func TestSync_createsNothingByALookAtTheTableThatIsOld(t *testing.T) {
	t.Parallel()
	for name, sync := range map[string]func(context.Context, *shardsync.HierarchicalShardSyncer) error{
		"at the start": func(ctx context.Context, s *shardsync.HierarchicalShardSyncer) error {
			_, err := s.Sync(ctx)
			return err
		},
		"in an audit": func(ctx context.Context, s *shardsync.HierarchicalShardSyncer) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			m := shardsync.NewPeriodicShardSyncManager(s, shardsync.PeriodicOptions{Rows: func() ([]leases.Lease, bool) { return nil, true }})
			return m.Run(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				d := &slowlyChecked{ShardDetector: retrieval.NewShardDetector(w.user, retrieval.DetectorOptions{})}
				d.meanwhile = func() {
					parent := w.set(0, checkpoint.ShardEnd)
					w.split(0)
					w.set(1, number("7"))
					w.set(2, number("7"))
					<-time.After(leases.DecisionLife + time.Second)
					if err := w.table.Delete(ctx, parent); err != nil {
						t.Error(err)
					}
				}
				s := shardsync.NewHierarchicalShardSyncer(w.newTable("w"), d, shardsync.SyncerOptions{Stream: stream, Worker: "w", From: config.TrimHorizon()})
				if err := sync(ctx, s); err != nil {
					t.Fatal(err)
				}
				if got, want := w.keys(), []string{"1", "2"}; !slices.Equal(got, want) {
					t.Errorf("rows of shards %v, want %v", got, want)
				}
			})
		})
	}
}

// The machine sleeps while a worker looks for the children of a shard that has ended. When it wakes, it does not know yet that its
// lease is lost, and the children may have been read to their ends, and their rows deleted.
func TestEndShard_createsNothingAfterASuspend(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		parent := w.set(0, number("5"))
		w.split(0)
		var asleep time.Duration
		real := loop.Real()
		ctx = loop.WithClock(ctx, loop.NewClock(real.Now, func() time.Time { return real.Wall().Add(asleep) }, real.NewTimer))
		s := w.syncer("w", config.TrimHorizon(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard {
			asleep = time.Hour
			return shards
		})
		if err := s.EndShard(ctx, parent, shardsync.End{}); err == nil {
			t.Error("no error")
		}
		if got := w.keys(); len(got) != 1 {
			t.Errorf("rows of shards %v, want that of the parent alone", got)
		}
	})
}

// A request that is never answered is given up, and not repeated, when what was decided is too old.
func TestEndShard_asksForAChildNoLongerThanTheDecisionIsGood(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		parent := w.set(0, number("5"))
		w.split(0)
		w.server.Inject(emulator.Rule{Client: "w", Operation: "PutItem", Effect: emulator.Freeze()})
		began := time.Now()
		if err := w.syncer("w", config.TrimHorizon()).EndShard(ctx, parent, w.endOf(0)); err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took > leases.DecisionLife {
			t.Errorf("it took %v, want at most %v", took, leases.DecisionLife)
		}
	})
}
