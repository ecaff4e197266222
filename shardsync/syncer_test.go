package shardsync_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

const stream = "orders"

// world is an emulated stream and lease table inside a bubble.
type world struct {
	t      *testing.T
	server *emulator.Server
	user   *kinesis.Client
	table  *leases.Table // of a client that is not under test

	mu      sync.Mutex
	created []string
	synced  []config.SyncEvent
	retries []config.RetryEvent
}

func bubble(t *testing.T, shards int, f func(ctx context.Context, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: emulator.New()}
		if err := w.server.CreateStream(stream, shards); err != nil {
			t.Fatal(err)
		}
		w.user = kinesis.NewFromConfig(w.server.ClientConfig("user"))
		w.table = w.newTable("user")
		if err := w.table.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t.Context(), w)
	})
}

func (w *world) newTable(client string) *leases.Table {
	c := config.Default("app", stream).Complete()
	return leases.NewTable(dynamodb.NewFromConfig(w.server.ClientConfig(client)), c.LeaseManagement, leases.TableOptions{Worker: client})
}

// syncer makes one worker's syncer. alter, if not nil, changes what it is told of the stream.
func (w *world) syncer(worker string, from config.InitialPosition, alter ...func(shardsync.Filter, []shardsync.Shard) []shardsync.Shard) *shardsync.HierarchicalShardSyncer {
	hooks := &config.Hooks{
		LeaseCreated: func(ev config.LeaseEvent) { w.note(func() { w.created = append(w.created, ev.LeaseKey) }) },
		Synced:       func(ev config.SyncEvent) { w.note(func() { w.synced = append(w.synced, ev) }) },
		Retried:      func(ev config.RetryEvent) { w.note(func() { w.retries = append(w.retries, ev) }) },
	}
	var d shardsync.ShardDetector = retrieval.NewShardDetector(kinesis.NewFromConfig(w.server.ClientConfig(worker)), retrieval.DetectorOptions{Worker: worker})
	for _, a := range alter {
		d = &altered{d, a}
	}
	return shardsync.NewHierarchicalShardSyncer(w.newTable(worker), d, shardsync.SyncerOptions{
		Stream: stream, Worker: worker, From: from, FailoverTime: 10 * time.Second, Hooks: hooks,
	})
}

func (w *world) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

type altered struct {
	shardsync.ShardDetector
	alter func(shardsync.Filter, []shardsync.Shard) []shardsync.Shard
}

func (a *altered) ListShards(ctx context.Context, stream string, f shardsync.Filter) ([]shardsync.Shard, error) {
	shards, err := a.ShardDetector.ListShards(ctx, stream, f)
	return a.alter(f, shards), err
}

func (w *world) rows() map[string]leases.Lease {
	w.t.Helper()
	l, err := w.table.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]leases.Lease{}
	for _, r := range l.Leases {
		out[r.Key] = r
	}
	return out
}

func (w *world) keys() []string {
	var out []string
	for k := range w.rows() {
		out = append(out, strings.TrimLeft(strings.TrimPrefix(k, "shardId-"), "0"))
	}
	slices.Sort(out)
	return out
}

func (w *world) shards() []shardsync.Shard {
	w.t.Helper()
	shards, err := retrieval.NewShardDetector(w.user, retrieval.DetectorOptions{}).ListShards(w.t.Context(), stream, shardsync.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return shards
}

func shard(n int) string { return fmt.Sprintf("shardId-%012d", n) }

func (w *world) split(n int) {
	w.t.Helper()
	for _, s := range w.shards() {
		if s.ID != shard(n) {
			continue
		}
		lo, _ := new(big.Int).SetString(s.HashKeyRange.Start.String(), 10)
		hi, _ := new(big.Int).SetString(s.HashKeyRange.End.String(), 10)
		if _, err := w.user.SplitShard(w.t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String(stream), ShardToSplit: &s.ID, NewStartingHashKey: aws.String(lo.Add(lo, hi).Rsh(lo, 1).String()),
		}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) merge(a, b int) {
	w.t.Helper()
	if _, err := w.user.MergeShards(w.t.Context(), &kinesis.MergeShardsInput{
		StreamName: aws.String(stream), ShardToMerge: aws.String(shard(a)), AdjacentShardToMerge: aws.String(shard(b)),
	}); err != nil {
		w.t.Fatal(err)
	}
}

// set creates a row, or changes one: the shard is at the checkpoint and owned by nobody.
func (w *world) set(n int, at checkpoint.ExtendedSequenceNumber) leases.Lease {
	w.t.Helper()
	ctx := w.t.Context()
	var l leases.Lease
	for _, s := range w.shards() {
		if s.ID == shard(n) {
			l = leases.Lease{Key: s.ID, ParentShardIDs: s.ParentIDs(), HashKeyRange: s.HashKeyRange}
		}
	}
	if old, there := w.rows()[shard(n)]; there {
		if err := w.table.Delete(ctx, old); err != nil {
			w.t.Fatal(err)
		}
		l.ChildShardIDs = old.ChildShardIDs
	}
	l.Checkpoint = at
	if created, err := w.table.Create(ctx, l); err != nil || !created {
		w.t.Fatal(created, err)
	}
	return w.rows()[shard(n)]
}

func number(s string) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: s}
}

