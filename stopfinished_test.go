package shardlease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// owned returns the keys of rows that still name an owner.
func owned(f *fleettest.Fleet) (keys []string) {
	f.T.Helper()
	for key, row := range f.Rows() {
		if row["leaseOwner"] != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// slowEnd is a processor whose ShardEnded waits for permission.
type slowEnd struct {
	processor.Base
	called, end chan struct{}
}

func (p *slowEnd) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	return in.Checkpointer.Checkpoint(ctx)
}

func (p *slowEnd) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	p.called <- struct{}{}
	<-p.end
	return in.Checkpointer.Checkpoint(ctx)
}

func TestStop_givesUpTheLeaseOfAShardThatEndsDuringTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		p := &slowEnd{called: make(chan struct{}, 1), end: make(chan struct{})}
		w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor { return p })
		<-w.Ready()
		f.Split(f.Open()[0])
		<-p.called
		stopped := make(chan error)
		go func() { stopped <- w.Stop() }()
		time.Sleep(time.Second)
		close(p.end)
		if err := <-stopped; err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
		if keys := owned(f); len(keys) > 0 {
			t.Errorf("leases %v still have an owner after the stop, want all given up", keys)
		}
	})
}

// A stop may begin at any moment of a take. The lease of a finished shard has no consumer that would give it up.
func TestStop_givesUpAFinishedLeaseThatIsBeingTaken(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Duration{0, 990 * time.Millisecond, time.Second, 1010 * time.Millisecond} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 1)
				first := f.Start("first")
				<-first.Ready()
				f.Split(f.Open()[0])
				time.Sleep(5 * time.Second)
				if err := first.Stop(); err != nil {
					t.Fatal(err)
				}
				taking := make(chan struct{}, 10)
				f.Server.Inject(emulator.Rule{Client: "second", Operation: "UpdateItem", Effect: emulator.DelayReply(time.Second), Match: func([]byte) bool {
					select {
					case taking <- struct{}{}:
					default:
					}
					return true
				}})
				second := f.Start("second")
				<-taking
				time.Sleep(at)
				if err := second.Stop(); err != nil {
					t.Errorf("Run returned %v, want nil", err)
				}
				if keys := owned(f); len(keys) > 0 {
					t.Errorf("leases %v still have an owner after the stop, want all given up", keys)
				}
			})
		})
	}
}
