package checkpoint

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The cases C1 to C11 are what users of KCL rely on; each is played by checkpointing at once and in two phases.

// bench is a tracker with its store, and helpers that say what they did when it fails.
type bench struct {
	*testing.T
	*Tracker
	store *memoryStore
	c     *Checkpointer
}

func newBench(t *testing.T, from ExtendedSequenceNumber) bench {
	t.Helper()
	s := &memoryStore{row: from}
	tr := NewTracker(s, from, TrackerOptions{LeaseKey: "shardId-000000000007"})
	return bench{T: t, Tracker: tr, store: s, c: tr.Checkpointer()}
}

// deliver hands a batch over that ends at last, and has it handled.
func (b bench) deliver(last string) {
	b.BeginBatch(at(last))
	b.EndBatch(true)
}

func (b bench) wantRow(want ExtendedSequenceNumber) {
	b.Helper()
	if b.store.row != want || b.Last() != want {
		b.Fatalf("row is at %s and the tracker at %s, want %s", b.store.row, b.Last(), want)
	}
}

func (b bench) prepare(p ExtendedSequenceNumber) *Prepared {
	b.Helper()
	prepared, err := b.c.Prepare(b.Context(), p, nil)
	if err != nil {
		b.Fatal(err)
	}
	return prepared
}

// ways are the ways to say a place: at once, in two phases, and with a first phase that is never committed.
var ways = map[string]func(b bench, p ExtendedSequenceNumber) error{
	"at once": func(b bench, p ExtendedSequenceNumber) error { return b.c.CheckpointAt(b.Context(), p) },
	"two phases": func(b bench, p ExtendedSequenceNumber) error {
		before := b.store.row
		prepared, err := b.c.Prepare(b.Context(), p, []byte("state"))
		if err != nil {
			return err
		}
		if b.store.row != before {
			b.Errorf("preparing %s moved the row from %s to %s", p, before, b.store.row)
		}
		if want := prepared.At(); want != before && (b.store.pending == nil || b.store.pending.At != want) {
			b.Errorf("%s is not pending", want)
		}
		return prepared.Commit(b.Context())
	},
	"prepared, then at once": func(b bench, p ExtendedSequenceNumber) error {
		_, _ = b.c.Prepare(b.Context(), p, nil)
		return b.c.CheckpointAt(b.Context(), p)
	},
}

func TestKCL_C1toC7_theWindow(t *testing.T) {
	t.Parallel()
	for name, say := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, at("13"))
			b.deliver("5019")
			refused := func(p ExtendedSequenceNumber, last string) {
				t.Helper()
				calls := b.store.calls
				if err := say(b, p); !errors.Is(err, ErrOutOfRange) {
					t.Errorf("%s: %v, want it refused", p, err)
				}
				if b.store.calls != calls {
					t.Errorf("%s was refused and written", p)
				}
				b.wantRow(at(last))
			}
			accepted := func(p, want ExtendedSequenceNumber) {
				t.Helper()
				if err := say(b, p); err != nil {
					t.Error(err)
				}
				b.wantRow(want)
				if b.store.pending != nil {
					t.Errorf("%s is still pending after %s", b.store.pending.At, p)
				}
			}

			refused(at("2"), "13") // C1
			accepted(at("13"), at("13"))
			accepted(at("13"), at("13"))
			if b.store.calls != 0 {
				t.Errorf("C2 wrote %d times", b.store.calls)
			}
			accepted(at("127"), at("127")) // C3
			for _, p := range []ExtendedSequenceNumber{
				at("2"), at("13"), at("9000"), at("6789"),
				{},
				at("bogus"),
				sub("127", -1), ShardEnd, TrimHorizon, Latest, AtTimestamp,
			} { // C4
				refused(p, "127")
			}
			accepted(at("5019"), at("5019")) // C5
			b.deliver("6789")
			b.BeginShardEnd()
			accepted(at("6789"), ShardEnd) // C6
			accepted(at("6789"), ShardEnd)
			refusedAtEnd := say(b, at("6788"))
			if !errors.Is(refusedAtEnd, ErrOutOfRange) {
				t.Errorf("6788 after SHARD_END: %v", refusedAtEnd)
			}
			b.wantRow(ShardEnd)
		})
	}
}

func TestKCL_C8_preparedOnesAreCommittedInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5019"))
	b.deliver("6040")
	first, second := b.prepare(at("6010")), b.prepare(at("6020"))
	if b.store.pending.At != at("6020") {
		t.Errorf("%s is pending", b.store.pending.At)
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRow(at("6010"))
	if b.store.pending != nil {
		t.Error("the first commit left something pending")
	}
	if err := second.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRow(at("6020"))
}

func TestKCL_C9_anOlderPreparedOneIsRefusedAfterANewer(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("6020"))
	b.deliver("7040")
	older, newer := b.prepare(at("7010")), b.prepare(at("7020"))
	if err := newer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := older.Commit(t.Context())
	if !errors.Is(err, ErrOutOfRange) {
		t.Errorf("7010 after 7020: %v", err)
	}
	const want = "checkpoint shardId-000000000007 at 7010: checkpoint out of range: 7010 is behind the last checkpoint 7020"
	if err != nil && err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	b.wantRow(at("7020"))
}

