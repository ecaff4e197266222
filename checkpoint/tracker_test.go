package checkpoint

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func (b bench) checkpoint() {
	b.Helper()
	if err := b.c.Checkpoint(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func TestCheckpoint_beforeAnyRecordWritesNothing(t *testing.T) {
	t.Parallel()
	for _, from := range []ExtendedSequenceNumber{TrimHorizon, Latest, AtTimestamp, at("5"), sub("5", 2), ShardEnd} {
		b := newBench(t, from)
		b.checkpoint()
		b.BeginBatch(ExtendedSequenceNumber{}) // a batch without records
		b.checkpoint()
		b.EndBatch(true)
		b.checkpoint()
		if prepared, err := b.c.PrepareAll(t.Context(), nil); err != nil || prepared.At() != from || prepared.Commit(t.Context()) != nil {
			t.Errorf("PrepareAll at %s: %v, %v", from, prepared, err)
		}
		b.wantRow(from)
		if b.store.calls != 0 {
			t.Errorf("%d writes at %s", b.store.calls, from)
		}
	}
}

func TestCheckpoint_coversTheBatchInHandOnlyWhileItIsInHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.deliver("5")
	b.BeginBatch(at("9"))
	b.EndBatch(false) // an error or a panic
	b.checkpoint()
	b.wantRow(at("5"))

	b.BeginBatch(at("9"))
	b.checkpoint()
	b.wantRow(at("9"))
}

func TestCheckpoint_doesNotGoBackWhenTheBatchFailsThatWasCheckpointed(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.deliver("5")
	b.BeginBatch(at("9"))
	if err := b.c.CheckpointAt(t.Context(), at("7")); err != nil {
		t.Fatal(err)
	}
	b.EndBatch(false)
	b.checkpoint()
	b.wantRow(at("7"))
	if b.store.calls != 1 {
		t.Errorf("%d writes, want 1", b.store.calls)
	}
}

func TestCheckpointAt_mayNameAnyRecordDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.BeginBatch(sub("9", 2))
	b.EndBatch(false)
	for _, p := range []ExtendedSequenceNumber{at("7"), sub("9", 1), sub("9", 2)} {
		if err := b.c.CheckpointAt(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		b.wantRow(p)
	}
}

func TestCheckpointAt_namesBothNumbersWhenItRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("3"))
	b.deliver("8")
	if err := b.c.CheckpointAt(t.Context(), at("5")); err != nil {
		t.Fatal(err)
	}
	const prefix = "checkpoint shardId-000000000007 at "
	for p, want := range map[ExtendedSequenceNumber]string{
		at("4"):      "4: checkpoint out of range: 4 is behind the last checkpoint 5",
		at("9"):      "9: checkpoint out of range: 9 is beyond the last delivered record 8",
		sub("8", 1):  "8/1: checkpoint out of range: 8/1 is beyond the last delivered record 8",
		ShardEnd:     "SHARD_END: checkpoint out of range: SHARD_END before the end of the shard, delivered up to 8",
		Latest:       "LATEST: checkpoint out of range: LATEST is behind the last checkpoint 5",
		at("12x"):    `12x: checkpoint out of range: sequence number is "12x", want decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END`,
		sub("5", -3): "5/-3: checkpoint out of range: sub-sequence number of 5 is -3, want 0 or more",
		{}:           `none: checkpoint out of range: sequence number is "", want decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END`,
	} {
		err := b.c.CheckpointAt(t.Context(), p)
		if err == nil || err.Error() != prefix+want || !errors.Is(err, ErrOutOfRange) {
			t.Errorf("got  %v\nwant %s", err, prefix+want)
		}
		_, err = b.c.Prepare(t.Context(), p, nil)
		if err == nil || err.Error() != "prepare "+prefix+want {
			t.Errorf("got  %v\nwant prepare %s", err, prefix+want)
		}
	}
	b.wantRow(at("5"))
}

func TestCheckpointAt_refusesASentinelThatWouldMoveTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, AtTimestamp)
	b.deliver("8")
	for _, p := range []ExtendedSequenceNumber{TrimHorizon, Latest} {
		err := b.c.CheckpointAt(t.Context(), p)
		if !errors.Is(err, ErrOutOfRange) || !strings.HasSuffix(err.Error(), "is not the place of a record, last checkpoint is AT_TIMESTAMP") {
			t.Errorf("%s: %v", p, err)
		}
	}
	if err := b.c.CheckpointAt(t.Context(), AtTimestamp); err != nil {
		t.Errorf("the place where the shard is: %v", err)
	}
	b.wantRow(AtTimestamp)
}

func TestCheckpointAt_aNumberOfOtherLengthButSameValueIsNoChange(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5"))
	if err := b.c.CheckpointAt(t.Context(), at("005")); err != nil {
		t.Fatal(err)
	}
	if b.store.calls != 0 {
		t.Error("005 was written over 5")
	}
}

