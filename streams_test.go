package shardlease_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// several makes a configuration one of several streams.
func several(streams ...config.StreamConfig) func(*config.Config) {
	return func(c *config.Config) { c.StreamName, c.Streams = "", streams }
}

// unhurried is several with fewer requests, for tests of many hours or many leases.
func unhurried(failover time.Duration, streams ...config.StreamConfig) func(*config.Config) {
	return func(c *config.Config) {
		several(streams...)(c)
		c.LeaseManagement.FailoverTime = failover
		c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = 2*time.Second, 20*time.Second
	}
}

// named are configurations of streams with these names.
func named(names ...string) (all []config.StreamConfig) {
	for _, n := range names {
		all = append(all, config.StreamConfig{StreamName: n})
	}
	return all
}

// fleetOf makes a fleet over streams of so many shards each.
func fleetOf(t *testing.T, shards int, streams ...string) *fleettest.Fleet {
	t.Helper()
	return fleettest.NewWith(t, func(create func(string, int)) {
		for _, s := range streams {
			create(s, shards)
		}
	})
}

// rowsOf counts the rows of the lease table by the names of their streams, and by stream and owner.
func rowsOf(f *fleettest.Fleet) (byStream map[string]int, byOwner map[string]int) {
	byStream, byOwner = map[string]int{}, map[string]int{}
	for key, row := range f.Rows() {
		byStream[strings.Split(key, ":")[1]]++
		if owner, ok := row["leaseOwner"].(*types.AttributeValueMemberS); ok {
			byOwner[owner.Value]++
		}
	}
	return byStream, byOwner
}

// tracker is a StreamTracker that a test changes.
type tracker struct {
	mu      sync.Mutex
	streams []config.StreamConfig
	err     error
}

func (t *tracker) Streams(context.Context) ([]config.StreamConfig, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.streams), t.err
}

func (t *tracker) set(err error, streams ...config.StreamConfig) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.streams, t.err = streams, err
}

func TestNew_refusesATrackerThatIsNil(t *testing.T) {
	t.Parallel()
	cfg := config.Default("orders-audit", "")
	_, err := shardlease.New(cfg, emulator.New().AWSConfig(), processor.Each(func(context.Context, processor.Record) error { return nil }), shardlease.WithStreamTracker(nil))
	if err == nil || !strings.Contains(err.Error(), "WithStreamTracker was given nil, want a StreamTracker") || strings.Contains(err.Error(), `StreamName is ""`) {
		t.Errorf("error %v", err)
	}
}

func TestStreams_areSharedByAFleetLikeOneStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.NewWith(t, func(create func(string, int)) {
			create("a", 4)
			create("b", 2)
			create("c", 6)
		})
		for _, s := range []string{"a", "b", "c"} {
			f.PutInto(s, 200, 20)
		}
		for i := range 3 {
			f.Start(fmt.Sprint("w", i), several(named("a", "b", "c")...))
		}
		// Leases are there after the first look, and who has created some looks again within a second.
		if took := f.WaitDelivered(30 * time.Second); took > 6*time.Second {
			t.Errorf("the first records of an empty table came after %v", took)
		}
		time.Sleep(30 * time.Second)
		byStream, byOwner := rowsOf(f)
		if byStream["a"] != 4 || byStream["b"] != 2 || byStream["c"] != 6 || len(byStream) != 3 {
			t.Errorf("rows by stream %v", byStream)
		}
		for w, n := range byOwner {
			if n != 4 {
				t.Errorf("%s holds %d of 12 leases of three workers", w, n)
			}
		}
		for key, row := range f.Rows() {
			stream, _ := row["streamName"].(*types.AttributeValueMemberS)
			shard, _ := row["shardId"].(*types.AttributeValueMemberS)
			if stream == nil || shard == nil || key != stream.Value+":"+shard.Value {
				t.Errorf("row %s has streamName %v and shardId %v", key, row["streamName"], row["shardId"])
			}
		}
		if d := f.Check(); d != 0 {
			t.Errorf("%d records came twice", d)
		}
	})
}

// Leases of several streams move between living workers as those of one do: asked for, handed over, nothing comes twice.
func TestStreams_areHandedOverBetweenLivingWorkersWithoutRepeating(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 4, "a", "b")
		streams := several(named("a", "b")...)
		f.Start("w0", streams)
		stop := make(chan struct{})
		var putting sync.WaitGroup
		putting.Go(func() {
			for {
				f.PutInto("a", 20, 20)
				f.PutInto("b", 20, 20)
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
			}
		})
		time.Sleep(30 * time.Second)
		w1 := f.Start("w1", streams)
		time.Sleep(time.Minute)
		_, byOwner := rowsOf(f)
		if byOwner["w0"] != 4 || byOwner["w1"] != 4 {
			t.Errorf("leases by owner %v, want 4 each", byOwner)
		}
		if err := w1.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		close(stop)
		putting.Wait()
		f.WaitDelivered(20 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d records came twice", d)
		}
		if moves := f.Audit.Moves(); len(moves) < 8 {
			t.Errorf("%d moves, want 4 to the second worker and 4 back", len(moves))
		}
	})
}

