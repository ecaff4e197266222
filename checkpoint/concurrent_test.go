package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// gate makes each write of the bench announce itself and wait.
func (b bench) gate() {
	b.store.entered = make(chan ExtendedSequenceNumber)
	b.store.release = make(chan struct{})
}

func TestConcurrent_theSmallerOfTwoNeverFollowsTheLarger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, at("3"))
		b.deliver("9")
		b.gate()
		nine, five := make(chan error, 1), make(chan error, 1)
		go func() { nine <- b.c.CheckpointAt(t.Context(), at("9")) }()
		<-b.store.entered
		go func() { five <- b.c.CheckpointAt(t.Context(), at("5")) }() // compared with 3, it would be accepted
		synctest.Wait()
		b.store.release <- struct{}{}
		if err := <-nine; err != nil {
			t.Error(err)
		}
		if err := <-five; !errors.Is(err, ErrOutOfRange) {
			t.Errorf("5 after 9: %v", err)
		}
		b.wantRow(at("9"))
	})
}

func TestConcurrent_aCallThatWaitsObeysItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, at("3"))
		b.deliver("9")
		b.gate()
		first := make(chan error, 1)
		go func() { first <- b.c.CheckpointAt(t.Context(), at("5")) }()
		<-b.store.entered
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() { second <- b.c.CheckpointAt(ctx, at("7")) }()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("second: %v", err)
		}
		b.store.release <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
		b.wantRow(at("5"))
	})
}

func TestConcurrent_closeEndsThoseThatWaitAndNotTheOneThatWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, at("3"))
		b.deliver("9")
		b.gate()
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- b.c.CheckpointAt(t.Context(), at("5")) }()
		<-b.store.entered
		go func() { second <- b.c.CheckpointAt(t.Context(), at("7")) }()
		synctest.Wait()
		b.Close(errors.New("deadline"))
		if err := <-second; !errors.Is(err, ErrLeaseLost) {
			t.Errorf("second: %v", err)
		}
		b.store.release <- struct{}{}
		if err := <-first; err != nil {
			t.Errorf("the write had begun and landed: %v", err)
		}
		b.wantRow(at("5"))
	})
}

// Checkpoint is called while batch 5 is in hand and waits for its turn. Meanwhile that batch fails, or ends well and the
// next one begins: neither what failed nor what came later is covered.
func TestConcurrent_aWaitingCheckpointCoversWhatItSawAndIsStillHandled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(b bench)
		want      string
	}{
		"the batch fails": {func(b bench) { b.EndBatch(false) }, "4"},
		"the batch fails and is repeated": {func(b bench) {
			b.EndBatch(false)
			b.BeginBatch(at("5"))
		}, "5"},
		"the next one begins": {func(b bench) {
			b.EndBatch(true)
			b.BeginBatch(at("9"))
		}, "5"},
		"the shard ends": {func(b bench) {
			b.EndBatch(true)
			b.BeginShardEnd()
		}, "5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, at("3"))
				b.deliver("4")
				b.gate()
				first, second := make(chan error, 1), make(chan error, 1)
				go func() { first <- b.c.Checkpoint(t.Context()) }()
				<-b.store.entered
				b.BeginBatch(at("5"))
				go func() { second <- b.c.Checkpoint(t.Context()) }()
				synctest.Wait()
				c.meanwhile(b)
				b.store.release <- struct{}{}
				if err := <-first; err != nil {
					t.Error(err)
				}
				if c.want != "4" {
					<-b.store.entered
					b.store.release <- struct{}{}
				}
				if err := <-second; err != nil {
					t.Error(err)
				}
				b.wantRow(at(c.want))
			})
		})
	}
}

// Many goroutines acknowledge in any order, with a table that fails now and then in every way that it can.
func TestConcurrent_theRowNeverGoesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, TrimHorizon)
	const top = 400
	b.BeginBatch(at(strconv.Itoa(top)))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range top / 8 {
				b.store.mu.Lock()
				b.store.next = outcome(rand.IntN(3)) // lands, replyLost, dropped
				b.store.mu.Unlock()
				p := at(strconv.Itoa(1 + i*8 + g))
				var err error
				if i%3 == 0 {
					var prepared *Prepared
					if prepared, err = b.c.Prepare(t.Context(), p, nil); err == nil {
						err = prepared.Commit(t.Context())
					}
				} else {
					err = b.c.CheckpointAt(t.Context(), p)
				}
				if err != nil && !errors.Is(err, ErrOutOfRange) && !errors.Is(err, errTable) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.store.next = lands
	b.checkpoint()
	b.wantRow(at(strconv.Itoa(top)))
	for i, p := range b.store.writes[1:] {
		if p.Compare(b.store.writes[i]) < 0 {
			t.Fatalf("%s was written after %s", p, b.store.writes[i])
		}
	}
}

