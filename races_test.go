package shardlease_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// A shard ends while it is handed over, at every moment of the hand-off. It is read to its end once, by whichever of the two,
// and its children once. (KCL: #1729, #1732)
func TestHandoff_ofAShardThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	for _, after := range []int{100, 400, 700, 1500, 3000, 3400, 3600, 3800, 4200} {
		t.Run(fmt.Sprint(after, " ms after the start"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 4)
				f.Start("old")
				time.Sleep(20 * time.Second)
				f.Put(100, 20)
				f.Start("new")
				time.Sleep(time.Duration(after) * time.Millisecond)
				for _, id := range f.Open() {
					f.Split(id)
				}
				f.Put(100, 20)
				time.Sleep(30 * time.Second)
				f.WaitDelivered(5 * time.Second)
				if d := f.Check(); d != 0 {
					t.Errorf("%d records were delivered twice", d)
				}
				for key, row := range f.Rows() {
					if row["checkpointOwner"] != nil || row["handoffTo"] != nil {
						t.Errorf("row %s is still being handed over", key)
					}
				}
			})
		})
	}
}

// A worker loses a lease while its processor hangs. It does not take it back before that one has returned, so there are never two
// of one shard in a process.
func TestConsumer_ofALeaseTakenBackWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Put(10, 1)
		var made, inside, most atomic.Int64
		release := make(chan struct{})
		usual := f.Audit.Processor("w")
		w := f.StartWith("w", func(s processor.Shard) processor.RecordProcessor {
			made.Add(1)
			return &oneByOne{usual(s), &inside, &most, release}
		})
		<-w.Ready()
		time.Sleep(5 * time.Second)
		w.CutOff()
		time.Sleep(15 * time.Second)
		w.Reconnect()
		time.Sleep(15 * time.Second)
		if n := len(w.Assignments()); n != 0 || made.Load() != 1 {
			t.Errorf("holds %d leases, made %d processors, while that of an earlier tenure has not returned; want 0 and 1", n, made.Load())
		}
		close(release)
		time.Sleep(15 * time.Second)
		f.WaitDelivered(10 * time.Second)
		if made.Load() != 2 || most.Load() != 1 {
			t.Errorf("%d processors were made, %d at once in user code; want 2 and 1", made.Load(), most.Load())
		}
		f.Check()
	})
}

// oneByOne counts how many of it are in user code, in which the first stays until it is released.
type oneByOne struct {
	processor.RecordProcessor
	inside, most *atomic.Int64
	release      chan struct{}
}

func (c *oneByOne) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	n := c.inside.Add(1)
	defer c.inside.Add(-1)
	c.most.Store(max(n, c.most.Load()))
	<-c.release
	return c.RecordProcessor.ProcessRecords(ctx, in)
}

// A worker that is stopping takes nothing more, whatever becomes free meanwhile. (KCL: #1700, #1702)
func TestStop_takesNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 6)
		var mu sync.Mutex
		stopping, taken := false, 0
		slow := f.Audit.Processor("leaving")
		leaving := f.StartWith("leaving", func(s processor.Shard) processor.RecordProcessor {
			return &sluggish{slow(s)}
		}, func(c *config.Config) {
			c.Lifecycle.ShutdownGrace = time.Minute
			c.Hooks = &config.Hooks{LeaseTaken: func(config.LeaseEvent) {
				mu.Lock()
				defer mu.Unlock()
				if stopping {
					taken++
				}
			}}
		})
		dying := f.Start("dying")
		time.Sleep(time.Minute)
		f.Put(60, 20)
		if n := len(dying.Assignments()); n != 3 {
			t.Fatalf("the other worker holds %d leases, want 3", n)
		}
		time.Sleep(500 * time.Millisecond) // its processors are in the middle of a batch
		mu.Lock()
		stopping = true
		mu.Unlock()
		dying.Kill()
		if err := leaving.Stop(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if taken != 0 {
			t.Errorf("it took %d leases after its stop had begun", taken)
		}
		for key, row := range f.Rows() {
			if owner, _ := row["leaseOwner"].(*types.AttributeValueMemberS); owner != nil && owner.Value == "leaving" {
				t.Errorf("it has stopped, and row %s is still its own", key)
			}
		}
	})
}

// sluggish takes longer for a batch than a lease lasts.
type sluggish struct{ processor.RecordProcessor }

func (s *sluggish) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	timer := time.NewTimer(25 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.RecordProcessor.ProcessRecords(ctx, in)
}
