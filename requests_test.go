package shardlease_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

var requestMinutes = flag.Int("request-minutes", 1, "for how long TestRequests counts")

// steady checkpoints one record after the other, one each second, for as long as its only batch lasts.
type steady struct{ processor.Base }

func (steady) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, r := range in.Records {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := in.Checkpointer.CheckpointAt(ctx, r.Position()); err != nil {
			return err
		}
	}
	return nil
}

// What a lease costs its table in a minute, by the emulator's own counters: 100 leases that have settled, in virtual time.
// Bounds are requests a lease and minute. A renewal each 3.308 s is 18.14.
func TestRequests_areFewForALeaseAndMinute(t *testing.T) {
	t.Parallel()
	leases, idle := 100, max(5, *requestMinutes) // looks come at random times: their bound needs some minutes
	if testing.Short() {
		leases, idle = 20, 1
	}
	cases := []struct {
		name               string
		workers            int
		minutes            int
		busy               bool // a checkpoint a second on each lease
		change             func(*config.Config)
		writes, all, renew float64 // at most
	}{
		{name: "idle, 1 worker", workers: 1, minutes: *requestMinutes, writes: 18.2, all: 18.5, renew: 18.2},
		{name: "idle, 3 workers", workers: 3, minutes: idle, writes: 18.2, all: 18.5, renew: 18.2},
		{name: "3 workers, a checkpoint a second", workers: 3, minutes: *requestMinutes, busy: true, writes: 60, all: 60.4, renew: 0},
		{
			name: "3 workers, a checkpoint a second with CheckpointInterval", workers: 3, minutes: *requestMinutes, busy: true, writes: 18.2, all: 18.6, renew: 18.2,
			change: func(c *config.Config) { c.LeaseManagement.CheckpointInterval = 5 * time.Second },
		},
	}
	for _, c := range cases {
		leases := leases
		if c.busy && *requestMinutes == 1 {
			leases = min(leases, fleettest.Shorter(30, 5))
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, leases)
				var renewals atomic.Int64
				var renewEach time.Duration
				for i := range c.workers {
					f.StartWith(fmt.Sprint("w", i), func(processor.Shard) processor.RecordProcessor { return steady{} },
						func(cfg *config.Config) {
							if !c.busy { // what is read of the shards does not matter here
								cfg.Retrieval.IdleTime = 4 * time.Minute
							}
							if c.change != nil {
								c.change(cfg)
							}
							cfg.Hooks = &config.Hooks{LeaseRenewed: func(config.LeaseEvent) { renewals.Add(1) }}
							renewEach = cfg.Complete().LeaseManagement.RenewInterval
						})
				}
				time.Sleep(time.Minute)
				// So long that each lease is renewed equally often.
				period := (time.Duration(c.minutes)*time.Minute/renewEach + 1) * renewEach
				if c.busy { // whole seconds
					period = time.Duration(c.minutes) * time.Minute
					putInEach(t, f, int(period/time.Second)+60)
					time.Sleep(20 * time.Second)
				}
				f.Server.ResetCounts()
				renewals.Store(0)
				time.Sleep(period)
				rate := func(n int64) float64 { return float64(n) / float64(leases) / period.Minutes() }
				counts := f.Server.Counts()
				of := func(operation string) float64 {
					return rate(counts.Of(emulator.CountKey{Service: emulator.DynamoDB, Operation: operation}).Requests)
				}
				failed := counts.Of(emulator.CountKey{Service: emulator.DynamoDB}).FailedConditions
				t.Logf("%-56s %7v  writes %6.3f (renewals %6.3f)  looks %.3f  single reads %.3f  all %6.3f",
					c.name, period.Round(time.Second), of("UpdateItem"), rate(renewals.Load()), of("Scan"), of("GetItem"), of(""))
				for what, is := range map[string][2]float64{
					"writes": {of("UpdateItem"), c.writes}, "all requests": {of(""), c.all}, "renewals": {rate(renewals.Load()), c.renew},
				} {
					most := is[1]
					if leases < 100 {
						if what == "all requests" { // looks do not depend on how many leases there are
							continue
						}
						if most > 0 {
							most += 1 / period.Minutes() // a lease's writes may come once more in any period; over many leases that levels out
						}
					}
					if is[0] > most {
						t.Errorf("%s: %.3f a lease and minute, want at most %v", what, is[0], most)
					}
				}
				if failed > 0 {
					t.Errorf("%d failed conditions, want none", failed)
				}
			})
		})
	}
}

// putInEach puts n small records into each shard.
func putInEach(t *testing.T, f *fleettest.Fleet, n int) {
	t.Helper()
	stream := fleettest.Stream
	shards, err := f.Kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &stream})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shards.Shards {
		for left := n; left > 0; left -= 500 {
			batch := make([]types.PutRecordsRequestEntry, min(left, 500))
			for i := range batch {
				batch[i] = types.PutRecordsRequestEntry{
					PartitionKey: aws.String("k"), ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: []byte(strings.Repeat("x", 10)),
				}
			}
			out, err := f.Kinesis.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &stream, Records: batch})
			if err != nil || *out.FailedRecordCount != 0 {
				t.Fatalf("put records: %v, %v", out, err)
			}
		}
	}
}
