package shardlease_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// The tests of the files problems_*_test.go are of what users of such libraries met: docs/track-record.md has a row for each.

// seldom reads shards so rarely that records do not matter.
func seldom(c *config.Config) {
	c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = 2*time.Minute, 4*time.Minute
}

// keepRows keeps the rows of finished shards.
func keepRows(c *config.Config) {
	c.Cleanup.Interval, c.Cleanup.GarbageInterval = 24*time.Hour, 24*time.Hour
}

// everyOwnerKnows tells whether each row has an owner, and that worker holds it and nobody else does.
func everyOwnerKnows(f *fleettest.Fleet, workers ...*fleettest.Worker) bool {
	holders := map[string][]string{}
	for _, w := range workers {
		for _, a := range w.Assignments() {
			holders[a.LeaseKey] = append(holders[a.LeaseKey], w.ID)
		}
	}
	for key, row := range f.Rows() {
		owner, ok := row["leaseOwner"].(*types.AttributeValueMemberS)
		if !ok || !slices.Equal(holders[key], []string{owner.Value}) {
			return false
		}
	}
	return true
}

// A worker whose processor panics whenever it is given records of one shard is killed, at 20 random moments, beside a healthy one:
// that one reads everything in time each time, and nothing needs a restart.
func TestFleet_readsOnWheneverAWorkerThatPanicsIsKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const shards = 5
		rounds := 20
		if testing.Short() {
			rounds = 5
		}
		f := fleettest.New(t, shards)
		random := rand.New(rand.NewPCG(1, 0))
		healthy := f.Start("healthy")
		panics := 0
		var mu sync.Mutex
		for n := range rounds {
			var bad string
			id := fmt.Sprint("ill", n)
			ill := f.StartWith(id, func(s processor.Shard) processor.RecordProcessor {
				mu.Lock()
				defer mu.Unlock()
				if bad == "" {
					bad = s.ID
				}
				return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
					mu.Lock()
					if s.ID == bad {
						panics++
						mu.Unlock()
						panic("bad record")
					}
					mu.Unlock()
					f.Audit.Deliver(id, in)
					return in.Checkpointer.Checkpoint(ctx)
				})
			})
			time.Sleep(12 * time.Second)
			f.PutEverywhere()
			time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
			if len(ill.Assignments()) == 0 {
				t.Errorf("round %d: the worker to be killed holds nothing", n)
			}
			ill.Kill()
			const limit = 25 * time.Second // two failover times and a look
			died := time.Now()
			for len(healthy.Assignments()) < shards && time.Since(died) < limit {
				time.Sleep(100 * time.Millisecond)
			}
			if f.WaitDelivered(limit - time.Since(died)); t.Failed() || len(healthy.Assignments()) != shards {
				t.Fatalf("round %d: %v after the death the survivor holds %d leases, want all %d, and everything read", n, limit, len(healthy.Assignments()), shards)
			}
		}
		f.Check()
		if panics < rounds {
			t.Errorf("%d panics, want one in each of %d rounds at least", panics, rounds)
		}
	})
}

// Twelve shards were read to their end and their rows are kept: they weigh nothing when leases are shared, and nobody asks Kinesis
// for them any more.
func TestFleet_neitherWeighsNorReadsFinishedShards(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		var mu sync.Mutex
		fetches := map[string]int{}
		var fleet []*fleettest.Worker
		for i := range 4 {
			fleet = append(fleet, f.Start(fmt.Sprint("w", i), keepRows, func(c *config.Config) {
				c.Retrieval.MaxIdleTime = 20 * time.Second
				c.Hooks = &config.Hooks{Fetched: func(e config.FetchEvent) {
					mu.Lock()
					defer mu.Unlock()
					fetches[e.LeaseKey]++
				}}
			}))
		}
		time.Sleep(20 * time.Second)
		var closed []string
		for range 2 {
			open := f.Open()
			for _, id := range open {
				f.Split(id)
			}
			closed = append(closed, open...)
			f.PutEverywhere()
			f.WaitDelivered(time.Minute)
		}
		time.Sleep(time.Minute)
		if rows := len(f.Rows()); rows != 28 {
			t.Fatalf("%d rows, want those of 12 finished and 16 open shards", rows)
		}
		for _, w := range fleet {
			open := 0
			for _, a := range w.Assignments() {
				if a.State != "Finished" {
					open++
				}
			}
			if open < 3 || open > 5 {
				t.Errorf("worker %s holds %d open shards of 16 for 4 workers, want 4 or one more or less", w.ID, open)
			}
		}
		mu.Lock()
		clear(fetches)
		mu.Unlock()
		iterators := 0
		defer f.Server.Observe(func(e emulator.Event) {
			if e.Operation == "GetShardIterator" && slices.ContainsFunc(closed, func(id string) bool { return strings.Contains(string(e.Request), id) }) {
				mu.Lock()
				defer mu.Unlock()
				iterators++
			}
		})()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		reads := 0
		for _, id := range closed {
			reads += fetches[id]
		}
		if reads != 0 || iterators != 0 || len(fetches) != 16 {
			t.Errorf("%d reads and %d iterators of finished shards in ten minutes, and %d shards read, want 0, 0 and 16", reads, iterators, len(fetches))
		}
		f.Check()
	})
}

