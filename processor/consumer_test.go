package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
)

// lastOf makes b the last batch of its shard.
func lastOf(b Batch) Batch {
	b.End = &End{Children: []ChildShard{{ID: "child"}}}
	return b
}

func diff(t *testing.T, what string, want, got []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func (b *bench) checkSource() {
	b.t.Helper()
	if err := b.source.check(); err != nil {
		b.t.Error(err)
	}
}

func TestConsumer_walksThroughTheStatesOfAShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 3), Batch{MillisBehindLatest: 5}, lastOf(numbered(4, 4)))
		var moves []string
		b.hooks.StateChanged = func(e config.StateEvent) { moves = append(moves, e.From+">"+e.To) }
		var ended int
		b.hooks.ShardEnded = func(e config.LeaseEvent) { ended++ }
		b.journal.process = func(ctx context.Context, in ProcessRecordsInput) error { return in.Checkpointer.Checkpoint(ctx) }
		b.start()
		if out := b.end(); out != (Outcome{Reason: ShardEnd, Finished: true}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "calls", []string{
			"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-3", "ProcessRecords 4-4",
			"end [{child []  }]", "ShardEnded",
		}, b.journal.calls())
		diff(t, "checkpoints", []string{"3", "4", "SHARD_END"}, b.lease.checkpoints())
		diff(t, "moves", []string{
			"WaitingOnParents>Initializing", "Initializing>Processing", "Processing>ShuttingDown",
			"ShuttingDown>Done",
		}, moves)
		if ended != 1 {
			t.Errorf("ShardEnded hook called %d times", ended)
		}
		b.checkSource()
	})
}

func TestConsumer_callsNothingForAFinishedShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.options.Position = checkpoint.ShardEnd
		b.options.Shard.ParentIDs = []string{"p"}
		b.start()
		if out := b.end(); out != (Outcome{Reason: ShardEnd, Finished: true}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "calls", nil, b.journal.calls())
	})
}