// A stream that is split, and whose shards end: children get their leases under the same stream's keys, wait for their
// parents, and finished rows go. A worker that dies meanwhile is replaced.
func TestStreams_goThroughReshardsAndADeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 2, fleettest.Stream, "bills")
		streams := several(named(fleettest.Stream, "bills")...)
		f.Start("w0", streams)
		doomed := f.Start("w1", streams)
		f.Start("w2", streams)
		put := func() { f.Put(50, 10); f.PutInto("bills", 50, 10) }
		put()
		f.WaitDelivered(10 * time.Second)
		f.Split("shardId-000000000000")
		put()
		f.WaitDelivered(10 * time.Second)
		doomed.Kill()
		f.Merge("shardId-000000000003", "shardId-000000000001")
		put()
		f.WaitDelivered(time.Minute)
		f.Check()
		time.Sleep(5 * time.Minute)
		var keys []string
		for key := range f.Rows() {
			if strings.Contains(key, ":"+fleettest.Stream+":") {
				keys = append(keys, key[strings.LastIndex(key, ":")+1:])
			}
		}
		slices.Sort(keys)
		if want := []string{"shardId-000000000002", "shardId-000000000004"}; !slices.Equal(keys, want) {
			t.Errorf("rows of the stream that was split and merged: %v, want %v", keys, want)
		}
	})
}

func TestStreams_startEachAtItsOwnPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 1, "all", "new", "since")
		for _, s := range []string{"all", "new", "since"} {
			f.PutInto(s, 10, 1)
		}
		time.Sleep(time.Minute)
		at := time.Now()
		f.PutInto("since", 5, 1)
		time.Sleep(time.Minute)
		f.Start("w0", several(
			config.StreamConfig{StreamName: "all"},
			config.StreamConfig{StreamName: "new", InitialPosition: config.Latest()},
			config.StreamConfig{StreamName: "since", InitialPosition: config.AtTimestamp(at)},
		))
		time.Sleep(10 * time.Second)
		if n := f.Audit.Distinct(); n != 15 {
			t.Errorf("%d records were delivered, want the 10 of one stream and 5 of another", n)
		}
		pins := map[string]bool{}
		for key, row := range f.Rows() {
			pins[strings.Split(key, ":")[1]] = row["startAtMillis"] != nil
		}
		if pins["all"] || !pins["new"] || !pins["since"] {
			t.Errorf("pins %v", pins)
		}
		f.PutInto("new", 5, 1)
		time.Sleep(5 * time.Second)
		if n := f.Audit.Distinct(); n != 20 {
			t.Errorf("%d records were delivered, want those too that came to a stream at LATEST", n)
		}
	})
}

// Workers that start on an empty table all create its rows. One that was slower with each of them once slept for a LeaseTakerInterval then,
// half a FailoverTime, while the others took everything.
func TestStreams_areSharedAtOnceWithAWorkerWhoseEveryRowAnotherHasCreated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e"}
		f := fleetOf(t, 4, names...)
		f.Server.Inject(emulator.Rule{Client: "slow", Operation: "PutItem", Effect: emulator.Delay(time.Second)})
		for _, w := range []string{"fast", "slow"} {
			f.Start(w, unhurried(time.Minute, named(names...)...))
		}
		time.Sleep(10 * time.Second)
		_, byOwner := rowsOf(f)
		if byOwner["fast"] != 10 || byOwner["slow"] != 10 {
			t.Errorf("%v, want 10 leases each", byOwner)
		}
		f.Check()
	})
}

// What cannot be listed has no rows to look for: a look at the table for each try would be one a second with enough streams.
func TestStreams_whoseAuditsFailAreNoReasonToLookAtTheTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 60 {
			names = append(names, fmt.Sprintf("s%02d", i))
		}
		f := fleetOf(t, 1, names...)
		f.Server.Inject(emulator.Rule{Operation: "ListShards", Effect: emulator.Fail(500, "InternalFailure", "no")})
		var looks atomic.Int64
		f.Start("w", unhurried(10*time.Second, named(names...)...), func(c *config.Config) {
			c.Hooks = &config.Hooks{WorkerLooked: func(config.LookEvent) { looks.Add(1) }}
		})
		time.Sleep(2 * time.Minute)
		if n := looks.Load(); n < 10 || n > 40 {
			t.Errorf("%d looks at the table in two minutes, want one each 5 s", n)
		}
	})
}

var manyStreams = flag.Int("many-streams", 60, "streams of TestStreams_areSharedEvenlyIfTheyAreMany")

func TestStreams_areSharedEvenlyIfTheyAreManyAndStartFast(t *testing.T) {
	t.Parallel()
	streams := *manyStreams
	const shards, workers = 10, 3
	if testing.Short() {
		streams = min(streams, 20)
	}
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range streams {
			names = append(names, fmt.Sprintf("s%03d", i))
		}
		f := fleetOf(t, shards, names...)
		for _, s := range names {
			f.PutInto(s, shards, shards)
		}
		idle := func(c *config.Config) {
			unhurried(time.Minute, named(names...)...)(c)
			c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = time.Minute, time.Minute
		}
		began := time.Now()
		for i := range workers {
			f.Start(fmt.Sprint("w", i), idle)
		}
		took := f.WaitDelivered(time.Minute)
		for len(f.Rows()) < streams*shards {
			time.Sleep(time.Second)
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("%d rows", len(f.Rows()))
			}
		}
		t.Logf("every stream was begun after %v, all rows there after %v", took, time.Since(began))
		time.Sleep(20 * time.Second)
		_, byOwner := rowsOf(f)
		for w, n := range byOwner {
			if n < streams*shards/workers-1 || n > streams*shards/workers+1 {
				t.Errorf("%s holds %d of %d leases", w, n, streams*shards)
			}
		}
		counts := f.Server.Counts()
		for _, op := range []string{"ListShards", "DescribeStreamSummary"} {
			t.Logf("%s: %d", op, counts.Of(emulator.CountKey{Service: emulator.Kinesis, Operation: op}).Requests)
		}
		t.Logf("PutItem: %d", counts.Of(emulator.CountKey{Service: emulator.DynamoDB, Operation: "PutItem"}).Requests)
		t.Logf("Scan: %d", counts.Of(emulator.CountKey{Service: emulator.DynamoDB, Operation: "Scan"}).Requests)
		f.Check()
	})
}