var startWorkers = flag.Int("start-workers", 5, "workers of TestFleet_startedAtOnceSharesEvenlyAndGivesOneMoreItsShare, for eight shards each; users had 20")

// Workers that start within a second share a stream evenly and then move nothing; one more worker has its share within three looks,
// and no lease moves twice for it.
func TestFleet_startedAtOnceSharesEvenlyAndGivesOneMoreItsShare(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { startAtOnce(t, *startWorkers, 8**startWorkers) })
}

func startAtOnce(t *testing.T, workers, shards int) {
	t.Helper()
	f := fleettest.New(t, shards)
	var mu sync.Mutex
	taken := map[string]int{}
	takes := func() (n, most int) {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range taken {
			n, most = n+k, max(most, k)
		}
		return n, most
	}
	forget := func() {
		mu.Lock()
		defer mu.Unlock()
		clear(taken)
	}
	noting := func(c *config.Config) {
		c.Hooks = &config.Hooks{LeaseTaken: func(e config.LeaseEvent) {
			mu.Lock()
			defer mu.Unlock()
			taken[e.LeaseKey]++
		}}
	}
	var fleet []*fleettest.Worker
	for i := range workers {
		fleet = append(fleet, f.Start(fmt.Sprintf("w%02d", i), seldom, noting))
		time.Sleep(time.Second / time.Duration(workers))
	}
	spread := func() (least, most int) {
		least = shards
		for _, w := range fleet {
			n := len(w.Assignments())
			least, most = min(least, n), max(most, n)
		}
		return least, most
	}
	time.Sleep(40 * time.Second)
	if least, most := spread(); most-least > 1 {
		t.Errorf("40s after the start workers hold %d to %d leases, want a difference of one at most", least, most)
	}
	forget()
	time.Sleep(time.Minute)
	if n, _ := takes(); n != 0 {
		t.Errorf("%d leases moved among workers that were balanced", n)
	}
	fleet = append(fleet, f.Start("one more", seldom, noting))
	time.Sleep(15 * time.Second)
	share := shards / (workers + 1)
	if n := len(fleet[workers].Assignments()); n < share {
		t.Errorf("one more worker holds %d leases after three looks, want %d", n, share)
	}
	time.Sleep(20 * time.Second)
	least, most := spread()
	if n, often := takes(); n > share+1 || often > 1 || most-least > 1 {
		t.Errorf("%d moves for one more worker, one lease %d times, and %d to %d leases then; want at most %d, once each, and a difference of one",
			n, often, least, most, share+1)
	}
}

func TestFleet_aLoneWorkerReadsFiftyShardsWithinTwoLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 50)
		f.PutEverywhere()
		w := f.Start("lone")
		if took := f.WaitDelivered(10 * time.Second); len(w.Assignments()) != 50 {
			t.Errorf("the worker holds %d of 50 leases after %v", len(w.Assignments()), took)
		}
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
	})
}

// One of two workers holds all six shards that are given a hundred times what the other six are given.
func TestFleet_evensOutWhatWorkersReadOnlyIfAskedTo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	for _, strategy := range []string{config.LeaseCount, config.ThroughputVariance} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 12)
				var mu sync.Mutex
				bytes := map[string]int{}
				change := func(c *config.Config) {
					c.LeaseManagement.AssignmentStrategy = strategy
					c.Retrieval.MaxIdleTime = 5 * time.Second
					c.Hooks = &config.Hooks{Fetched: func(e config.FetchEvent) {
						mu.Lock()
						defer mu.Unlock()
						bytes[e.Worker] += e.Bytes
					}}
				}
				workers := []*fleettest.Worker{f.Start("a", change), f.Start("b", change)}
				time.Sleep(30 * time.Second)
				hot := map[string]bool{}
				for _, a := range workers[0].Assignments() {
					hot[a.ShardID] = true
				}
				if len(hot) != 6 {
					t.Fatalf("worker a holds %d of 12 leases, want 6", len(hot))
				}
				var load []kinesistypes.Shard
				for _, s := range f.OpenShards() {
					n := 1
					if hot[*s.ShardId] {
						n = fleettest.Shorter(100, 20)
					}
					load = append(load, slices.Repeat([]kinesistypes.Shard{s}, n)...)
				}
				feed := func(d time.Duration) {
					for range d / (10 * time.Second) {
						f.PutEach(load)
						time.Sleep(10 * time.Second)
					}
				}
				feed(3 * time.Minute)
				mu.Lock()
				clear(bytes)
				mu.Unlock()
				feed(2 * time.Minute)
				f.WaitDelivered(10 * time.Second)
				mu.Lock()
				more, less := max(bytes["a"], bytes["b"]), min(bytes["a"], bytes["b"])
				mu.Unlock()
				t.Logf("bytes in two minutes: %d and %d, leases %d and %d", more, less, len(workers[0].Assignments()), len(workers[1].Assignments()))
				switch strategy {
				case config.ThroughputVariance:
					if float64(more-less) > 0.3*float64(more) {
						t.Errorf("workers read %d and %d bytes, want a difference of less than 30 %%", more, less)
					}
				default:
					if n := len(workers[0].Assignments()); n != 6 || more < 10*less {
						t.Errorf("worker a holds %d leases, workers read %d and %d bytes, want equal counts whatever they read", n, more, less)
					}
				}
				f.Check()
			})
		})
	}
}

