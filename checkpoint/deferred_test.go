package checkpoint

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// renewedStore writes checkpoints when its row is renewed, as the lease renewer does.
type renewedStore struct {
	memoryStore
	late  *ExtendedSequenceNumber
	ended func(ExtendedSequenceNumber, time.Duration, error)
	lost  bool
	ahead bool // the next renewal finds that somebody has moved the row on
}

func (s *renewedStore) DeferCheckpoint(at ExtendedSequenceNumber, ended func(ExtendedSequenceNumber, time.Duration, error)) (bool, error) {
	if s.lost {
		return false, ErrLeaseLost
	}
	s.late, s.ended = &at, ended
	return true, nil
}

func (s *renewedStore) WriteCheckpoint(ctx context.Context, at ExtendedSequenceNumber) error {
	if s.lost {
		return ErrLeaseLost
	}
	err := s.memoryStore.WriteCheckpoint(ctx, at)
	if err == nil && s.late != nil && s.late.Compare(at) <= 0 {
		s.late = nil
	}
	return err
}

func (s *renewedStore) WritePending(ctx context.Context, p Pending) error {
	if s.lost {
		return ErrLeaseLost
	}
	s.renew()
	if s.late != nil { // not written
		return errTable
	}
	return s.memoryStore.WritePending(ctx, p)
}

// renew is what a renewal does with what waits.
func (s *renewedStore) renew() {
	if s.late == nil || s.lost {
		return
	}
	at := *s.late
	if s.ahead {
		s.late = nil
		s.ended(at, 0, errors.New("the row is ahead"))
		return
	}
	if err := s.memoryStore.WriteCheckpoint(context.Background(), at); err == nil {
		s.late = nil
		s.ended(at, 0, nil)
	}
}

func (s *renewedStore) lose() {
	s.lost = true
	if s.late != nil {
		at := *s.late
		s.late = nil
		s.ended(at, 0, ErrLeaseLost)
	}
}

// noting keeps what it is told.
type noting struct{ written, refused *[]Event }

func (noting) Now() time.Time    { return time.Now() }
func (n noting) Written(e Event) { *n.written = append(*n.written, e) }
func (n noting) Refused(e Event) { *n.refused = append(*n.refused, e) }