func TestConsumer_repeatsWhatFailedAndSkipsNothing(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	tests := map[string]struct {
		prepare func(*bench)
		calls   []string
		retries []string
		panics  []string
	}{
		"Initialize": {
			prepare: func(b *bench) {
				f := failing(boom, boom, "oops", boom, boom)
				b.journal.initialize = func(context.Context, InitializationInput) error { return f() }
			},
			calls: slices.Concat(slices.Repeat([]string{"Initialize TRIM_HORIZON"}, 6),
				[]string{"open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 3-3", "end [{child []  }]", "ShardEnded"}),
			retries: []string{
				"initialize 1: boom", "initialize 2: boom", "initialize 3: Initialize panicked: oops",
				"initialize 4: boom", "initialize 5: boom",
			},
			panics: []string{"Initialize: oops"},
		},
		"ProcessRecords": {
			prepare: func(b *bench) {
				f := failing(boom, boom, boom)
				b.journal.process = func(context.Context, ProcessRecordsInput) error { return f() }
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 1-2",
				"ProcessRecords 1-2", "ProcessRecords 1-2", "ProcessRecords 3-3", "end [{child []  }]", "ShardEnded",
			},
			retries: []string{"process records 1: boom", "process records 2: boom", "process records 3: boom"},
		},
		"ProcessRecords panics at the end of the shard": {
			prepare: func(b *bench) {
				f := failing(boom)
				g := failing(boom, fmt.Errorf("wrapped: %w", boom))
				b.journal.process = func(_ context.Context, in ProcessRecordsInput) error {
					if in.Records[0].SequenceNumber == "3" {
						if err := g(); err != nil {
							panic(err)
						}
						return nil
					}
					return f()
				}
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 1-2",
				"ProcessRecords 3-3", "ProcessRecords 3-3", "ProcessRecords 3-3", "end [{child []  }]", "ShardEnded",
			},
			retries: []string{
				"process records 1: boom", "process records 1: ProcessRecords panicked: boom",
				"process records 2: ProcessRecords panicked: wrapped: boom",
			},
			panics: []string{"ProcessRecords: boom", "ProcessRecords: wrapped: boom"},
		},
		"Factory": {
			prepare: func(b *bench) {
				f := failing(boom, "no factory today")
				b.options.Factory = func(Shard) RecordProcessor {
					if f() != nil {
						return nil
					}
					return b.journal
				}
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 3-3",
				"end [{child []  }]", "ShardEnded",
			},
			retries: []string{
				"make the processor 1: make the processor of shard shard-1: Factory returned nil",
				"make the processor 2: Factory panicked: no factory today",
			},
			panics: []string{"Factory: no factory today"},
		},
		"Open": {
			prepare: func(b *bench) {
				f := failing(boom)
				open := b.upstream.open
				b.upstream.open = func(ctx context.Context, from checkpoint.ExtendedSequenceNumber) (RecordSource, error) {
					if err := f(); err != nil {
						return nil, err
					}
					return open(ctx, from)
				}
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 3-3",
				"end [{child []  }]", "ShardEnded",
			},
			retries: []string{"open the shard for reading 1: boom"},
		},
		"EndShard": {
			prepare: func(b *bench) {
				f := failing(boom, boom)
				b.upstream.endShard = func(context.Context, End) error { b.journal.write("end"); return f() }
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 3-3",
				"end", "end", "end", "ShardEnded",
			},
			retries: []string{"record the end of the shard 1: boom", "record the end of the shard 2: boom"},
		},
		"ShardEnded": {
			prepare: func(b *bench) {
				f, n := failing(boom, "oops"), 0
				b.journal.ended = func(ctx context.Context, in ShardEndedInput) error {
					if err := f(); err != nil {
						return err
					}
					if n++; n == 1 {
						return nil // forgets to checkpoint
					}
					return in.Checkpointer.Checkpoint(ctx)
				}
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 3-3",
				"end [{child []  }]", "ShardEnded", "ShardEnded", "ShardEnded", "ShardEnded",
			},
			retries: []string{
				"end the shard 1: boom", "end the shard 2: ShardEnded panicked: oops",
				"end the shard 3: ShardEnded of shard shard-1 returned nil but did not checkpoint: the checkpoint is " +
					"TRIM_HORIZON, want SHARD_END; call Checkpointer.Checkpoint in it",
			},
			panics: []string{"ShardEnded: oops"},
		},
		"Usable": {
			prepare: func(b *bench) {
				n := 0
				b.lease.usable = func(context.Context) error {
					if n++; n == 2 || n == 3 {
						return boom
					}
					return nil
				}
			},
			calls: []string{
				"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ProcessRecords 3-3",
				"end [{child []  }]", "ShardEnded",
			},
			retries: []string{"renew the lease before using it 1: boom", "renew the lease before using it 2: boom"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 2), lastOf(numbered(3, 3)))
				tt.prepare(b)
				b.start()
				if out := b.end(); out != (Outcome{Reason: ShardEnd, Finished: true}) {
					t.Errorf("outcome %+v", out)
				}
				diff(t, "calls", tt.calls, b.journal.calls())
				diff(t, "retries", tt.retries, b.retries())
				var panics []string
				for _, p := range b.panics {
					panics = append(panics, fmt.Sprintf("%s: %v", p.What, p.Value))
					if !bytes.Contains(p.Stack, []byte("consumer_test.go")) && !bytes.Contains(p.Stack, []byte("doubles_test.go")) {
						t.Errorf("the stack does not show where the panic came from:\n%s", p.Stack)
					}
				}
				diff(t, "panics", tt.panics, panics)
				b.checkSource()
			})
		})
	}
}

func TestConsumer_spacesRetriesWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 1))
		var times []time.Time
		b.journal.process = func(context.Context, ProcessRecordsInput) error {
			times = append(times, time.Now())
			return errors.New("poison")
		}
		b.start()
		pass(10 * time.Minute)
		b.consumer.RequestShutdown()
		b.end()
		for i := 1; i < len(times); i++ {
			d := times[i].Sub(times[i-1])
			if low, high := 250*time.Millisecond, min(30*time.Second, 500*time.Millisecond<<min(i-1, 10)); d < low || d > high {
				t.Errorf("pause %d is %v, want %v … %v", i, d, low, high)
			}
		}
		if n := len(times); n < 20 || n > 80 {
			t.Errorf("%d tries in 10 minutes", n)
		}
	})
}

// X1: a consumer that waits for its parents must not hold up a stop.
func TestConsumer_asksForParentsEachPollAndWhenWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.options.Shard.ParentIDs = []string{"p", "q"}
		var asked []time.Duration
		began := time.Now()
		b.upstream.parentsEnded = func(context.Context) (bool, error) {
			asked = append(asked, time.Since(began))
			return len(asked) == 4, nil
		}
		b.start()
		pass(21 * time.Second)
		b.consumer.Wake()
		synctest.Wait()
		if d := cmp.Diff([]time.Duration{0, 10 * time.Second, 20 * time.Second, 21 * time.Second}, asked); d != "" {
			t.Error(d)
		}
		if s := b.consumer.Status(); s.State != Processing || !s.Since.Equal(began.Add(21*time.Second)) {
			t.Errorf("status %+v", s)
		}
		b.consumer.RequestShutdown()
		b.end()
	})
}

