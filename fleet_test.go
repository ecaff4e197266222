package shardlease_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

func TestFleet_readsASmallStreamWithinASecondOfItsFirstStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Put(1000, 50)
		f.Start("lone")
		if took := f.WaitDelivered(10 * time.Second); took > time.Second {
			t.Errorf("all of 4 shards were read after %v, want 1s", took)
		}
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
	})
}

func TestFleet_sharesAStreamEvenlyAndRepeatsNothingWhileAllIsWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		var workers []*fleettest.Worker
		for i := range 3 {
			workers = append(workers, f.Start(fmt.Sprint("w", i)))
			f.Put(200, 20)
		}
		for range 60 {
			time.Sleep(time.Second)
			f.Put(100, 20)
		}
		f.WaitDelivered(5 * time.Second)
		var counts []int
		for _, w := range workers {
			counts = append(counts, len(w.Assignments()))
		}
		if slices.Sort(counts); !slices.Equal(counts, []int{1, 1, 2}) {
			t.Errorf("leases of the workers: %v, want 1, 1 and 2", counts)
		}
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
		f.Server.ResetCounts()
		time.Sleep(3 * time.Minute)
		var requests int64
		for key, c := range f.Server.Counts() {
			if key.Service == "dynamodb" {
				requests += c.Requests
				if c.FailedConditions > 0 {
					t.Errorf("%d failed conditions of %s by %s in an idle fleet", c.FailedConditions, key.Operation, key.Client)
				}
			}
		}
		t.Logf("idle: %.1f requests a minute and lease", float64(requests)/3/4)
	})
}

func TestFleet_takesOverFromAKilledWorkerWithinOneAndAHalfFailoverTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		workers := []*fleettest.Worker{f.Start("a"), f.Start("b"), f.Start("c")}
		for range 20 {
			f.Put(100, 20)
			time.Sleep(time.Second)
		}
		victim := workers[1]
		mine := victim.Assignments()
		if len(mine) == 0 {
			t.Fatal("the worker to be killed holds nothing after 20 s")
		}
		before := map[string]int64{}
		for _, a := range mine {
			before[a.LeaseKey] = a.Token
		}
		victim.Kill()
		killed := time.Now()
		f.Put(1000, 20)
		took := f.WaitDelivered(30 * time.Second)
		t.Logf("killed with %d leases; all delivered %v later", len(mine), took)
		if limit := 15 * time.Second; took > limit {
			t.Errorf("the leases of a killed worker were read after %v, want %v at most", time.Since(killed), limit)
		}
		for key, token := range before {
			if now := f.Audit.Token(key); now <= token {
				t.Errorf("lease %s: token %d after the takeover, %d before, want a larger one", key, now, token)
			}
		}
		t.Logf("%d duplicates", f.Check())
	})
}

func TestFleet_keepsOrderAcrossASplitAndAMerge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		for i := range 3 {
			f.Start(fmt.Sprint("w", i))
		}
		time.Sleep(5 * time.Second)
		stream := fleettest.Stream
		f.Put(500, 40)
		split := f.Open()[0]
		if _, err := f.Kinesis.SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: &stream, ShardToSplit: &split, NewStartingHashKey: aws.String("1000000000000000000000000000000000000"),
		}); err != nil {
			t.Fatal(err)
		}
		f.Put(500, 40)
		if took := f.WaitDelivered(20 * time.Second); took > 3*time.Second {
			t.Errorf("records of a split shard's children were read after %v, want 3s", took)
		}
		open := f.Open()
		if _, err := f.Kinesis.MergeShards(t.Context(), &kinesis.MergeShardsInput{
			StreamName: &stream, ShardToMerge: aws.String("shardId-000000000001"), AdjacentShardToMerge: aws.String("shardId-000000000002"),
		}); err != nil {
			t.Fatalf("merge among %v: %v", open, err)
		}
		f.Put(500, 40)
		if took := f.WaitDelivered(20 * time.Second); took > 3*time.Second {
			t.Errorf("records of a merge's child were read after %v, want 3s", took)
		}
		t.Logf("%d duplicates", f.Check())
	})
}

func TestFleet_losesNothingInARollingRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 8)
		old := []*fleettest.Worker{f.Start("a1"), f.Start("b1"), f.Start("c1")}
		busy := func(seconds int) {
			for range seconds {
				f.Put(50, 20)
				time.Sleep(time.Second)
			}
		}
		busy(30)
		for i, w := range old {
			if err := w.Stop(); err != nil {
				t.Errorf("stop worker %s: %v", w.ID, err)
			}
			f.Start(fmt.Sprintf("%c2", 'a'+i))
			busy(20)
		}
		f.WaitDelivered(20 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
	})
}

