package shardsync_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/shardsync"
)

// A stream is deleted and created anew between two runs. Its shards have the ids of the old ones.
func TestSync_refusesLeasesOfAStreamThatIsNoMore(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, w *world) {
		w.first()
		var old []checkpoint.ExtendedSequenceNumber
		for _, s := range w.shards() {
			old = append(old, number(s.StartingSequenceNumber))
		}
		w.deleteStream()
		time.Sleep(time.Hour)
		created := time.Now().UTC()
		if err := w.server.CreateStream(stream, 3); err != nil {
			t.Fatal(err)
		}
		w.delete(2)
		w.set(0, old[0])
		w.set(1, old[1])
		_, err := w.syncer("w", config.TrimHorizon()).Sync(ctx)
		if !isPermanent(err, shardsync.ErrOtherHistory) {
			t.Fatalf("Sync: %v", err)
		}
		for _, text := range []string{stream, shard(0), old[0].SequenceNumber, created.Format(time.RFC3339), "delete the rows"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("Sync: %q lacks %q", err, text)
			}
		}
		if len(w.rows()) != 2 {
			t.Errorf("rows %v", w.keys())
		}

		// One lease that is in the stream: the other one is somebody's handiwork.
		w.set(1, number(w.shards()[1].StartingSequenceNumber))
		if _, err := w.syncer("w", config.TrimHorizon()).Sync(ctx); err != nil || len(w.rows()) != 3 {
			t.Errorf("Sync: %v, rows %v", err, w.keys())
		}
	})
}

// E9, E10 and H8: what is asked of the service depends on the table.
func TestSync_asksForOpenShardsOnlyIfTheTableIsEmpty(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1000).UTC()
	for name, c := range map[string]struct {
		from config.InitialPosition
		want shardsync.Filter
	}{
		"LATEST":       {config.Latest(), shardsync.Filter{Kind: shardsync.AtLatest}},
		"TRIM_HORIZON": {config.TrimHorizon(), shardsync.Filter{Kind: shardsync.AtTrimHorizon}},
		"AT_TIMESTAMP": {config.AtTimestamp(at), shardsync.Filter{Kind: shardsync.AtTimestamp, At: at}},
	} {
		for _, empty := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				bubble(t, 3, func(ctx context.Context, w *world) {
					var asked []shardsync.Filter
					s := w.syncer("w", c.from, func(f shardsync.Filter, _ []shardsync.Shard) []shardsync.Shard {
						asked = append(asked, f)
						return w.shards()
					})
					want := c.want
					if !empty {
						w.set(1, number("99999999999999999999999999999999999999999999999999999999"))
						want = shardsync.Filter{}
					}
					if _, err := s.Sync(ctx); err != nil || len(w.rows()) != 3 {
						t.Fatalf("%v, rows %v", err, w.keys())
					}
					for _, f := range asked { // more than once if the table is not empty: somebody else might be at work
						if f != want {
							t.Errorf("asked for %+v, want %+v", f, want)
						}
					}
					if len(asked) == 0 || empty && len(asked) > 1 {
						t.Errorf("%d listings", len(asked))
					}
				})
			})
		}
	}
}

// H9: nothing is read of the table's rows, or written, because of a listing that contradicts itself.
func TestSync_createsNothingFromAListingThatContradictsItself(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		w.split(0)
		s := w.syncer("w", config.Latest(), func(_ shardsync.Filter, _ []shardsync.Shard) []shardsync.Shard {
			shards := w.shards()
			shards[0].EndingSequenceNumber = ""
			return shards
		})
		if _, err := s.Sync(ctx); !errors.Is(err, shardsync.ErrInconsistent) || len(w.rows()) != 0 {
			t.Errorf("%v, rows %v", err, w.keys())
		}
	})
}

// S2 of KCL's tests. There the lease is dropped; here the end is tried again under it.
func TestEndShard_failsWithoutHarmIfAChildCannotBeMade(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.first()
		w.split(0)
		before := w.rows()[shard(0)]
		end := w.endOf(0)
		end.Children[1].EndingHashKey = "none"
		s := w.syncer("w", config.TrimHorizon())
		if err := s.EndShard(ctx, before, end); err == nil {
			t.Error("EndShard succeeded")
		}
		if got := w.rows()[shard(0)]; len(got.ChildShardIDs) > 0 || got.Counter != before.Counter {
			t.Errorf("parent %+v", got)
		}
		if err := s.EndShard(ctx, before, w.endOf(0)); err != nil || len(w.rows()) != 3 {
			t.Errorf("%v, rows %v", err, w.keys())
		}
	})
}
