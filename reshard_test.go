package shardlease_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
)

func TestFleet_removesTheRowsOfFinishedShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Start("a")
		f.Start("b")
		time.Sleep(5 * time.Second)
		for range 3 {
			f.Put(200, 20)
			f.Split(f.Open()[0])
			f.Put(200, 20)
			f.WaitDelivered(20 * time.Second)
		}
		f.PutEverywhere()
		f.WaitDelivered(20 * time.Second)
		time.Sleep(4 * time.Minute)
		if rows, open := len(f.Rows()), len(f.Open()); rows != open {
			t.Errorf("%d rows are left for %d open shards", rows, open)
		}
		f.Check()
	})
}

// reshardSeeds is how many random histories TestFleet_survivesTwoHoursOfReshardsAndKills runs.
var reshardSeeds = flag.Int("reshard-seeds", 1, "random histories of TestFleet_survivesTwoHoursOfReshardsAndKills")

// reshardSeed is the first of them.
var reshardCount = flag.Int("reshards", 60, "reshards in each; 200 take two hours")

var reshardSeed = flag.Uint64("reshard-seed", 0, "first seed of TestFleet_survivesTwoHoursOfReshardsAndKills; 0 draws one")

func TestFleet_survivesTwoHoursOfReshardsAndKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("two hours of virtual time; go test without -short runs them")
	}
	first := *reshardSeed
	if first == 0 {
		first = rand.Uint64N(1 << 40)
	}
	for seed := first; seed < first+uint64(*reshardSeeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { twoHours(t, seed) })
		})
	}
}

// twoHours lets a fleet of three live through 200 reshards (60 by default), one every 36 s, while every few minutes one of it is killed and
// replaced. It reads a shard once a second.
func twoHours(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	f := fleettest.New(t, 4)
	var syncs, retries, audits, created, deleted atomic.Int64
	calm := func(c *config.Config) {
		c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = time.Second, time.Second
		c.Hooks = &config.Hooks{
			Synced: func(config.SyncEvent) { syncs.Add(1) },
			Retried: func(e config.RetryEvent) {
				if strings.Contains(e.What, "list") || strings.Contains(e.What, "audit") {
					retries.Add(1)
				}
			},
			LeaseCreated: func(config.LeaseEvent) { created.Add(1) },
			LeaseDeleted: func(config.LeaseEvent) { deleted.Add(1) },
		}
	}
	var fleet []*fleettest.Worker
	for i := range 3 {
		fleet = append(fleet, f.Start(fmt.Sprint("w", i), calm))
	}
	began, kills := time.Now(), 0
	for n := range *reshardCount {
		f.Put(60, 30)
		f.Reshard(random, 2, 8)
		f.Put(60, 30)
		if random.IntN(8) == 0 {
			i := random.IntN(len(fleet))
			fleet[i].Kill()
			fleet[i] = f.Start(fmt.Sprint("r", n), calm)
			kills++
		}
		time.Sleep(36 * time.Second)
	}
	lag := f.WaitDelivered(2 * time.Minute)
	time.Sleep(4 * time.Minute)
	f.PutEverywhere() // a shard that was never read keeps its parents' rows
	f.WaitDelivered(time.Minute)
	time.Sleep(3 * time.Minute)
	rows, open := len(f.Rows()), len(f.Open())
	audits.Store(int64(time.Since(began)/(120*time.Second)) + int64(kills) + 3)
	listed := listings(f)
	duplicates := f.Check()
	t.Logf("seed %d: reshards %d kills %d produced %d duplicates %d; rows %d open %d created %d deleted %d; ListShards %d, audits at most %d, syncs %d, retries %d; last lag %v",
		seed, *reshardCount, kills, f.Produced(), duplicates, rows, open, created.Load(), deleted.Load(), listed, audits.Load(), syncs.Load(), retries.Load(), lag)
	if rows != open {
		t.Errorf("%d rows are left for %d open shards", rows, open)
	}
	if most := audits.Load() + syncs.Load() + retries.Load(); listed > most {
		t.Errorf("ListShards was called %d times, want at most one for each of %d audits, %d syncs and %d retries", listed, audits.Load(), syncs.Load(), retries.Load())
	}
}
