package shardlease_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/leases"
)

func coalescing(interval time.Duration) func(*config.Config) {
	return func(c *config.Config) { c.LeaseManagement.CheckpointInterval = interval }
}

// The price of CheckpointInterval, and all of it: what a killed worker had handled since the last write.
func TestCheckpointInterval_repeatsAtMostItsTimeAfterACrash(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{time.Second, 10 * time.Second} {
		t.Run(interval.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range fleettest.Shorter(5, 2) {
				synctest.Test(t, func(t *testing.T) {
					const shards, each = 4, 50 * time.Millisecond
					f := fleettest.New(t, shards)
					victim := f.Start("victim", coalescing(interval))
					f.Start("heir", coalescing(interval))
					time.Sleep(time.Minute)
					stop := f.Load(each)
					time.Sleep(10*time.Second + time.Duration(seed)*777*time.Millisecond)
					held := len(victim.Assignments())
					victim.Kill()
					time.Sleep(20 * time.Second)
					stop()
					f.WaitDelivered(10 * time.Second)
					again := f.Check()
					renew := config.Default("a", "b").Complete().LeaseManagement.RenewInterval
					window := min(interval, renew) + 300*time.Millisecond // a batch comes each 200 ms
					limit := held * int(window/each+1)
					t.Logf("killed with %d leases: %d records came again, at most %d", held, again, limit)
					if held == 0 || again > limit {
						t.Errorf("%d leases, %d records came again, want at most %d", held, again, limit)
					}
				})
			}
		})
	}
}

func TestCheckpointInterval_repeatsNothingAfterAStopOrAHandOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 8)
		slow := coalescing(time.Minute)
		workers := []*fleettest.Worker{f.Start("w0", slow)}
		time.Sleep(20 * time.Second)
		stop := f.Load(fleettest.Shorter(20*time.Millisecond, 100*time.Millisecond))
		for i := 1; i < 4; i++ { // each is handed a part
			workers = append(workers, f.Start(fmt.Sprint("w", i), slow))
			time.Sleep(20 * time.Second)
		}
		for _, w := range workers { // the last one finds nobody to ask for its leases
			if err := w.Stop(); err != nil {
				t.Errorf("stop %s: %v", w.ID, err)
			}
		}
		f.Start("last", slow)
		time.Sleep(5 * time.Second)
		stop()
		f.WaitDelivered(10 * time.Second)
		if len(f.Audit.Moves()) < 8 {
			t.Errorf("%d moves, want some of each kind", len(f.Audit.Moves()))
		}
		if again := f.Check(); again != 0 {
			t.Errorf("%d records came again, want none", again)
		}
	})
}

// ThroughputVariance goes by what the rows say, so they must say it: one record each 20 ms, and nothing on the way but our own
// consumers and renewals.
func TestFleet_writesTheThroughputOfItsShardsIntoTheirRows(t *testing.T) {
	t.Parallel()
	each := fleettest.Shorter(20*time.Millisecond, 100*time.Millisecond)
	for name, change := range map[string]func(*config.Config){
		"a checkpoint a batch": func(*config.Config) {},
		"CheckpointInterval":   coalescing(10 * time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 4)
				f.Start("a", change)
				f.Start("b", change)
				time.Sleep(20 * time.Second)
				stop := f.Load(each)
				time.Sleep(40 * time.Second)
				table := leases.NewTable(f.DynamoDB, fleettest.Config("looker").Complete().LeaseManagement, leases.TableOptions{Worker: "looker"})
				all, err := table.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				stop()
				for _, l := range all.Leases {
					is := 28 / each.Seconds() / 1024 // "of shardId-000000000003:1234"
					if low, high := 0.9*is, 1.1*is; !l.HasThroughput || l.ThroughputKBps < low || l.ThroughputKBps > high {
						t.Errorf("row %s says %v KB/s (%v), want %v to %v", l.Key, l.ThroughputKBps, l.HasThroughput, low, high)
					}
				}
			})
		})
	}
}