// X2: a consumer whose last call failed must not hold up a stop.
// K2, K7: what runs is finished, then the processor is told.
// A processor that never returns cannot be ended: its context is, and everybody can see who it is.
func TestConsumer_handsEmptyBatchesOverOnlyIfAsked(t *testing.T) {
	t.Parallel()
	for _, even := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, Batch{MillisBehindLatest: 77}, lastOf(Batch{}))
			b.options.Lifecycle.CallProcessRecordsEvenForEmptyRecordList = even
			b.journal.process = func(ctx context.Context, in ProcessRecordsInput) error {
				if s := b.consumer.Status(); s.MillisBehindLatest != 77 || s.LastDelivered != checkpoint.TrimHorizon {
					t.Errorf("status %+v", s)
				}
				return in.Checkpointer.Checkpoint(ctx)
			}
			b.start()
			b.end()
			want := []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "end [{child []  }]", "ShardEnded"}
			if even {
				want = slices.Insert(want, 2, "ProcessRecords empty")
			}
			diff(t, fmt.Sprint("calls, even for empty lists ", even), want, b.journal.calls())
			diff(t, "checkpoints", []string{"SHARD_END"}, b.lease.checkpoints())
			b.checkSource()
		})
	}
}

// X21, X22: the last number means the end of the shard, also if it is checkpointed already and however often it is tried.
func TestConsumer_takesTheLastNumberForTheEndOfTheShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, lastOf(numbered(1, 5)))
		b.journal.process = func(ctx context.Context, in ProcessRecordsInput) error {
			return in.Checkpointer.CheckpointAt(ctx, at(5))
		}
		f := failing(errors.New("first"), errors.New("second"))
		b.journal.ended = func(ctx context.Context, in ShardEndedInput) error {
			if err := f(); err != nil {
				return err
			}
			return in.Checkpointer.CheckpointAt(ctx, at(5))
		}
		b.start()
		if out := b.end(); !out.Finished {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "checkpoints", []string{"5", "SHARD_END"}, b.lease.checkpoints())
	})
}

// One that checkpoints record by record is called with the records up to its last checkpoint again, too, and must get beyond them.
func TestConsumer_comesThroughABatchThatFailedBehindACheckpointInItsMiddle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, lastOf(numbered(1, 5)))
		f := failing(errors.New("the third record cannot be handled yet"))
		b.journal.process = func(ctx context.Context, in ProcessRecordsInput) error {
			for i, r := range in.Records {
				if i == 2 {
					if err := f(); err != nil {
						return err
					}
				}
				if err := in.Checkpointer.CheckpointAt(ctx, r.Position()); err != nil {
					return err
				}
			}
			return nil
		}
		b.start()
		if out := b.end(); !out.Finished {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "checkpoints", []string{"1", "2", "3", "4", "5", "SHARD_END"}, b.lease.checkpoints())
	})
}

func TestConsumer_letsInitializeCommitWhatWasPrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(51, 52))
		b.options.Position = at(40)
		b.options.Pending = &checkpoint.Pending{At: at(50), State: []byte("p")}
		f := failing(errors.New("boom"))
		b.journal.initialize = func(ctx context.Context, in InitializationInput) error {
			if in.Pending == nil || in.Pending.At != at(50) || in.Grant.Token != 7 {
				t.Errorf("input %+v", in)
			}
			if err := in.Checkpointer.CheckpointAt(ctx, in.Pending.At); err != nil {
				t.Error(err)
			}
			return f()
		}
		b.start()
		synctest.Wait()
		pass(time.Second)
		diff(t, "calls", []string{"Initialize 40", "Initialize 50", "open 50", "ProcessRecords 51-52"}, b.journal.calls())
		s := b.consumer.Status()
		if s.LastCheckpoint != at(50) || s.LastDelivered != at(52) || s.MillisBehindLatest != 948 {
			t.Errorf("status %+v", s)
		}
		b.consumer.RequestShutdown()
		b.end()
		diff(t, "checkpoints", []string{"50", "52"}, b.lease.checkpoints())
	})
}

func TestConsumer_asksTheLeaseBeforeEachCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 1), numbered(2, 2), lastOf(numbered(3, 3)))
		b.start()
		b.end()
		if want := 1 + 3 + 2; b.lease.asked != want { // Initialize, ProcessRecords, EndShard and ShardEnded
			t.Errorf("Usable was asked %d times, want %d", b.lease.asked, want)
		}
	})
}

// idle does nothing with its records.
// What the consumer adds to a batch of 1,000 records; nothing of it depends on their number.