func TestKCL_C10_theEndOfTheShardCanBePrepared(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5"))
	b.deliver("9")
	b.BeginShardEnd()
	prepared, err := b.c.PrepareAll(t.Context(), []byte("done"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Pending{At: ShardEnd, State: []byte("done")}, b.store.pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if b.store.row != at("5") {
		t.Errorf("row is at %s", b.store.row)
	}
	if err := prepared.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRow(ShardEnd)
}

// step is a position and whether it is checkpointed: "cp" by Checkpoint, "seq" by its number, "" not.
type step struct{ position, action string }

var plans = map[string][]step{
	"LATEST cp": {{"LATEST", "cp"}, {"SHARD_END", "cp"}},
	"LATEST":    {{"LATEST", ""}, {"SHARD_END", "cp"}},
	"few":       {{"TRIM_HORIZON", ""}, {"1", ""}, {"2", "cp"}, {"3", ""}, {"4", "seq"}, {"SHARD_END", "cp"}},
	"many": {
		{"LATEST", "cp"},
		{"30", ""},
		{"332", "seq"},
		{"349", ""},
		{"4332", "cp"},
		{"4338", ""},
		{"5349", "seq"},
		{"5358", ""},
		{"64332", "cp"},
		{"64338", "cp"},
		{"65358", "seq"},
		{"764338", "seq"},
		{"765349", "cp"},
		{"765358", ""},
		{"SHARD_END", "cp"},
	},
}

func TestKCL_C11_mixedPlans(t *testing.T) {
	t.Parallel()
	for planName, plan := range plans {
		for wayName, say := range ways {
			t.Run(planName+"/"+wayName, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, at(plan[0].position))
				last := at(plan[0].position)
				for _, s := range plan {
					switch {
					case s.position == "SHARD_END":
						b.BeginShardEnd()
					case at(s.position).IsSentinel():
					default:
						b.BeginBatch(at(s.position))
					}
					switch {
					case s.action == "seq":
						if err := say(b, at(s.position)); err != nil {
							t.Fatal(err)
						}
					case s.action == "cp" && wayName == "at once":
						if err := b.c.Checkpoint(t.Context()); err != nil {
							t.Fatal(err)
						}
					case s.action == "cp":
						prepared, err := b.c.PrepareAll(t.Context(), nil)
						if err != nil {
							t.Fatal(err)
						}
						commit := prepared.Commit
						if wayName != "two phases" {
							commit = b.c.Checkpoint
						}
						if err := commit(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					if s.action != "" {
						last = at(s.position)
					}
					b.wantRow(last)
					if b.store.pending != nil {
						t.Fatalf("%s is pending at %s", b.store.pending.At, s.position)
					}
					b.EndBatch(true)
				}
				b.wantRow(ShardEnd)
			})
		}
	}
}

// X21: ShardEnded is repeated after it failed; the explicit number of the last record means the end of the shard each time.
func TestKCL_X21_theLastNumberMeansTheEndInEveryRepetition(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5"))
	b.deliver("9")
	b.store.next = dropped
	for range 3 {
		b.BeginShardEnd()
		if err := b.c.CheckpointAt(t.Context(), at("9")); !errors.Is(err, errTable) {
			t.Fatal(err)
		}
	}
	b.store.next = lands
	b.BeginShardEnd()
	if err := b.c.CheckpointAt(t.Context(), at("9")); err != nil {
		t.Fatal(err)
	}
	b.wantRow(ShardEnd)
}

// X22: the last record was checkpointed while it was processed; its number in ShardEnded is not "no change".
func TestKCL_X22_theLastNumberMeansTheEndAlsoIfItIsTheCheckpoint(t *testing.T) {
	t.Parallel()
	for name, say := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, at("5"))
			b.deliver("9")
			if err := say(b, at("9")); err != nil {
				t.Fatal(err)
			}
			b.BeginShardEnd()
			if err := say(b, at("9")); err != nil {
				t.Fatal(err)
			}
			b.wantRow(ShardEnd)
		})
	}
}

// The same after a restart: the tenure starts at the last record and finds the shard's end behind it.
func TestKCL_X22_alsoInATenureThatDeliveredNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, sub("9", 2))
	b.BeginShardEnd()
	if err := b.c.CheckpointAt(t.Context(), at("9")); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("9, which is behind 9/2: %v", err)
	}
	if err := b.c.CheckpointAt(t.Context(), sub("9", 2)); err != nil {
		t.Fatal(err)
	}
	b.wantRow(ShardEnd)
}

// D11: all of the place is prepared, the sub-sequence number included.
func TestKCL_D11_preparingKeepsTheSubSequenceNumber(t *testing.T) {
	t.Parallel()
	b := newBench(t, at("5"))
	b.BeginBatch(sub("9", 4))
	prepared, err := b.c.PrepareAll(t.Context(), []byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if prepared.At() != sub("9", 4) || string(prepared.State()) != "s" || b.store.pending.At != sub("9", 4) {
		t.Errorf("prepared %s, %q, pending %s", prepared.At(), prepared.State(), b.store.pending.At)
	}
	if err := prepared.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRow(sub("9", 4))
}

// CheckpointerTest: a loop of advances; prepare leaves the checkpoint; a checkpoint clears what was prepared.
func TestKCL_advancesInALoopAndClearsWhatIsPending(t *testing.T) {
	t.Parallel()
	b := newBench(t, TrimHorizon)
	for _, n := range []string{"2", "3", "4", "10", "11", "100"} {
		b.deliver(n)
		b.prepare(at(n))
		if err := b.c.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wantRow(at(n))
		if b.store.pending != nil {
			t.Errorf("%s is pending after a checkpoint", b.store.pending.At)
		}
	}
	if want := 12; b.store.calls != want {
		t.Errorf("%d writes, want %d", b.store.calls, want)
	}
}
