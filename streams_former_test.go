package shardlease_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
)

// A stream is taken off the list while its shards are split and end, every owner renews its leases, the table loses replies, and
// whoever leads dies in the middle of the deletion: the leases go all the same, and stay gone, and those of the other stream are
// untouched.
func TestStreams_formerOnesGoAlthoughShardsEndAndLeadersDie(t *testing.T) {
	t.Parallel()
	for _, killed := range fleettest.Shorter([]int{0, 1, 2}, []int{1}) {
		t.Run(fmt.Sprint("worker ", killed, " dies"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 4, fleettest.Stream, "bills")
				names := &tracker{}
				names.set(nil, named(fleettest.Stream, "bills")...)
				f.With(shardlease.WithStreamTracker(names))
				change := func(c *config.Config) {
					unhurried(10 * time.Second)(c)
					c.FormerStreams = config.FormerStreamsConfig{Deletion: config.DeleteAfterWait, Wait: time.Minute}
				}
				var workers []*fleettest.Worker
				for i := range 3 {
					workers = append(workers, f.Start(fmt.Sprint("w", i), change))
				}
				f.Put(40, 10)
				f.PutInto("bills", 40, 10)
				f.WaitDelivered(time.Minute)
				defer f.Server.Inject(emulator.Rule{Service: emulator.DynamoDB, Probability: 0.1, Effect: emulator.DropReply()})()

				names.set(nil, named("bills")...)
				for _, shard := range f.Open() { // their children get leases while the stream goes
					f.Split(shard)
					time.Sleep(20 * time.Second)
				}
				deleted := func() bool { byStream, _ := rowsOf(f); return byStream[fleettest.Stream] < 4 }
				for began := time.Now(); !deleted(); time.Sleep(300 * time.Millisecond) {
					if time.Since(began) > 5*time.Minute {
						t.Fatal("no lease of the former stream was deleted")
					}
				}
				workers[killed].Kill()
				time.Sleep(3 * time.Minute)
				for range 5 {
					if byStream, _ := rowsOf(f); byStream[fleettest.Stream] != 0 || byStream["bills"] != 4 {
						t.Fatalf("rows by stream %v, want those of bills alone", byStream)
					}
					time.Sleep(30 * time.Second)
				}
				f.PutInto("bills", 40, 10)
				f.WaitDelivered(time.Minute)
				f.Check()
			})
		})
	}
}