func TestFleet_missesNothingAfterItsFirstStartAtLatest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		atLatest := func(c *config.Config) { c.InitialPosition = config.Latest() }
		w := f.Start("first", atLatest)
		<-w.Ready()
		w.Kill() // before its first checkpoint
		f.Put(200, 10)
		stream, one := fleettest.Stream, "shardId-000000000001"
		if _, err := f.Kinesis.SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: &stream, ShardToSplit: &one, NewStartingHashKey: aws.String("255000000000000000000000000000000000000"),
		}); err != nil {
			t.Fatal(err)
		}
		f.Put(200, 10)
		time.Sleep(time.Minute)
		f.Start("second", atLatest)
		f.WaitDelivered(time.Minute)
		f.Check()
	})
}

// mute is a processor that never checkpoints and reports nothing: what it was given has to come again, to somebody else.
type mute struct{ processor.Base }

func (mute) ProcessRecords(context.Context, processor.ProcessRecordsInput) error { return nil }

func (mute) ShutdownRequested(context.Context, processor.ShutdownRequestedInput) error { return nil }

func (mute) ShardEnded(ctx context.Context, _ processor.ShardEndedInput) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestFleet_missesNothingAtLatestOverASplitAMergeAndAStealBeforeTheFirstCheckpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ watched, alone bool }{
		"resharded while workers live":       {watched: true},
		"resharded when all are dead":        {alone: true},
		"resharded before and after the end": {watched: true, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { latestOverReshards(t, c.watched, c.alone) })
		})
	}
}

// latestOverReshards reshards while workers that never checkpoint live, when all of them are dead, or both times. What
// counts is what the workers after them are given.
func latestOverReshards(t *testing.T, watched, alone bool) {
	t.Helper()
	f := fleettest.New(t, 4)
	stolen := map[string]string{}
	var mu sync.Mutex
	atLatest := func(c *config.Config) { c.InitialPosition = config.Latest() }
	thieving := func(c *config.Config) {
		c.Hooks = &config.Hooks{LeaseTaken: func(e config.LeaseEvent) {
			mu.Lock()
			defer mu.Unlock()
			stolen[e.LeaseKey] = e.From
		}}
	}
	silent := func(processor.Shard) processor.RecordProcessor { return mute{} }
	splitAndMerge := func() {
		open := f.OpenShards()
		slices.SortFunc(open, func(a, b types.Shard) int {
			return cmp.Or(cmp.Compare(len(*a.HashKeyRange.StartingHashKey), len(*b.HashKeyRange.StartingHashKey)), cmp.Compare(*a.HashKeyRange.StartingHashKey, *b.HashKeyRange.StartingHashKey))
		})
		f.Split(*open[0].ShardId)
		f.Put(40, 10)
		f.Merge(*open[2].ShardId, *open[3].ShardId)
	}

	dead := []*fleettest.Worker{f.StartWith("a", silent, atLatest), f.StartWith("b", silent, atLatest)}
	for _, w := range dead {
		<-w.Ready()
	}
	if rows := len(f.Rows()); rows != 4 {
		t.Fatalf("%d rows when the workers are ready, want 4", rows)
	}
	f.Put(200, 10)
	time.Sleep(10 * time.Second)
	dead = append(dead, f.StartWith("thief", silent, atLatest, thieving))
	time.Sleep(10 * time.Second)
	mu.Lock()
	if !slices.ContainsFunc(slices.Collect(maps.Values(stolen)), func(from string) bool { return from != "" }) {
		t.Errorf("the third worker took %v, want a lease of another's", stolen)
	}
	mu.Unlock()
	f.Put(200, 10)
	if watched {
		splitAndMerge()
		f.Put(200, 10)
		time.Sleep(20 * time.Second)
	}
	for key, row := range f.Rows() {
		if at := row["checkpoint"].(*dynamodbtypes.AttributeValueMemberS).Value; at != "LATEST" && at != "TRIM_HORIZON" {
			t.Errorf("lease %s has checkpoint %s before anybody checkpointed", key, at)
		}
	}
	for _, w := range dead {
		w.Kill()
	}
	f.Put(200, 10)
	if alone {
		splitAndMerge()
		f.Put(200, 10)
	}
	time.Sleep(time.Minute)
	f.Start("c", atLatest)
	f.Start("d", atLatest)
	f.WaitDelivered(time.Minute)
	f.PutEverywhere()
	f.WaitDelivered(time.Minute)
	t.Logf("produced %d, duplicates %d, rows %d, open shards %d", f.Produced(), f.Check(), len(f.Rows()), len(f.Open()))
}