// A processor that is busy for ten failover times in one batch keeps its lease, and no second reader or processor of its shard
// comes to be: neither in its own worker nor in a peer that has nothing to do.
func TestRun_keepsTheLeaseOfAProcessorThatIsBusyForTenFailoverTimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shards int
		peer   bool
	}{
		"alone, eight shards":           {shards: 8},
		"one shard, and a peer is idle": {shards: 1, peer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, c.shards)
				f.PutEverywhere()
				var made, lost atomic.Int64
				release := make(chan struct{})
				var iterators atomic.Int64
				defer f.Server.Observe(func(e emulator.Event) {
					if e.Operation == "GetShardIterator" {
						iterators.Add(1)
					}
				})()
				busy := f.StartWith("busy", func(processor.Shard) processor.RecordProcessor {
					made.Add(1)
					return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
						<-release
						f.Audit.Deliver("busy", in)
						return in.Checkpointer.Checkpoint(ctx)
					})
				}, func(c *config.Config) { c.Hooks = &config.Hooks{LeaseLost: func(config.LeaseEvent) { lost.Add(1) }} })
				<-busy.Ready()
				time.Sleep(5 * time.Second)
				var peer *fleettest.Worker
				if c.peer {
					peer = f.Start("peer")
				}
				before := counters(f)
				const failover = 10 * time.Second
				time.Sleep(10 * failover)
				for key, n := range counters(f) {
					if n < before[key]+25 {
						t.Errorf("the counter of %s went from %d to %d in ten failover times, want a renewal each third of one", key, before[key], n)
					}
				}
				if n, shards := made.Load(), int64(c.shards); n != shards || lost.Load() != 0 || iterators.Load() != shards {
					t.Errorf("%d processors, %d iterators and %d lost leases for %d shards", n, iterators.Load(), lost.Load(), shards)
				}
				if peer != nil && len(peer.Assignments()) != 0 {
					t.Errorf("the peer holds %d leases, want none", len(peer.Assignments()))
				}
				close(release)
				f.PutEverywhere()
				f.WaitDelivered(5 * time.Second)
				if d := f.Check(); d != 0 {
					t.Errorf("%d duplicates, want 0", d)
				}
			})
		})
	}
}

// counters are those of the rows, by lease key.
func counters(f *fleettest.Fleet) map[string]int {
	f.T.Helper()
	n := map[string]int{}
	for key, row := range f.Rows() {
		var counter int
		if _, err := fmt.Sscan(row["leaseCounter"].(*types.AttributeValueMemberN).Value, &counter); err != nil {
			f.T.Fatal(err)
		}
		n[key] = counter
	}
	return n
}

// A peer asks for a lease while its owner is in the middle of a batch of two seconds, which it checkpoints at the end.
func TestHandoff_letsTheBatchInHandBeFinishedAndCheckpointed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		old := f.StartWith("old", func(processor.Shard) processor.RecordProcessor {
			return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
				timer := time.NewTimer(2 * time.Second)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				f.Audit.Deliver("old", in)
				return in.Checkpointer.Checkpoint(ctx)
			})
		})
		time.Sleep(20 * time.Second)
		stop := f.Load(100 * time.Millisecond)
		time.Sleep(5 * time.Second)
		fresh := f.Start("new")
		time.Sleep(15 * time.Second)
		stop()
		f.WaitDelivered(10 * time.Second)
		if d, n := f.Check(), f.Audit.Overlaps(); d != 0 || n != 0 {
			t.Errorf("%d duplicates and %d overlaps, want none", d, n)
		}
		if len(old.Assignments()) != 1 || len(fresh.Assignments()) != 1 {
			t.Errorf("the workers hold %d and %d leases, want one each", len(old.Assignments()), len(fresh.Assignments()))
		}
	})
}