func (w *world) requests(client, operation string) emulator.Count {
	return w.server.Counts().Of(emulator.CountKey{Client: client, Operation: operation})
}

// The stream has the shards 0 to 3, of which 0 was split into 4 and 5.
func reshardedStream(w *world) (beforeSplit time.Time) {
	time.Sleep(time.Minute)
	beforeSplit = time.Now()
	time.Sleep(time.Minute)
	w.split(0)
	time.Sleep(time.Minute)
	return beforeSplit
}

func TestSync_fillsAnEmptyTableAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from func(before time.Time) config.InitialPosition
		want []string
	}{
		"TRIM_HORIZON":                  {func(time.Time) config.InitialPosition { return config.TrimHorizon() }, []string{"", "1", "2", "3"}},
		"LATEST":                        {func(time.Time) config.InitialPosition { return config.Latest() }, []string{"1", "2", "3", "4", "5"}},
		"AT_TIMESTAMP before the split": {config.AtTimestamp, []string{"", "1", "2", "3"}},
		"AT_TIMESTAMP after it":         {func(b time.Time) config.InitialPosition { return config.AtTimestamp(b.Add(90 * time.Second)) }, []string{"1", "2", "3", "4", "5"}},
	} {
		for _, ignores := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/server ignores filters=%v", name, ignores), func(t *testing.T) {
				bubble(t, 4, func(ctx context.Context, w *world) {
					before := reshardedStream(w)
					from := c.from(before)
					want := c.want
					s := w.syncer("w", from)
					if ignores {
						s = w.syncer("w", from, func(shardsync.Filter, []shardsync.Shard) []shardsync.Shard { return w.shards() })
						if _, at := from.Timestamp(); at {
							want = []string{"", "1", "2", "3"} // shard 0 has no records after the time, and leads to its children
						}
					}
					start := time.Now()
					ev, err := s.Sync(ctx)
					if err != nil || ev.Created != len(want) || ev.Leases != 0 || ev.Shards == 0 {
						t.Fatalf("%+v, %v", ev, err)
					}
					if d := time.Since(start); d != 0 {
						t.Errorf("it took %v", d)
					}
					if got := w.keys(); !slices.Equal(got, want) {
						t.Errorf("rows %q, want %q", got, want)
					}
					for _, l := range w.rows() {
						var pin int64
						at := checkpoint.TrimHorizon
						if t, ok := from.Timestamp(); ok {
							at, pin = checkpoint.AtTimestamp, t.UnixMilli()
						} else if from.IsLatest() {
							at, pin = checkpoint.Latest, start.Truncate(time.Second).Add(-time.Second).UnixMilli()
						}
						if l.Checkpoint != at || l.StartAtMillis != pin || l.Owner != "" || !l.HashKeyRange.Known {
							t.Errorf("row %+v, want it at %v with pin %d", l, at, pin)
						}
					}
					if diff := cmp.Diff([]config.SyncEvent{ev}, w.synced); diff != "" {
						t.Error(diff)
					}
					if len(w.created) != len(want) {
						t.Errorf("created %v", w.created)
					}
				})
			})
		}
	}
}

// A fleet that starts together: one creates, and nobody writes a row more than once but the first.
func TestSync_doesNotStampede(t *testing.T) {
	bubble(t, 200, func(ctx context.Context, w *world) {
		const workers = 20
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				if _, err := w.syncer(fmt.Sprint("w", i), config.Latest()).Sync(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if rows := w.rows(); len(rows) != 200 || len(w.created) != 200 {
			t.Fatalf("%d rows, %d created", len(rows), len(w.created))
		}
		pins := map[int64]bool{}
		for _, l := range w.rows() {
			pins[l.StartAtMillis] = true
		}
		if len(pins) != 1 {
			t.Errorf("pins %v", pins)
		}
		if n := w.requests("", "PutItem").FailedConditions; n > 2*workers {
			t.Errorf("%d creations failed because the row was there", n)
		}
	})
}

// The worker that won the first row stops half way; another one finishes, with the first one's idea of LATEST.
func TestSync_finishesWhatAnotherWorkerLeft(t *testing.T) {
	bubble(t, 8, func(ctx context.Context, w *world) {
		dead, cancel := context.WithCancel(ctx)
		rule := emulator.Rule{Client: "dead", Operation: "PutItem", Skip: 3, Effect: emulator.Freeze()}
		defer w.server.Inject(rule)()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.syncer("dead", config.Latest()).Sync(dead); err == nil {
				t.Error("the dead worker finished")
			}
		})
		time.Sleep(3 * time.Second)
		start := time.Now()
		ev, err := w.syncer("w", config.Latest()).Sync(ctx)
		cancel()
		wg.Wait()
		if err != nil || len(w.rows()) != 8 {
			t.Fatalf("%+v, %v, rows %v", ev, err, w.keys())
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
		pins := map[int64]bool{}
		for _, l := range w.rows() {
			pins[l.StartAtMillis] = true
		}
		if len(pins) != 1 {
			t.Errorf("pins %v", pins)
		}
	})
}

