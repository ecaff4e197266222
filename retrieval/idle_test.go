package retrieval

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// Not parallel: it counts what the whole process has. The memory is a measurement, no bound: with -v it is shown.
func TestPolling_anIdleShardCostsNoGoroutine(t *testing.T) {
	const shards = 200
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New()
		if err := server.CreateStream(stream, shards); err != nil {
			t.Fatal(err)
		}
		p := NewPolling(kinesis.NewFromConfig(server.AWSConfig()), config.RetrievalConfig{
			MaxRecords: 10_000, IdleTime: 200 * time.Millisecond, MaxIdleTime: time.Second, ByteBudget: 64 << 20, MaxPendingBatches: 3,
		}, PollingOptions{})
		goroutines, heap := use()
		sources := make([]processor.RecordSource, shards)
		for i := range sources {
			s, err := p.Open(t.Context(), Start{Stream: stream, ShardID: fmt.Sprintf("shardId-%012d", i), From: checkpoint.TrimHorizon})
			if err != nil {
				t.Fatal(err)
			}
			sources[i] = s
		}
		time.Sleep(5*time.Second + time.Nanosecond)
		synctest.Wait()
		g, h := use()
		t.Logf("%.2f goroutines and %d bytes of heap and stack an idle shard", float64(g-goroutines)/shards, (h-heap)/shards)
		if g-goroutines > 10 { // those of the server and of requests under way
			t.Errorf("%d goroutines for %d shards", g-goroutines, shards)
		}
		for _, s := range sources {
			s.Close()
		}
	})
}

func use() (goroutines int, bytes int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc + m.StackInuse)
}
