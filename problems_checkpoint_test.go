package shardlease_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// silentEnd forgets to checkpoint in ShardEnded until it is mended.
type silentEnd struct {
	processor.RecordProcessor
	mended func() bool
}

func (s *silentEnd) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	if s.mended() {
		return in.Checkpointer.Checkpoint(ctx)
	}
	return nil
}

// unspoken reports records and never checkpoints them; Base records the end of a shard.
type unspoken struct {
	processor.Base
	f *fleettest.Fleet
}

func (u *unspoken) ProcessRecords(_ context.Context, in processor.ProcessRecordsInput) error {
	u.f.Audit.Deliver("w", in)
	return nil
}

func TestFleet_readsTheChildrenOfAProcessorThatNeverCheckpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.StartWith("w", func(processor.Shard) processor.RecordProcessor { return &unspoken{f: f} })
		f.Put(100, 20)
		f.WaitDelivered(5 * time.Second)
		f.Split(f.Open()[0])
		f.Put(100, 20)
		f.WaitDelivered(5 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
	})
}

// A ShardEnded that forgets to checkpoint is named, with its shard, at each repetition; other shards go on, and so do the children
// as soon as it is mended.
func TestRun_namesAShardEndedThatForgetsToCheckpointAndGoesOnWithOtherShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		var mu sync.Mutex
		var mended bool
		var complaints []string
		usual := f.Audit.Processor("w")
		f.StartWith("w", func(s processor.Shard) processor.RecordProcessor {
			return &silentEnd{usual(s), func() bool { mu.Lock(); defer mu.Unlock(); return mended }}
		}, func(c *config.Config) {
			c.Hooks = &config.Hooks{Retried: func(e config.RetryEvent) {
				mu.Lock()
				defer mu.Unlock()
				complaints = append(complaints, e.Err.Error())
			}}
		})
		f.PutEverywhere()
		f.WaitDelivered(5 * time.Second)
		open := f.Open()
		f.Split(open[0])
		time.Sleep(2 * time.Minute)
		mu.Lock()
		if n := len(complaints); n < 3 || n > 30 {
			t.Errorf("ShardEnded was repeated %d times in two minutes, want 3 to 30: pauses grow", n)
		}
		for _, c := range complaints {
			if !strings.Contains(c, open[0]) || !strings.Contains(c, "ShardEnded") || !strings.Contains(c, "did not checkpoint") {
				t.Errorf("complaint %q lacks the shard, the method or what is wrong", c)
			}
		}
		mu.Unlock()
		f.Audit.Last()
		before := f.Audit.Distinct()
		f.PutEverywhere()
		time.Sleep(2 * time.Second)
		if n := f.Audit.Distinct() - before; n != 1 {
			t.Errorf("%d records came of the other shard and two children, want that of the other shard", n)
		}
		mu.Lock()
		mended = true
		mu.Unlock()
		f.WaitDelivered(35 * time.Second)
		f.Check()
	})
}

// twoPhase prepares a checkpoint at the 50th record, or at the end of its shard, and never commits it: its process is killed.
type twoPhase struct {
	processor.Base
	atEnd    bool
	prepared chan<- error
}

func (p *twoPhase) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if p.atEnd {
		return nil
	}
	_, err := in.Checkpointer.Prepare(ctx, in.Records[49].Position(), []byte("payload"))
	p.prepared <- err
	<-ctx.Done()
	return context.Cause(ctx)
}

func (p *twoPhase) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	_, err := in.Checkpointer.Prepare(ctx, checkpoint.ShardEnd, []byte("payload"))
	p.prepared <- err
	<-ctx.Done()
	return context.Cause(ctx)
}

// successor commits in Initialize what it finds pending, and reports to the audit.
type successor struct {
	processor.RecordProcessor
	found func(processor.InitializationInput)
	first func(processor.ProcessRecordsInput)
}

func (s *successor) Initialize(ctx context.Context, in processor.InitializationInput) error {
	s.found(in)
	if in.Pending != nil && !in.Pending.At.IsShardEnd() {
		return in.Checkpointer.CheckpointAt(ctx, in.Pending.At)
	}
	return nil
}

func (s *successor) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	s.first(in)
	return in.Checkpointer.Checkpoint(ctx)
}

// A worker is killed between the two halves of a checkpoint: the next owner is given what is pending with its payload, and can
// commit it in Initialize, or in ShardEnded if it is the end.
func TestFleet_givesAPreparedCheckpointToTheNextOwnerWhoCanCommitIt(t *testing.T) {
	t.Parallel()
	for name, atEnd := range map[string]bool{"at the fiftieth record": false, "at the end of the shard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 1)
				parent := f.Open()[0]
				f.Put(100, 1)
				if atEnd {
					f.Split(parent)
				}
				prepared := make(chan error, 10)
				dying := f.StartWith("dying", func(processor.Shard) processor.RecordProcessor { return &twoPhase{atEnd: atEnd, prepared: prepared} })
				if err := <-prepared; err != nil {
					t.Fatal(err)
				}
				dying.Kill()
				var mu sync.Mutex
				var pending *checkpoint.Pending
				var delivered []string
				usual := f.Audit.Processor("next")
				f.StartWith("next", func(s processor.Shard) processor.RecordProcessor {
					return &successor{usual(s), func(in processor.InitializationInput) {
						mu.Lock()
						defer mu.Unlock()
						if s.ID == parent {
							pending = in.Pending
						}
					}, func(in processor.ProcessRecordsInput) {
						mu.Lock()
						defer mu.Unlock()
						for _, r := range in.Records {
							delivered = append(delivered, string(r.Data))
						}
					}}
				})
				time.Sleep(30 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if pending == nil || string(pending.State) != "payload" || pending.At.IsShardEnd() != atEnd {
					t.Fatalf("the next owner was given %+v", pending)
				}
				row := f.Rows()[parent]
				at, _ := row["checkpoint"].(*types.AttributeValueMemberS)
				switch {
				case row["pendingCheckpoint"] != nil:
					t.Errorf("the row still has a pending checkpoint: %v", row)
				case atEnd && at.Value != "SHARD_END":
					t.Errorf("checkpoint %s, want SHARD_END", at.Value)
				case !atEnd && (len(delivered) != 50 || delivered[0] != "key0:50"):
					t.Errorf("%d records came, from %v on, want those from key0:50 on", len(delivered), delivered[:min(1, len(delivered))])
				}
			})
		})
	}
}

// A processor that hands its records to others checkpoints what those have done: 50 of 100. Then it is killed.
func TestFleet_repeatsWhatWasDeliveredAndNotCheckpointed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Put(100, 1)
		done := make(chan error, 1)
		dying := f.StartWith("dying", func(processor.Shard) processor.RecordProcessor {
			return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
				go func() { done <- in.Checkpointer.CheckpointAt(ctx, in.Records[49].Position()) }() // it has handled 50
				return nil
			})
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		dying.Kill()
		first := make(chan string, 1)
		usual := f.Audit.Processor("next")
		f.StartWith("next", func(s processor.Shard) processor.RecordProcessor {
			return &successor{usual(s), func(processor.InitializationInput) {}, func(in processor.ProcessRecordsInput) {
				select {
				case first <- string(in.Records[0].Data):
				default:
				}
			}}
		})
		if got := <-first; got != "key0:50" {
			t.Errorf("the first record after the crash is %s, want key0:50", got)
		}
	})
}