func deferring(t *testing.T) (*renewedStore, *Tracker, *[]Event, *[]Event) {
	t.Helper()
	written, refused := &[]Event{}, &[]Event{}
	s := &renewedStore{memoryStore: memoryStore{row: at("3")}}
	tr := NewTracker(s, at("3"), TrackerOptions{
		LeaseKey: "shard",
		Observer: noting{written, refused},
	})
	return s, tr, written, refused
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestDeferred_isWrittenByTheNextRenewalOnceAndOnlyTheNewest(t *testing.T) {
	t.Parallel()
	s, tr, written, _ := deferring(t)
	c := tr.Checkpointer()
	for _, n := range []string{"5", "6", "7"} {
		tr.BeginBatch(at(n))
		must(t, c.Checkpoint(t.Context()))
		tr.EndBatch(true)
	}
	must(t, c.CheckpointAt(t.Context(), at("7")))
	if s.calls != 0 || tr.Last() != at("3") || len(*written) != 0 {
		t.Fatalf("before the renewal: %d writes, durable %s, told %v", s.calls, tr.Last(), *written)
	}
	if err := c.CheckpointAt(t.Context(), at("6")); !errors.Is(err, ErrOutOfRange) ||
		!strings.HasSuffix(err.Error(), "6 is behind the last checkpoint 7, which is to be written soon") {
		t.Errorf("a place behind the one that waits: %v", err)
	}
	s.renew()
	if s.calls != 1 || s.row != at("7") || tr.Last() != at("7") || len(*written) != 1 || (*written)[0].At != at("7") {
		t.Errorf("after it: %d writes, row %s, durable %s, told %v", s.calls, s.row, tr.Last(), *written)
	}
	must(t, c.Flush(t.Context()))
	if s.calls != 1 {
		t.Errorf("Flush wrote what was durable")
	}
}

func TestDeferred_aFlushThatCannotWaitRefusesOnlyWhatWaits(t *testing.T) {
	t.Parallel()
	s, tr, _, refused := deferring(t)
	c := tr.Checkpointer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Flush(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "flush checkpoint shard at 3: ") || len(*refused) != 0 {
		t.Errorf("nothing waits: %v, told %v", err, *refused)
	}
	tr.BeginBatch(at("9"))
	must(t, c.CheckpointAt(t.Context(), at("5")))
	if err := c.Flush(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "flush checkpoint shard at 5: ") || len(*refused) != 1 || (*refused)[0].At != at("5") {
		t.Errorf("5 waits: %v, told %v", err, *refused)
	}
	if s.calls != 0 {
		t.Errorf("%d writes", s.calls)
	}
}

func TestDeferred_flushShardEndAndTwoPhasesAreDurableWhenTheyReturn(t *testing.T) {
	t.Parallel()
	s, tr, _, _ := deferring(t)
	c := tr.Checkpointer()
	tr.BeginBatch(at("9"))
	must(t, c.CheckpointAt(t.Context(), at("5")), c.Flush(t.Context()))
	if s.row != at("5") || s.late != nil || tr.Last() != at("5") {
		t.Fatalf("after Flush: row %s, waiting %v, durable %s", s.row, s.late, tr.Last())
	}
	must(t, c.CheckpointAt(t.Context(), at("6")))
	prepared, err := c.Prepare(t.Context(), at("8"), []byte("x"))
	must(t, err)
	if s.row != at("6") || s.pending == nil || s.pending.At != at("8") || tr.Last() != at("6") {
		t.Fatalf("after Prepare: row %s, pending %v, durable %s", s.row, s.pending, tr.Last())
	}
	must(t, prepared.Commit(t.Context()))
	if s.row != at("8") || s.pending != nil {
		t.Fatalf("after Commit: row %s, pending %v", s.row, s.pending)
	}
	tr.EndBatch(true)
	must(t, c.Checkpoint(t.Context()))
	tr.BeginShardEnd()
	must(t, c.Checkpoint(t.Context()))
	if s.row != ShardEnd || s.late != nil || tr.Last() != ShardEnd {
		t.Fatalf("at the end: row %s, waiting %v, durable %s", s.row, s.late, tr.Last())
	}
}

func TestDeferred_whatALostLeaseDropsIsToldByTheHookAndTheNextCall(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(context.Context, *Checkpointer) error{
		"Checkpoint":   func(ctx context.Context, c *Checkpointer) error { return c.Checkpoint(ctx) },
		"CheckpointAt": func(ctx context.Context, c *Checkpointer) error { return c.CheckpointAt(ctx, at("8")) },
		"Flush":        func(ctx context.Context, c *Checkpointer) error { return c.Flush(ctx) },
		"Prepare": func(ctx context.Context, c *Checkpointer) error {
			_, err := c.Prepare(ctx, at("9"), nil)
			return err
		},
	} {
		s, tr, _, refused := deferring(t)
		c := tr.Checkpointer()
		tr.BeginBatch(at("9"))
		must(t, c.CheckpointAt(t.Context(), at("7")))
		s.lose()
		if len(*refused) != 1 || (*refused)[0].At != at("7") || !errors.Is((*refused)[0].Err, ErrLeaseLost) {
			t.Errorf("%s: told %v, want that 7 is lost", name, *refused)
		}
		for range 2 {
			if err := next(t.Context(), c); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%s after the loss: %v", name, err)
			}
		}
		if s.row != at("3") || tr.Last() != at("3") {
			t.Errorf("%s: row %s, durable %s, want both at 3", name, s.row, tr.Last())
		}
	}
}

func TestDeferred_aRowThatWasMovedOnIsReportedOnce(t *testing.T) {
	t.Parallel()
	s, tr, _, refused := deferring(t)
	c := tr.Checkpointer()
	tr.BeginBatch(at("9"))
	must(t, c.CheckpointAt(t.Context(), at("7")))
	s.ahead = true
	s.renew()
	err := c.CheckpointAt(t.Context(), at("8"))
	if err == nil || !strings.Contains(err.Error(), "at 7: it was to be written later: the row is ahead") || len(*refused) != 2 {
		t.Errorf("the next call: %v, told %d times", err, len(*refused))
	}
	must(t, c.CheckpointAt(t.Context(), at("8")))
}