// A worker that lost the race for the first row of an empty table waits for as long as rows appear.
func TestSync_takesOverOnlyFromAWorkerThatStopped(t *testing.T) {
	bubble(t, 40, func(ctx context.Context, w *world) {
		w.server.Inject(emulator.Rule{Client: "slow", Operation: "PutItem", Skip: 1, Effect: emulator.Delay(time.Second)})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.syncer("slow", config.TrimHorizon()).Sync(ctx); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			w.server.Inject(emulator.Rule{Client: "other", Operation: "PutItem", Effect: emulator.Delay(10 * time.Millisecond)})
			if ev, err := w.syncer("other", config.TrimHorizon()).Sync(ctx); err != nil || ev.Created != 0 {
				t.Errorf("%+v, %v", ev, err)
			}
		})
		wg.Wait()
		if len(w.rows()) != 40 {
			t.Errorf("rows %v", w.keys())
		}
	})
}

// A table that covers the ring costs one look at the table.
// A stop while a worker waits for what another one is about to create is no failure.
func TestSync_isNotReportedAsFailedWhenTheWorkerStops(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, w *world) {
		w.first()
		w.delete(1)
		s := w.syncer("w", config.TrimHorizon())
		stopped, stop := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { stop(errors.New("worker is stopping")) })
		if _, err := s.Sync(stopped); err == nil || !strings.Contains(err.Error(), "worker is stopping") {
			t.Errorf("Sync returned %v, want why it stopped", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, ev := range w.synced {
			if ev.Err != nil {
				t.Errorf("told as failed: %v", ev.Err)
			}
		}
	})
}

func TestSync_listsNoShardsIfNothingCanBeMissing(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, w *world) {
		if _, err := w.syncer("first", config.TrimHorizon()).Sync(ctx); err != nil {
			t.Fatal(err)
		}
		ev, err := w.syncer("second", config.Latest()).Sync(ctx)
		if err != nil || ev.Leases != 4 || ev.Created != 0 || ev.Shards != 0 {
			t.Errorf("%+v, %v", ev, err)
		}
		if n := w.requests("second", "ListShards").Requests; n != 0 {
			t.Errorf("%d listings", n)
		}
	})
}

// H11 to H14 of KCL's tests: a fault ends a run without harm, and the next run finishes the work.
func TestSync_resumesAfterAFault(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]emulator.Rule{
		"the table cannot be listed":   {Operation: "Scan", Times: 1, Effect: emulator.Fail(400, "AccessDeniedException", "")},
		"the first row cannot be made": {Operation: "PutItem", Times: 1, Effect: emulator.Fail(400, "AccessDeniedException", "")},
		"the third row cannot be made": {Operation: "PutItem", Skip: 2, Times: 1, Effect: emulator.Fail(400, "AccessDeniedException", "")},
		"the shards cannot be listed":  {Operation: "ListShards", Times: 1, Effect: emulator.Fail(400, "AccessDeniedException", "")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 6, func(ctx context.Context, w *world) {
				rule.Client = "w"
				w.server.Inject(rule)
				s := w.syncer("w", config.TrimHorizon())
				if ev, err := s.Sync(ctx); err == nil || !errors.Is(err, ev.Err) || !strings.Contains(err.Error(), stream) {
					t.Errorf("%+v, %v", ev, err)
				}
				if _, err := s.Sync(ctx); err != nil || len(w.rows()) != 6 {
					t.Errorf("%v, rows %v", err, w.keys())
				}
				if ev, err := s.Sync(ctx); err != nil || ev.Created != 0 {
					t.Errorf("%+v, %v", ev, err)
				}
			})
		})
	}
}

// E8: three incomplete listings are an error and create nothing; a listing that becomes whole is waited for.
func TestSync_neverActsOnHalfAListing(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, w *world) {
		listings, bad := 0, 99
		s := w.syncer("w", config.TrimHorizon(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard {
			if listings++; listings <= bad {
				return shards[1:]
			}
			return shards
		})
		if _, err := s.Sync(ctx); !errors.Is(err, shardsync.ErrInconsistent) || listings != 3 || len(w.rows()) != 0 {
			t.Errorf("%v after %d listings, rows %v", err, listings, w.keys())
		}
		listings, bad = 0, 2
		if ev, err := s.Sync(ctx); err != nil || ev.Created != 4 {
			t.Errorf("%+v, %v", ev, err)
		}
	})
}

func TestSync_saysThatThereIsNoSuchStream(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := shardsync.NewHierarchicalShardSyncer(w.newTable("w"), retrieval.NewShardDetector(w.user, retrieval.DetectorOptions{Region: "us-east-1"}),
			shardsync.SyncerOptions{Stream: "order"})
		_, err := s.Sync(ctx)
		if !errors.Is(err, shardsync.ErrStreamNotFound) || !strings.Contains(err.Error(), `"order"`) {
			t.Errorf("Sync: %v", err)
		}
	})
}
