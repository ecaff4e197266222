package shardlease_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// A method that ends its goroutine is as bad as one that panics at each call, and must cost as little: the table is not
// written, the lease stays, and the pauses grow.
func TestRun_repeatsAfterGrowingPausesWhatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	for name, quit := range map[string]func(){
		"panic":  func() { panic("bad record") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 1)
				var mu sync.Mutex
				calls, good, tokens := 0, false, map[int64]bool{}
				w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor {
					return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
						mu.Lock()
						calls++
						tokens[in.Grant.Token] = true
						healthy := good
						mu.Unlock()
						if !healthy {
							quit()
						}
						f.Audit.Deliver("w", in)
						return in.Checkpointer.Checkpoint(ctx)
					})
				})
				f.Put(10, 1)
				time.Sleep(2 * time.Minute)
				mu.Lock()
				t.Logf("%d calls in 2 min, %d tenures", calls, len(tokens))
				if calls < 5 || calls > 20 {
					t.Errorf("ProcessRecords was called %d times in 2 min, want 5 to 20: pauses from 0.5s to 30s", calls)
				}
				if len(tokens) != 1 {
					t.Errorf("the lease had %d tenures, want 1: nobody else would do better", len(tokens))
				}
				good = true
				mu.Unlock()
				if took := f.WaitDelivered(31 * time.Second); took > 30*time.Second {
					t.Errorf("the batch was repeated %v after the processor had recovered, want 30s", took)
				}
				f.Put(10, 1)
				f.WaitDelivered(5 * time.Second)
				f.Check()
				if err := w.Stop(); err != nil {
					t.Errorf("Run returned %v, want nil", err)
				}
				if keys := owned(f); len(keys) > 0 {
					t.Errorf("leases %v still have an owner after the stop, want all given up", keys)
				}
			})
		})
	}
}