func TestShardEnd_aTenureWithoutRecordsCompletesTheShard(t *testing.T) {
	t.Parallel()
	for _, from := range []ExtendedSequenceNumber{TrimHorizon, Latest, at("5")} {
		b := newBench(t, from)
		b.BeginShardEnd()
		b.checkpoint()
		b.wantRow(ShardEnd)
	}
}

func TestShardEnd_anEarlierRecordIsStillAnOrdinaryCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.deliver("9")
	b.BeginShardEnd()
	if err := b.c.CheckpointAt(t.Context(), at("8")); err != nil {
		t.Fatal(err)
	}
	b.wantRow(at("8"))
	if err := b.c.CheckpointAt(t.Context(), ShardEnd); err != nil {
		t.Fatal(err)
	}
	b.wantRow(ShardEnd)
}

func TestShardEnd_whatWasPreparedAtTheLastRecordCompletesTheShard(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.BeginBatch(at("9"))
	prepared := b.prepare(at("9"))
	b.EndBatch(true)
	b.BeginShardEnd()
	if err := prepared.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRow(ShardEnd)
}

func TestPrepare_atTheLastCheckpointStoresNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5"))
	prepared, err := b.c.Prepare(t.Context(), at("5"), []byte("state"))
	if err != nil || prepared.Commit(t.Context()) != nil || b.store.calls != 0 {
		t.Errorf("%v, %d writes", err, b.store.calls)
	}
}

func TestPrepare_copiesTheState(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5"))
	b.deliver("9")
	state := []byte("before")
	prepared, err := b.c.Prepare(t.Context(), at("9"), state)
	if err != nil {
		t.Fatal(err)
	}
	copy(state, "AFTER!")
	if string(prepared.State()) != "before" || string(b.store.pending.State) != "before" {
		t.Errorf("state is %q, stored %q", prepared.State(), b.store.pending.State)
	}
}

// The reply of a write was lost. Whether it landed or not, nothing smaller may follow, and any repetition settles it.
func TestFailedWrite_becomesTheFloor(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]outcome{"it landed": replyLost, "it did not": dropped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, at("1"))
			b.deliver("3")
			b.BeginBatch(at("9"))
			b.store.next = how
			if err := b.c.CheckpointAt(t.Context(), at("7")); !errors.Is(err, errTable) || errors.Is(err, ErrOutOfRange) {
				t.Fatal(err)
			}
			if b.Last() != at("1") {
				t.Errorf("durable is %s after a failed write", b.Last())
			}
			b.store.next = lands
			err := b.c.CheckpointAt(t.Context(), at("5"))
			if !errors.Is(err, ErrOutOfRange) || !strings.HasSuffix(err.Error(), "5 is behind 7, whose write failed but may have landed (Flush writes it)") {
				t.Errorf("5 after a failed 7: %v", err)
			}
			if err := b.c.CheckpointAt(t.Context(), at("1")); !errors.Is(err, ErrOutOfRange) {
				t.Errorf("1, the durable place, after a failed 7: %v", err)
			}
			b.EndBatch(false)
			b.checkpoint() // handled is 3, but the program has said 7
			b.wantRow(at("7"))
		})
	}
}

// A program that checkpoints record by record, and fails in the middle, gets the whole batch again; it must come through in the same way.
func TestRepeatedBatch_takesPlacesThatItsFirstTryWentBeyond(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]outcome{"7 is durable": lands, "7 may have landed": replyLost, "7 was dropped": dropped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, at("1"))
			b.deliver("3")
			if err := b.c.CheckpointAt(t.Context(), at("2")); err != nil {
				t.Fatal(err)
			}
			b.BeginBatch(at("9"))
			b.store.next = how
			if err := b.c.CheckpointAt(t.Context(), at("7")); (err == nil) != (how == lands) {
				t.Fatal(err)
			}
			b.store.next = lands
			if err := b.c.CheckpointAt(t.Context(), at("5")); !errors.Is(err, ErrOutOfRange) {
				t.Errorf("5 after 7, in one try: %v", err)
			}
			b.EndBatch(false)
			b.BeginBatch(at("9"))
			if err := b.c.CheckpointAt(t.Context(), at("3")); !errors.Is(err, ErrOutOfRange) {
				t.Errorf("3, which is of the batch before: %v", err)
			}
			if _, err := b.c.Prepare(t.Context(), at("5"), nil); (err == nil) != (how == lands) || err != nil && !errors.Is(err, ErrOutOfRange) {
				t.Errorf("prepare 5: %v", err)
			}
			for _, n := range []string{"5", "7", "8"} {
				if err := b.c.CheckpointAt(t.Context(), at(n)); err != nil {
					t.Errorf("%s in the repetition: %v", n, err)
				}
				want := at(n)
				if n == "5" { // nothing less than what was said before
					want = at("7")
				}
				b.wantRow(want)
			}
			b.EndBatch(true)
			if err := b.c.CheckpointAt(t.Context(), at("5")); !errors.Is(err, ErrOutOfRange) {
				t.Errorf("5 after the batch was handled: %v", err)
			}
			if b.store.pending != nil && b.store.pending.At == at("5") {
				t.Error("5 is prepared, behind what is durable")
			}
		})
	}
}

