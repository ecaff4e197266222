package shardlease_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
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