// Any sequence of calls over a table that fails: the row never goes back nor beyond what was delivered, success means
// durable, a place out of the window is refused, and SHARD_END comes only at the end.
func TestAnySequence_keepsThePromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &memoryStore{row: TrimHorizon}
		tr := NewTracker(s, TrimHorizon, TrackerOptions{})
		c, ctx := tr.Checkpointer(), context.Background()
		var good, inHand, delivered int
		ended, failed, prepared := false, false, []*Prepared(nil)
		number := func(n int) ExtendedSequenceNumber { return at(strconv.Itoa(n)) }

		said := func(want ExtendedSequenceNumber, err error) {
			switch {
			case err == nil && s.row.Compare(want) < 0:
				t.Fatalf("%s was accepted and the row is at %s", want, s.row)
			case err == nil && tr.Last() != s.row:
				t.Fatalf("the tracker is at %s and the row at %s", tr.Last(), s.row)
			case err != nil && !errors.Is(err, ErrOutOfRange) && !errors.Is(err, errTable):
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
				if s.row.IsShardEnd() && !ended {
					t.Fatal("SHARD_END before the end")
				}
				if !s.row.IsSentinel() && s.row.Compare(number(delivered)) > 0 {
					t.Fatalf("row is at %s, delivered up to %d", s.row, delivered)
				}
			},
			"table": func(t *rapid.T) { s.next = outcome(rapid.IntRange(0, 2).Draw(t, "outcome")) },
			"begin": func(t *rapid.T) {
				if ended || inHand != 0 {
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
			"shard ends": func(t *rapid.T) {
				if inHand != 0 || good != delivered {
					t.Skip()
				}
				ended = true
				tr.BeginShardEnd()
			},
			"checkpoint": func(*rapid.T) {
				want := number(max(good, inHand))
				if good == 0 && inHand == 0 {
					want = TrimHorizon
				}
				if ended {
					want = ShardEnd
				}
				err := c.Checkpoint(ctx)
				if errors.Is(err, ErrOutOfRange) {
					t.Fatal(err)
				}
				said(want, err)
			},
			"checkpoint at": func(t *rapid.T) {
				n := rapid.IntRange(1, delivered+2).Draw(t, "at")
				want, row, err := number(n), s.row, c.CheckpointAt(ctx, number(n))
				if ended && n == delivered {
					want = ShardEnd
				}
				again := failed && n > good // of a batch that comes again
				if (n > delivered || want.Compare(row) < 0 && !again) && !errors.Is(err, ErrOutOfRange) {
					t.Fatalf("%s with the row at %s, delivered up to %d: %v", want, row, delivered, err)
				}
				if again && n <= delivered && errors.Is(err, ErrOutOfRange) {
					t.Fatalf("%s, of a batch that comes again, with the row at %s: %v", want, row, err)
				}
				said(want, err)
			},
			"prepare": func(t *rapid.T) {
				n := rapid.IntRange(1, delivered+2).Draw(t, "at")
				row := s.row
				p, err := c.Prepare(ctx, number(n), nil)
				if s.row != row {
					t.Fatalf("preparing %d moved the row from %s to %s", n, row, s.row)
				}
				if err == nil {
					prepared = append(prepared, p)
				}
			},
			"commit": func(t *rapid.T) {
				if len(prepared) == 0 {
					t.Skip()
				}
				p := rapid.SampledFrom(prepared).Draw(t, "prepared")
				said(p.At(), p.Commit(ctx))
			},
		})
	})
}

func BenchmarkCheckpoint(b *testing.B) {
	s := &memoryStore{}
	tr := NewTracker(nullStore{s}, at("0"), TrackerOptions{})
	c := tr.Checkpointer()
	places := make([]ExtendedSequenceNumber, 1<<12)
	for i := range places {
		places[i] = at(strconv.Itoa(1_000_000 + i))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%len(places) == 0 {
			tr = NewTracker(nullStore{s}, at("0"), TrackerOptions{})
			c = tr.Checkpointer()
		}
		tr.BeginBatch(places[n%len(places)])
		if err := c.Checkpoint(b.Context()); err != nil {
			b.Fatal(err)
		}
		tr.EndBatch(true)
		n++
	}
}

// nullStore accepts and forgets.
type nullStore struct{ *memoryStore }

func (nullStore) WriteCheckpoint(context.Context, ExtendedSequenceNumber) error { return nil }
