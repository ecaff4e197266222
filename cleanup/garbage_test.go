package cleanup

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

func keyOf(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}}
}

// stream lets a test reshard and end shards as consumers do.
type stream struct {
	*world
	api    *kinesis.Client
	syncer *shardsync.HierarchicalShardSyncer
	list   func() []shardsync.Shard
}

func (w *world) stream(ctx context.Context) *stream {
	w.Helper()
	api := kinesis.NewFromConfig(w.server.ClientConfig("worker"))
	detector := retrieval.NewShardDetector(api, retrieval.DetectorOptions{})
	s := &stream{world: w, api: api, syncer: shardsync.NewHierarchicalShardSyncer(w.table, detector, shardsync.SyncerOptions{
		Stream: "orders", Worker: "worker", From: config.TrimHorizon(),
	})}
	if _, err := s.syncer.Sync(ctx); err != nil {
		w.Fatal(err)
	}
	s.list = func() []shardsync.Shard {
		shards, err := detector.ListShards(ctx, "orders", shardsync.Filter{})
		if err != nil {
			w.Fatal(err)
		}
		return shards
	}
	return s
}

func (s *stream) open() (open []shardsync.Shard) {
	for _, shard := range s.list() {
		if shard.Open() {
			open = append(open, shard)
		}
	}
	slices.SortFunc(open, func(a, b shardsync.Shard) int { return a.HashKeyRange.Compare(b.HashKeyRange) })
	return open
}

// reshard splits or merges a shard and waits until that is done.
func (s *stream) reshard(ctx context.Context, rng *rand.Rand) {
	s.Helper()
	open := s.open()
	i := rng.IntN(len(open))
	var err error
	if i+1 < len(open) && rng.IntN(2) == 0 {
		_, err = s.api.MergeShards(ctx, &kinesis.MergeShardsInput{
			StreamName: aws.String("orders"), ShardToMerge: &open[i].ID, AdjacentShardToMerge: &open[i+1].ID,
		})
	} else {
		middle := open[i].HashKeyRange.End
		middle.Hi = open[i].HashKeyRange.Start.Hi + (middle.Hi-open[i].HashKeyRange.Start.Hi)/2
		_, err = s.api.SplitShard(ctx, &kinesis.SplitShardInput{
			StreamName: aws.String("orders"), ShardToSplit: &open[i].ID, NewStartingHashKey: aws.String(middle.String()),
		})
	}
	if err != nil {
		s.Fatal(err)
	}
	s.after(time.Minute)
}

// read reads every shard whose parents are finished: closed ones to their end, open ones a little.
func (s *stream) read(ctx context.Context) {
	s.Helper()
	byID := map[string]shardsync.Shard{}
	for _, shard := range s.list() {
		byID[shard.ID] = shard
	}
	for _, l := range s.rows() {
		if ended, err := s.syncer.ParentsEnded(ctx, l); err != nil || !ended || l.Finished() {
			if err != nil {
				s.Fatal(err)
			}
			continue
		}
		me := leases.Tenure{Worker: "worker", Nonce: "host/1/00/" + l.Key, Failover: time.Second}
		w, err := s.table.Take(ctx, l, me)
		if err != nil {
			s.Fatal(err)
		}
		to := at("49590338271490256608559692538361571095921575989136588898")
		if shard := byID[l.Key]; !shard.Open() {
			if err := s.syncer.EndShard(ctx, w.Lease, shardsync.End{}); err != nil {
				continue // the other parent was not reached
			}
			to = checkpoint.ShardEnd
		}
		if _, err := s.table.Update(ctx, w.Lease, me, leases.Update{Checkpoint: &to}); err != nil {
			s.Fatal(err)
		}
	}
}

// Forty reshards of a real stream, read by what shard sync decides: when all is read, three passes leave the rows of the
// open shards. Nobody lists shards for that, but for a check of garbage that falls due.
func TestRun_rowsReturnToTheOpenShardsWithinThreePasses(t *testing.T) {
	bubble(t, func(ctx context.Context, w *world) {
		const seed = 1
		rng := rand.New(rand.NewPCG(seed, 0))
		s := w.stream(ctx)
		defer w.start(w.manager("m"))()
		for range 40 {
			s.reshard(ctx, rng)
			for range rng.IntN(3) {
				s.read(ctx)
			}
		}
		for range 20 {
			s.read(ctx)
		}
		w.after(3 * onePass)
		open := s.open()
		rows := w.rows()
		for _, shard := range open {
			if !slices.ContainsFunc(rows, func(l leases.Lease) bool { return l.Key == shard.ID && !l.Finished() }) {
				t.Errorf("open shard %s has no lease", shard.ID)
			}
		}
		if len(rows) != len(open) {
			t.Errorf("%d rows, %d open shards: %s", len(rows), len(open), w.keys())
		}
		deleted, retried := w.events()
		listed := w.requests(emulator.CountKey{Client: "m", Operation: "ListShards"})
		t.Logf("seed %d: %d open shards of %d, %d rows deleted, %d ListShards", seed, len(open), len(s.list()), len(deleted), listed)
		if len(deleted) == 0 || len(retried) > 0 || listed > 2 {
			t.Errorf("%d deleted, retried %v, %d ListShards", len(deleted), retried, listed)
		}
	})
}