// Whatever happens in whatever order: the row never goes back, never beyond what was accepted, and after a Flush that
// succeeded it is there. A lease that is lost at any moment costs what was accepted since, and nothing is written after it.
func TestDeferred_neverRegressesNorExceedsWhatWasHandled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := func(n int) ExtendedSequenceNumber { return at(strconv.Itoa(n)) }
		s := &renewedStore{memoryStore: memoryStore{row: number(0)}}
		tr := NewTracker(s, number(0), TrackerOptions{})
		c, ctx := tr.Checkpointer(), context.Background()
		good, inHand, delivered, failed := 0, 0, 0, false
		accepted, atLoss := number(0), -1
		accept := func(want ExtendedSequenceNumber, err error) {
			switch {
			case err == nil:
				if want.Compare(accepted) > 0 {
					accepted = want
				}
			case s.lost && errors.Is(err, ErrLeaseLost), errors.Is(err, ErrOutOfRange):
			case errors.Is(err, errTable): // of a call that writes at once: it may have landed
				if want.Compare(accepted) > 0 {
					accepted = want
				}
			default:
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for i, p := range s.writes {
					if i > 0 && p.Compare(s.writes[i-1]) < 0 {
						t.Fatalf("%s was written after %s", p, s.writes[i-1])
					}
				}
				if s.row.Compare(accepted) > 0 {
					t.Fatalf("the row is at %s, accepted was %s", s.row, accepted)
				}
				if tr.Last().Compare(s.row) > 0 {
					t.Fatalf("said to be durable: %s, the row is at %s", tr.Last(), s.row)
				}
				if s.lost && len(s.writes) != atLoss {
					t.Fatal("written after the loss")
				}
			},
			"table": func(t *rapid.T) { s.next = outcome(rapid.IntRange(0, 2).Draw(t, "outcome")) },
			"begin": func(t *rapid.T) {
				if inHand != 0 {
					t.Skip()
				}
				inHand = good + rapid.IntRange(1, 3).Draw(t, "records")
				delivered = max(delivered, inHand)
				tr.BeginBatch(number(inHand))
			},
			"end": func(t *rapid.T) {
				if inHand == 0 {
					t.Skip()
				}
				ok := rapid.Bool().Draw(t, "handled")
				tr.EndBatch(ok)
				failed = !ok
				if ok {
					good = inHand
				}
				inHand = 0
			},
			"checkpoint": func(*rapid.T) { accept(number(max(good, inHand)), c.Checkpoint(ctx)) },
			"checkpoint at": func(t *rapid.T) {
				n := rapid.IntRange(1, delivered+2).Draw(t, "at")
				err := c.CheckpointAt(ctx, number(n))
				if err == nil && n > delivered {
					t.Fatalf("%d was accepted, delivered were %d", n, delivered)
				}
				if err == nil && number(n).Compare(accepted) < 0 && (!failed || n <= good) { // else its batch comes again
					t.Fatalf("%d was accepted behind %s", n, accepted)
				}
				accept(number(n), err)
			},
			"prepare and commit": func(t *rapid.T) {
				n := rapid.IntRange(1, delivered+2).Draw(t, "at")
				p, err := c.Prepare(ctx, number(n), nil)
				if err != nil {
					return
				}
				err = p.Commit(ctx)
				accept(p.At(), err)
				if err == nil && s.row != p.At() {
					t.Fatalf("committed %s, the row is at %s", p.At(), s.row)
				}
			},
			"renew": func(*rapid.T) { s.renew() },
			"flush": func(*rapid.T) {
				err := c.Flush(ctx)
				if err == nil && (s.row != accepted || tr.Last() != accepted) {
					t.Fatalf("after Flush the row is at %s, known %s, accepted was %s", s.row, tr.Last(), accepted)
				}
				accept(number(0), err)
			},
			"lose": func(t *rapid.T) {
				if s.lost || rapid.IntRange(0, 9).Draw(t, "luck") > 0 {
					t.Skip()
				}
				atLoss = len(s.writes)
				s.lose()
			},
		})
	})
}
