package shardsync_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

// BenchmarkSync_tenThousandShards makes the rows of a large stream on an empty table, in real time.
func BenchmarkSync_tenThousandShards(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(syncLarge(b, 10_000).Seconds(), "s/sync")
	}
}

// syncLarge makes the rows of a stream at LATEST and returns how long it took.
func syncLarge(tb testing.TB, shards int) time.Duration {
	tb.Helper()
	server := emulator.New()
	if err := server.CreateStream(stream, shards); err != nil {
		tb.Fatal(err)
	}
	table := leases.NewTable(dynamodb.NewFromConfig(server.ClientConfig("w")), config.Default("app", stream).Complete().LeaseManagement, leases.TableOptions{Worker: "w"})
	ctx := context.Background()
	if err := table.Ensure(ctx); err != nil {
		tb.Fatal(err)
	}
	s := shardsync.NewHierarchicalShardSyncer(table, retrieval.NewShardDetector(kinesis.NewFromConfig(server.ClientConfig("w")), retrieval.DetectorOptions{}),
		shardsync.SyncerOptions{Stream: stream, From: config.Latest()})
	start := time.Now()
	if ev, err := s.Sync(ctx); err != nil {
		tb.Fatalf("%+v, %v", ev, err)
	}
	took := time.Since(start)
	pins := map[int64]bool{}
	l, err := table.List(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	for _, row := range l.Leases {
		pins[row.StartAtMillis] = true
	}
	if len(l.Leases) != shards || len(pins) != 1 || pins[0] {
		tb.Errorf("%d rows, pins %v", len(l.Leases), pins)
	}
	return took
}

// The goal is 5 seconds on a machine of its own. Under the race detector and beside other tests it may take so long that
// decisions grow stale, and are made again.
func TestSync_makesTenThousandRows(t *testing.T) {
	took := syncLarge(t, 10_000)
	t.Logf("10,000 rows in %.2f s", took.Seconds())
	if took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