func TestFailedWrite_ofAPendingCheckpointIsNoFloor(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.deliver("9")
	b.store.next = replyLost
	if prepared, err := b.c.Prepare(t.Context(), at("7"), nil); !errors.Is(err, errTable) || prepared != nil {
		t.Fatal(prepared, err)
	}
	b.store.next = lands
	if err := b.c.CheckpointAt(t.Context(), at("5")); err != nil {
		t.Fatal(err)
	}
	b.wantRow(at("5"))
}

func TestLostLease_changesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.deliver("9")
	b.store.next = notOwner
	if err := b.c.Checkpoint(t.Context()); !errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrOutOfRange) {
		t.Fatal(err)
	}
	b.wantRow(at("1"))
	b.store.next = lands
	if err := b.c.CheckpointAt(t.Context(), at("5")); err != nil {
		t.Errorf("the store said that 9 did not land, yet 5 is refused: %v", err)
	}
}

func TestClose_endsEverythingWithTheCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("deadline passed")
	for _, c := range []struct {
		name string
		with error
		want string
	}{
		{"no cause", nil, "checkpoint shardId-000000000007 at 9: lease lost"},
		{"a cause", cause, "checkpoint shardId-000000000007 at 9: lease lost: deadline passed"},
		{"a cause that says it", errors.Join(ErrLeaseLost, cause), "checkpoint shardId-000000000007 at 9: lease lost\ndeadline passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, at("1"))
			b.deliver("9")
			prepared := b.prepare(at("9"))
			calls := b.store.calls
			b.Close(c.with)
			b.Close(errors.New("a second one"))
			if err := b.c.Checkpoint(t.Context()); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			_, errPrepare := b.c.Prepare(t.Context(), at("9"), nil)
			_, errPrepareAll := b.c.PrepareAll(t.Context(), nil)
			for what, err := range map[string]error{
				"Checkpoint":              b.c.Checkpoint(t.Context()),
				"CheckpointAt":            b.c.CheckpointAt(t.Context(), at("5")),
				"CheckpointAt, no change": b.c.CheckpointAt(t.Context(), at("1")),
				"CheckpointAt, bad":       b.c.CheckpointAt(t.Context(), at("bogus")),
				"Prepare":                 errPrepare,
				"PrepareAll":              errPrepareAll,
				"Commit":                  prepared.Commit(t.Context()),
			} {
				if !errors.Is(err, ErrLeaseLost) || c.with != nil && !errors.Is(err, c.with) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if b.store.calls != calls {
				t.Error("a closed tracker wrote")
			}
			b.wantRow(at("1"))
		})
	}
}

func TestCheckpoint_withADoneContextWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("1"))
	b.deliver("9")
	cause := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for range 100 { // the turn is free: a careless select would take it half of the time
		if err := b.c.Checkpoint(ctx); !errors.Is(err, cause) {
			t.Fatal(err)
		}
	}
	if b.store.calls != 0 {
		t.Errorf("%d writes", b.store.calls)
	}
}

func TestEvents_tellWhatWasWrittenAndWhatRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var written, refused []Event
		s := &slowStore{memoryStore: memoryStore{row: at("1")}, each: 30 * time.Millisecond}
		tr := NewTracker(s, at("1"), TrackerOptions{
			Observer: noting{&written, &refused},
		})
		c := tr.Checkpointer()
		tr.BeginBatch(at("9"))
		if _, err := c.Prepare(t.Context(), at("5"), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Checkpoint(t.Context()); err != nil { // no change: no event
			t.Fatal(err)
		}
		early := c.CheckpointAt(t.Context(), at("5"))
		tr.BeginBatch(at("11"))
		s.next = dropped
		failed := c.Checkpoint(t.Context())
		tr.Close(nil)
		_, closed := c.PrepareAll(t.Context(), nil)

		if diff := cmp.Diff([]Event{
			{At: at("5"), Pending: true, Elapsed: 30 * time.Millisecond},
			{At: at("9"), Elapsed: 30 * time.Millisecond},
		}, written); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		sameError := cmp.Comparer(func(a, b error) bool { return a == b }) //nolint:errorlint // identity is meant
		if diff := cmp.Diff([]Event{
			{At: at("5"), Err: early},
			{At: at("11"), Elapsed: 30 * time.Millisecond, Err: failed},
			{At: at("11"), Pending: true, Err: closed},
		}, refused, sameError); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	})
}

// slowStore takes its time; inside a synctest bubble only.
type slowStore struct {
	memoryStore
	each time.Duration
}

func (s *slowStore) WriteCheckpoint(ctx context.Context, at ExtendedSequenceNumber) error {
	<-time.NewTimer(s.each).C
	return s.memoryStore.WriteCheckpoint(ctx, at)
}

func (s *slowStore) WritePending(ctx context.Context, p Pending) error {
	<-time.NewTimer(s.each).C
	return s.memoryStore.WritePending(ctx, p)
}
