package shardlease_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// No listing of shards succeeds while a shard ends: its children are read all the same, for the end itself names them.
func TestFleet_readsChildrenAlthoughNoListingSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Start("a")
		f.Start("b")
		time.Sleep(20 * time.Second)
		for _, client := range []string{"a", "b"} {
			f.Server.Inject(emulator.Rule{Client: client, Operation: "ListShards", Effect: emulator.Fail(500, "InternalFailure", "no")})
		}
		f.PutEverywhere()
		f.Split(f.Open()[0])
		f.PutEverywhere()
		if took := f.WaitDelivered(10 * time.Second); took > 3*time.Second {
			t.Errorf("the children were read after %v, want 3s", took)
		}
		f.Check()
	})
}

var scaleShards = flag.Int("scale-shards", 22, "shards of TestFleet_readsEveryShardOfAStreamThatIsScaledUnderLoad; users met it with 110")

// A stream is scaled up by a tenth and then down to half of that under load: nothing is lost, and within a minute each open shard's
// checkpoint has moved.
func TestFleet_readsEveryShardOfAStreamThatIsScaledUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := int32(*scaleShards)
		more := (first + first/10) &^ 1
		f := fleettest.New(t, *scaleShards)
		for i := range 3 {
			f.Start(fmt.Sprint("w", i), func(c *config.Config) { c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = 2*time.Second, 5*time.Second })
		}
		time.Sleep(30 * time.Second)
		stream := fleettest.Stream
		for _, n := range []int32{more, more / 2} {
			f.Put(300, 100)
			if _, err := f.Kinesis.UpdateShardCount(t.Context(), &kinesis.UpdateShardCountInput{
				StreamName: &stream, TargetShardCount: &n, ScalingType: kinesistypes.ScalingTypeUniformScaling,
			}); err != nil {
				t.Fatal(err)
			}
			f.Put(300, 100)
			time.Sleep(30 * time.Second)
			before := f.Rows()
			f.PutEverywhere()
			time.Sleep(time.Minute)
			open := f.Open()
			if len(open) != int(n) {
				t.Fatalf("%d open shards, want %d", len(open), n)
			}
			after := f.Rows()
			for _, id := range open {
				was, _ := before[id]["checkpoint"].(*types.AttributeValueMemberS)
				is, ok := after[id]["checkpoint"].(*types.AttributeValueMemberS)
				if !ok || was != nil && was.Value == is.Value {
					t.Errorf("the checkpoint of %s has not moved in a minute", id)
				}
			}
		}
		f.WaitDelivered(10 * time.Second)
		f.Check()
	})
}

// Twenty shards end within a second, while a listing of shards takes two seconds: all children are read soon, and nobody lists
// shards once for each of them.
func TestFleet_readsTheChildrenOfTwentyShardsThatEndTogetherWithFewListings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 20)
		f.Start("a")
		f.Start("b")
		time.Sleep(30 * time.Second)
		for _, client := range []string{"a", "b"} {
			f.Server.Inject(emulator.Rule{Client: client, Operation: "ListShards", Effect: emulator.Delay(2 * time.Second)})
		}
		before := listings(f)
		for _, id := range f.Open() {
			f.Split(id)
		}
		f.PutEverywhere()
		took := f.WaitDelivered(10 * time.Second)
		time.Sleep(10 * time.Second)
		if n := listings(f) - before; n > 4 {
			t.Errorf("%d listings for 20 ends, want 4 at most", n)
		}
		f.Check()
		t.Logf("40 children read after %v, %d listings", took, listings(f)-before)
	})
}

// A hundred shards end at once and every listing is throttled; a stop obeys its deadline nevertheless.
func TestStop_obeysItsDeadlineWhileManyShardsEndAndListingsAreThrottled(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 100)
		w := f.Start("w")
		time.Sleep(30 * time.Second)
		f.Server.Inject(emulator.Rule{Client: "w", Operation: "ListShards", Effect: emulator.Throttle()})
		for _, id := range f.Open() {
			f.Split(id)
		}
		time.Sleep(300 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := w.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the stop took %v with a deadline of 10s", took)
		}
		if keys := owned(f); len(keys) > 0 {
			t.Errorf("%d leases are still owned", len(keys))
		}
	})
}

