package retrieval

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// What several applications on one shard do to each other, by the service's limits: five reads and two MiB a second.

func TestPolling_keepsToTheLimitsOnceItWasRefused(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.MaxRecords = 10
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.put(800)
		got, _ := w.take(ctx, s, 800)
		if diff := cmp.Diff(numbers(0, 800), got); diff != "" {
			t.Error(diff)
		}
		c := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"})
		if c.Throttled == 0 || c.Throttled > 8 {
			t.Errorf("%d of %d reads were refused", c.Throttled, c.Requests)
		}
	}, emulator.WithLimits())
}

// A page of ten MB has all reads of the next five seconds refused.
func TestPolling_waitsUntilALargePageIsForgotten(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		const pages, size = 40, 1_000_000
		for range pages {
			w.putBytes(1, 1, size)
			time.Sleep(2 * time.Second)
		}
		w.server.ResetCounts()
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.take(ctx, s, pages)
		c := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"})
		if c.Throttled != 1 {
			t.Errorf("%d of %d reads were refused, want only the one that follows the first page at once", c.Throttled, c.Requests)
		}
	}, emulator.WithLimits())
}

func TestPolling_severalApplicationsShareAShard(t *testing.T) {
	t.Parallel()
	counts := []int{1, 2, 5, 10}
	if testing.Short() {
		counts = []int{5}
	}
	for _, apps := range counts {
		t.Run(strconv.Itoa(apps), func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) { severalApplications(ctx, w, apps) }, emulator.WithLimits())
		})
	}
}

// severalApplications read all of a shard that is written to for five minutes, beside a program that polls once a second, comes what may.
func severalApplications(ctx context.Context, w *world, apps int) {
	const seconds, perSecond = 300, 100
	w.cfg.IdleTime = config.Default("app", stream).Retrieval.IdleTime
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	w.put(perSecond)
	read := make([]atomic.Int64, apps)
	for i := range apps {
		api := kinesis.NewFromConfig(w.server.ClientConfig(fmt.Sprint("app", i)))
		s, err := NewPolling(api, w.cfg, PollingOptions{Worker: fmt.Sprint("w", i)}).
			Open(ctx, Start{Stream: stream, ShardID: shard0, LeaseKey: shard0, From: checkpoint.TrimHorizon})
		if err != nil {
			w.t.Fatal(err)
		}
		group.Go(func() {
			defer s.Close()
			for {
				b, err := s.Next(ctx)
				if err != nil {
					if ctx.Err() == nil {
						w.t.Errorf("application %d ended: %v", i, err)
					}
					return
				}
				for _, r := range b.Records {
					if want := strconv.FormatInt(read[i].Load(), 10); string(r.Data) != want {
						w.t.Errorf("application %d has record %s, want %s", i, r.Data, want)
					}
					read[i].Add(1)
				}
				b.Release()
			}
		})
	}
	other := kinesis.NewFromConfig(w.server.ClientConfig("another"), func(o *kinesis.Options) { o.RetryMaxAttempts = 1 })
	at, err := other.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{StreamName: aws.String(stream), ShardId: aws.String(shard0), ShardIteratorType: types.ShardIteratorTypeLatest})
	if err != nil {
		w.t.Fatal(err)
	}
	iterator := at.ShardIterator
	for range seconds {
		w.put(perSecond)
		if out, err := other.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator}); err == nil {
			iterator = out.NextShardIterator
		}
		time.Sleep(time.Second)
	}
	time.Sleep(10 * time.Second)
	var ours emulator.Count
	for i := range apps {
		if got := read[i].Load(); got != (seconds+1)*perSecond {
			w.t.Errorf("application %d has %d records ten seconds after the last one, want %d", i, got, (seconds+1)*perSecond)
		}
		c := w.server.Counts().Of(emulator.CountKey{Client: fmt.Sprint("app", i), Operation: "GetRecords"})
		ours.Requests += c.Requests
		ours.Throttled += c.Throttled
	}
	theirs := w.server.Counts().Of(emulator.CountKey{Client: "another", Operation: "GetRecords"})
	w.t.Logf("%d applications: %d of their %d reads were refused, and %d of %d of a program that polls once a second", apps, ours.Throttled, ours.Requests, theirs.Throttled, theirs.Requests)
	if 100*ours.Throttled > 20*ours.Requests || 100*theirs.Throttled > 40*theirs.Requests {
		w.t.Error("want at most 20 % of theirs, and 40 % of the other's")
	}
}
