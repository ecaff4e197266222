package shardlease_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
)

var stormShards = flag.Int("storm-shards", 60, "shards of TestFleet_takesASplitStorm")

// TestFleet_takesASplitStorm splits half of a stream's shards at once under a fleet of four, and prints what G15 asks for, in
// virtual time: figures are judged by people, only loss, order and rows by the test.
func TestFleet_takesASplitStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, *stormShards)
		var mu sync.Mutex
		ended, leased := map[string]time.Time{}, map[string]time.Time{}
		note := func(m map[string]time.Time) func(config.LeaseEvent) {
			return func(e config.LeaseEvent) {
				mu.Lock()
				defer mu.Unlock()
				if _, before := m[e.LeaseKey]; !before {
					m[e.LeaseKey] = time.Now()
				}
			}
		}
		began := time.Now()
		var fleet []*fleettest.Worker
		for i := range 4 {
			fleet = append(fleet, f.Start(fmt.Sprint("w", i), func(c *config.Config) {
				c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = time.Second, 5*time.Second
				c.Hooks = &config.Hooks{ShardEnded: note(ended), LeaseTaken: note(leased)}
			}))
		}
		held := func() (n int) {
			for _, w := range fleet {
				n += len(w.Assignments())
			}
			return n
		}
		for held() < *stormShards && time.Since(began) < 5*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%d first leases held after %v", held(), time.Since(began).Round(time.Millisecond))
		f.PutEverywhere()
		f.WaitDelivered(time.Minute)

		before := listings(f)
		split := f.SplitHalf()
		f.PutEverywhere()
		f.WaitDelivered(2 * time.Minute)
		calls := listings(f) - before
		done := time.Now()
		open := len(f.Open())
		for len(f.Rows()) > open && time.Since(done) < 10*time.Minute {
			time.Sleep(5 * time.Second)
		}
		var toLease, toRecord []time.Duration
		for child, row := range f.Rows() {
			parents, ok := row["parentShardId"].(*types.AttributeValueMemberSS)
			if !ok {
				continue
			}
			end := ended[parents.Value[0]]
			toLease = append(toLease, leased[child].Sub(end))
			if at, ok := f.Audit.FirstOf(child); ok {
				toRecord = append(toRecord, at.Sub(end))
			}
		}
		t.Logf("shards %d split %d children %d; after the parent's end p99/max: leased %v/%v, first record %v/%v; ListShards %d; rows back after %v",
			*stormShards, len(split), len(toLease), at99(toLease), slices.Max(toLease), at99(toRecord), slices.Max(toRecord), calls, time.Since(done))
		if rows := len(f.Rows()); rows != open {
			t.Errorf("%d rows are left for %d open shards", rows, open)
		}
		f.Check()
	})
}

// listings is how often the fleet has called ListShards.
func listings(f *fleettest.Fleet) (n int64) {
	for key, c := range f.Server.Counts() {
		if key.Operation == "ListShards" && key.Client != "test" {
			n += c.Requests
		}
	}
	return n
}

func at99(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)*99/100]
}