// Shards were split and merged and read to their end, and their rows are kept. In 20 restarts nobody reads them again, what is open
// is read at once, nothing comes twice, nothing is logged that needs a look, and no request needs a secondary index.
func TestRun_neverReadsFinishedShardsAgainInTwentyRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 3)
		var lines atomic.Int64
		w := f.Start("w", keepRows, countingLines(&lines))
		f.Put(100, 20)
		f.WaitDelivered(5 * time.Second)
		closed := f.Open()
		f.Split(closed[0])
		f.Merge(closed[1], closed[2])
		f.Put(100, 20)
		f.WaitDelivered(10 * time.Second)
		time.Sleep(10 * time.Second)
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		fetches := map[string]int{}
		queries := 0
		defer f.Server.Observe(func(e emulator.Event) {
			if e.Operation == "Query" || e.Operation == "UpdateTable" {
				mu.Lock()
				defer mu.Unlock()
				queries++
			}
		})()
		for n := range fleettest.Shorter(20, 8) {
			f.PutEverywhere()
			w := f.Start(fmt.Sprint("w", n), keepRows, countingLines(&lines), func(c *config.Config) {
				c.Hooks = &config.Hooks{Fetched: func(e config.FetchEvent) { mu.Lock(); defer mu.Unlock(); fetches[e.LeaseKey]++ }}
			})
			if took := f.WaitDelivered(5 * time.Second); t.Failed() {
				t.Fatalf("restart %d: the open shards were not read in %v", n, took)
			}
			time.Sleep(10 * time.Second)
			if err := w.Stop(); err != nil {
				t.Errorf("stop %d: %v", n, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range closed {
			if fetches[id] > 0 {
				t.Errorf("finished shard %s was read %d times", id, fetches[id])
			}
		}
		if d := f.Check(); d != 0 || len(fetches) != 3 || lines.Load() != 0 || queries != 0 {
			t.Errorf("%d duplicates, %d shards read, %d lines of log from WARN on, %d requests that concern indexes; want 0, 3, 0 and 0", d, len(fetches), lines.Load(), queries)
		}
	})
}

// The parent of a split lags: whoever looks sees how far it is behind, and no child yet; soon after its end the children are read.
func TestAssignments_showThatAParentLagsWhoseChildrenAreNotReadYet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		parent := f.Open()[0]
		f.Put(2000, 20)
		time.Sleep(2 * time.Minute)
		f.Put(100, 20)
		f.Split(parent)
		f.Put(100, 20)
		gate := make(chan struct{})
		w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor {
			return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
				<-gate
				f.Audit.Deliver("w", in)
				return in.Checkpointer.Checkpoint(ctx)
			})
		}, func(c *config.Config) { c.Retrieval.MaxRecords = 1000 })
		gate <- struct{}{}
		time.Sleep(10 * time.Second)
		shown := w.Assignments()
		if len(shown) != 1 || shown[0].ShardID != parent || shown[0].State != "Processing" || shown[0].MillisBehindLatest < 100_000 {
			t.Errorf("assignments %+v, want the parent alone, minutes behind", shown)
		}
		if rows := f.Rows(); len(rows) != 1 {
			t.Errorf("%d rows, want no child's before the end of the parent", len(rows))
		}
		close(gate)
		if took := f.WaitDelivered(30 * time.Second); took > 5*time.Second {
			t.Errorf("the rest of the parent and its children were read after %v, want 5s", took)
		}
		f.Check()
	})
}

// Closed shards with unread records are read before their children by a worker that starts later.
func TestRun_readsClosedShardsThatNobodyHasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 3)
		f.Put(1000, 50)
		open := f.Open()
		f.Split(open[0])
		f.Merge(open[1], open[2])
		f.Put(1000, 50)
		time.Sleep(time.Minute)
		f.Start("w")
		f.WaitDelivered(20 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
	})
}

// Four shards are merged into two while two of three workers stop: the rows of the four go, and nothing is lost.
func TestFleet_removesFinishedRowsAfterStreamAndFleetShrankTogether(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 200 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(fmt.Sprint("workers stop ", after, " after the merge"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 4)
				workers := []*fleettest.Worker{f.Start("a"), f.Start("b"), f.Start("c")}
				time.Sleep(30 * time.Second)
				f.Put(200, 20)
				open := f.Open()
				f.Merge(open[0], open[1])
				f.Merge(open[2], open[3])
				f.Put(200, 20)
				time.Sleep(after)
				var group sync.WaitGroup
				for _, w := range workers[:2] {
					group.Go(func() {
						if err := w.Stop(); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
				f.PutEverywhere()
				f.WaitDelivered(20 * time.Second)
				time.Sleep(3 * time.Minute)
				if rows := slices.Collect(maps.Keys(f.Rows())); len(rows) != 2 {
					t.Errorf("rows %v are left, want those of the two open shards", rows)
				}
				f.Check()
			})
		})
	}
}
