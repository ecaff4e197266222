package shardlease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// What a shard costs a whole worker in which nothing happens, and one in which nothing happens any more: docs/performance.md, G13. Not parallel: it
// counts what the process has. The server is in it, but has its rows before; what the worker keeps once, as connections and the SDK's
// tables, is in the figure.
func TestWorker_idleShardsCostNoGoroutineAndLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has memory of its own; go test without -short runs it")
	}
	const (
		shards = 200
		most   = 12 << 10 // bytes of heap and stacks
	)
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, shards)
		var handled atomic.Int64
		start := func(id string) *fleettest.Worker {
			var ready sync.WaitGroup
			ready.Add(shards)
			w := f.StartWith(id, func(processor.Shard) processor.RecordProcessor {
				return counting{
					initialize: func(context.Context) error { ready.Done(); return nil },
					handled:    func(n int) { handled.Add(int64(n)) },
				}
			}, func(c *config.Config) {
				c.Retrieval.MaxIdleTime = 30 * time.Second
				c.LeaseManagement.FailoverTime = time.Minute // fewer renewals, which are not what is looked at
			})
			ready.Wait()
			return w
		}
		if err := start("first").Stop(); err != nil {
			t.Fatal(err)
		}
		goroutines, bytes := inUse()
		w := start("second")
		look := func(when string) {
			t.Helper()
			time.Sleep(3*time.Minute + time.Nanosecond)
			synctest.Wait()
			g, b := inUse()
			perShard := (b - bytes) / shards
			t.Logf("%s: %d goroutines for %d shards, %d bytes of heap and stacks a shard", when, g-goroutines, shards, perShard)
			if g-goroutines > shards/10 {
				t.Errorf("%s: %d goroutines for %d shards", when, g-goroutines, shards)
			}
			if perShard > most {
				t.Errorf("%s: %d bytes of heap and stacks a shard, want at most %d", when, perShard, most)
			}
		}
		look("nothing ever happened")
		f.Put(10*shards, shards)
		look("nothing happens any more")
		if n := handled.Load(); n != 10*shards {
			t.Errorf("%d records were handled, want %d", n, 10*shards)
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
}