// abandoned is a table after a long standstill: shards that the service has forgotten were ended without children, some rows
// of what follows are there, others are not yet.
func (w *world) abandoned(ctx context.Context) {
	w.Helper()
	s := w.stream(ctx)
	shards := s.list()
	gone := func(key string, of int) leases.Lease {
		return leases.Lease{Key: key, Checkpoint: checkpoint.ShardEnd, HashKeyRange: shards[of].HashKeyRange}
	}
	child := gone("gone-1", 1)
	child.ParentShardIDs = []string{"gone-0"}
	silent := gone("gone-2", 2)
	silent.HashKeyRange.Known = false
	w.create(gone("gone-0", 1), child, silent, gone("gone-3", 3))
	// Shard 3 has no lease: its keys are nowhere.
	l, _, err := w.table.Get(ctx, shards[3].ID)
	if err == nil {
		err = w.table.Delete(ctx, l)
	}
	if err != nil {
		w.Fatal(err)
	}
}

func TestRun_deletesWhatTheServiceForgot(t *testing.T) {
	bubble(t, func(ctx context.Context, w *world) {
		w.abandoned(ctx)
		shards := len(w.rows())
		defer w.start(w.manager("m"))()
		w.after(garbage + onePass)
		// gone-2 may belong anywhere on the ring, which has a hole; gone-3 belongs where the hole is.
		if got, want := w.keys(), "gone-2 gone-3 shardId-000000000000 shardId-000000000001 shardId-000000000002"; got != want {
			t.Errorf("of %d rows remain %s, want %s", shards, got, want)
		}
		if _, err := w.table.Create(ctx, leases.Lease{Key: "shardId-000000000003", Checkpoint: checkpoint.TrimHorizon, HashKeyRange: w.stream(ctx).list()[3].HashKeyRange}); err != nil {
			t.Fatal(err)
		}
		w.after(garbage + onePass)
		if got := len(w.rows()); got != 4 {
			t.Errorf("%d rows after the hole was filled, want one for each shard: %s", got, w.keys())
		}
		// The first may be asked for at once, and two intervals and two passes are a little more than two intervals.
		if n := w.requests(emulator.CountKey{Client: "m", Operation: "ListShards"}); n > 3 {
			t.Errorf("%d ListShards in two garbage intervals and two passes", n)
		}
	})
}

// A listing that fails, or names no shard at all, deletes nothing; it is tried again.
func TestRun_actsOnNoFailedListing(t *testing.T) {
	bubble(t, func(ctx context.Context, w *world) {
		w.abandoned(ctx)
		m := w.manager("m")
		m.garbage, m.cfg.KeepFinished = time.Now().Add(time.Hour), 0
		mustPass(w, m) // gone-0, whose child says enough
		before := w.keys()
		list := m.opts.Shards
		m.garbage = time.Time{}
		m.opts.Shards = func(context.Context) ([]Shard, error) { return nil, nil }
		if _, err := m.Pass(ctx); err == nil || w.keys() != before {
			t.Errorf("an empty listing: %v, rows %s", err, w.keys())
		}
		m.opts.Shards = list
		end := w.server.Inject(emulator.Rule{Client: "m", Operation: "ListShards", Effect: emulator.Fail(500, "InternalFailure", "no")})
		stop := w.start(m)
		w.after(garbage + 3*time.Minute)
		if _, retried := w.events(); len(retried) < 1 || len(retried) > 2 || w.keys() != before {
			t.Errorf("a failing listing: retried %v, rows %s", retried, w.keys())
		}
		end()
		w.after(garbage + onePass)
		stop()
		if w.keys() == before {
			t.Error("nothing was deleted after listings succeeded again")
		}
	})
}

// A row that was finished without the ids of its children, as early KCL versions did: other rows name it as their parent,
// and if only some of them exist, the service tells that there are more.
func TestPass_findsChildrenThatTheRowDoesNotName(t *testing.T) {
	bubble(t, func(ctx context.Context, w *world) {
		s := w.stream(ctx)
		s.reshard(ctx, rand.New(rand.NewPCG(3, 0)))
		var parents, children []shardsync.Shard
		for _, shard := range s.list() {
			if !shard.Open() {
				parents = append(parents, shard)
			}
			if shard.ParentID != "" {
				children = append(children, shard)
			}
		}
		if len(parents) != 1 || len(children) != 2 {
			t.Fatalf("%d parents and %d children, want a split", len(parents), len(children))
		}
		me := leases.Tenure{Worker: "worker", Nonce: "host/1/00/1", Failover: time.Second}
		row, _, err := w.table.Get(ctx, parents[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		took, err := w.table.Take(ctx, row, me)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.table.Update(ctx, took.Lease, me, leases.Update{Checkpoint: &checkpoint.ShardEnd}); err != nil {
			t.Fatal(err)
		}
		m := w.manager("m")
		m.cfg.KeepFinished = 0
		never := time.Now().Add(time.Hour * 1000)
		child := func(i int) leases.Lease {
			return leases.Lease{Key: children[i].ID, Checkpoint: at("7"), ParentShardIDs: children[i].ParentIDs(), HashKeyRange: children[i].HashKeyRange}
		}

		m.garbage = never
		if res := mustPass(w, m); res.Kept[ChildrenUnknown] != 1 {
			t.Errorf("no child has a row: %+v", res)
		}
		w.create(child(0))
		if res := mustPass(w, m); res.Kept[ChildrenUnknown] != 1 {
			t.Errorf("one of two children has a row: %+v", res)
		}
		m.garbage = time.Time{}
		if res := mustPass(w, m); res.Kept[ChildMissing] != 1 || !res.Listed {
			t.Errorf("one of two children has a row, and shards were listed: %+v", res)
		}
		w.create(child(1))
		m.garbage = never
		if res := mustPass(w, m); res.Deleted != 1 || res.Listed {
			t.Errorf("both children have rows: %+v", res)
		}
	})
}
