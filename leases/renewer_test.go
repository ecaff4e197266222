package leases

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/loop"
)

func at(n int) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.Itoa(n)}
}

func TestRenewer_writesNoMoreThanTheIntervalAsksFor(t *testing.T) {
	t.Parallel()
	inBubble(t, 20, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		for i := range 20 {
			w.take(i)
		}
		b.pass(10 * second)
		b.server.ResetCounts()
		b.pass(10 * time.Minute)
		if per := float64(b.writes("a")) / 20 / 10; per > 18.2 || per < 17 {
			t.Errorf("%.2f writes a minute and lease, want 18.1", per)
		}
		if w.count("lost") > 0 {
			t.Error(w.log())
		}
	})
}

func TestRenewer_spreadsRenewals(t *testing.T) {
	t.Parallel()
	inBubble(t, 100, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		for i := range 100 {
			w.take(i)
		}
		b.pass(time.Minute)
		b.server.ResetCounts()
		most := int64(0)
		for range 30 {
			before := b.writes("a")
			b.pass(100 * time.Millisecond)
			most = max(most, b.writes("a")-before)
		}
		if most > 20 {
			t.Errorf("%d of 100 leases are renewed within 100 ms of a %v interval", most, b.cfg.RenewInterval)
		}
	})
}

func TestRenewer_aCheckpointIsARenewal(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h := w.take(0)
		b.server.ResetCounts()
		for i := range 60 {
			if err := h.WriteCheckpoint(h.Context(), at(i+1)); err != nil {
				t.Fatal(err)
			}
			b.pass(second)
		}
		if n := b.writes("a"); n > 61 {
			t.Errorf("%d writes for 60 checkpoints, want no renewals besides", n)
		}
		if l := b.row(0); l.Checkpoint != at(60) || h.Lease().Checkpoint != at(60) {
			t.Errorf("row is at %v, held at %v", l.Checkpoint, h.Lease().Checkpoint)
		}
		b.pass(b.cfg.RenewInterval * 3)
		if h.Context().Err() != nil {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
	})
}

func TestHeld_endsAtItsDeadlineWhateverHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w, c := b.worker("a", "a").renewing(), b.worker("c", "c")
		asked := b.since()
		h := w.take(0)
		c.start()
		b.server.Inject(emulator.Rule{Client: "a", Effect: emulator.Freeze()})
		<-h.Context().Done()
		// Freezing lets nothing through, so the lease counts from the take.
		if ended, want := b.since()-asked, b.cfg.FailoverTime-500*time.Millisecond; ended != want {
			t.Errorf("the context ended after %v, want %v", ended, want)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, ErrLeaseLost) || errors.Is(cause, ErrReleased) {
			t.Errorf("cause is %v", cause)
		}
		if c.count("taken") > 0 {
			t.Error("a peer had the lease before its owner stopped")
		}
		b.within(b.cfg.FailoverTime, "takeover", func() bool { return c.count("taken") == 1 })
		if err := h.WriteCheckpoint(b.ctx, at(9)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a checkpoint after the loss: %v", err)
		}
		if err := h.Usable(b.ctx); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("usable after the loss: %v", err)
		}
	})
}

func TestHeld_aReplyAfterTheDeadlineBringsNothingBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h := w.take(0)
		// Renewals land, and are answered when it is too late.
		b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Effect: emulator.DelayReply(20 * second)})
		b.server.Inject(emulator.Rule{Client: "a", Operation: "GetItem", Effect: emulator.Freeze()})
		b.pass(time.Minute)
		if h.Context().Err() == nil || w.count("lost") != 1 || len(w.renewer.Held()) != 0 {
			t.Errorf("context %v, events %v", h.Context().Err(), w.log())
		}
	})
}

// A process that was stopped and continued may see the answer before the timer that ends the lease.
func TestHeld_aReplyThatOvertakesTheTimerBringsNothingBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a") // its renewer does not run, so no timer ends the lease
		h := w.take(0)
		b.pass(w.cfg.FailoverTime)
		w.renewer.settle(b.ctx, h, stampOf(h.clock), Written{Lease: h.Lease()}, nil)
		if h.Context().Err() == nil || w.count("lost") != 1 {
			t.Errorf("context %v, events %v", h.Context().Err(), w.log())
		}
	})
}

func TestRenewer_survivesWhatTablesDo(t *testing.T) {
	t.Parallel()
	const leases = 10
	virtual := 3 * time.Minute
	if testing.Short() { // under the race detector
		virtual = time.Minute
	}
	for name, c := range map[string]struct {
		rules []emulator.Rule
		lasts time.Duration // 0: for the whole run
	}{
		"5 % random errors":             {rules: []emulator.Rule{{Probability: 0.05, Seed: 1, Effect: emulator.Fail(500, "InternalServerError", "x")}}},
		"10 % lost replies":             {rules: []emulator.Rule{{Probability: 0.1, Seed: 2, Effect: emulator.DropReply()}}},
		"half throttled":                {rules: []emulator.Rule{{Probability: 0.5, Seed: 3, Effect: emulator.Throttle()}}},
		"an outage of 0.3 D":            {rules: []emulator.Rule{{Effect: emulator.Refuse()}}, lasts: 3 * second},
		"a freeze of 0.3 D":             {rules: []emulator.Rule{{Effect: emulator.Freeze()}}, lasts: 3 * second},
		"slow, and 5 % lost, 5 % wrong": {rules: []emulator.Rule{{Effect: emulator.DelayReply(300 * time.Millisecond)}, {Probability: 0.05, Seed: 4, Effect: emulator.DropReply()}, {Probability: 0.05, Seed: 5, Effect: emulator.Fail(500, "InternalServerError", "x")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, leases, func(b *bubble) {
				w, c2 := b.worker("a", "a").start(), b.worker("c", "c").start()
				b.within(20*second, "balance", func() bool { return len(w.renewer.Held()) == leases/2 && len(c2.renewer.Held()) == leases/2 })
				b.pass(20 * second)
				before := w.count("taken") + c2.count("taken")
				for range 3 {
					var remove []func()
					for _, r := range c.rules {
						remove = append(remove, b.server.Inject(r))
					}
					if c.lasts > 0 {
						b.pass(c.lasts)
					} else {
						b.pass(virtual)
					}
					for _, f := range remove {
						f()
					}
					b.pass(time.Minute)
				}
				if lost := w.count("lost") + c2.count("lost"); lost > 0 {
					t.Errorf("%d leases lost: %v", lost, append(w.log(), c2.log()...))
				}
				if moves := w.count("taken") + c2.count("taken") - before; moves > 0 {
					t.Errorf("%d moves", moves)
				}
			})
		})
	}
}

// A checkpoint whose reply was lost and one that failed: the table and the worker's belief agree afterwards, and nothing
// goes back.
func TestHeld_checkpointsAgreeWithTheTableAfterLostReplies(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h := w.take(0)
		b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Probability: 0.4, Seed: 9, Effect: emulator.DropReply()})
		last := 0
		for i := 1; i <= 50; i++ {
			ctx, cancel := context.WithTimeout(h.Context(), 60*time.Millisecond) // often ends while nobody knows
			if err := h.WriteCheckpoint(ctx, at(i)); err == nil {
				last = i
			} else if errors.Is(err, ErrLeaseLost) {
				t.Fatalf("checkpoint %d: %v", i, err)
			}
			cancel()
			b.pass(200 * time.Millisecond)
			row := b.row(0)
			if row.Checkpoint.Compare(at(last)) < 0 || row.Owner != "a" {
				t.Fatalf("checkpoint %d was acknowledged, the row is at %v, owner %q", last, row.Checkpoint, row.Owner)
			}
		}
		if err := h.WriteCheckpoint(h.Context(), at(99)); err != nil || b.row(0).Checkpoint != at(99) {
			t.Errorf("the last checkpoint: %v, row at %v", err, b.row(0).Checkpoint)
		}
	})
}

func TestHeld_writesTakeTurns(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h := w.take(0)
		b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Effect: emulator.Delay(50 * time.Millisecond)})
		var group sync.WaitGroup
		var ok atomic.Int64
		for i := range 20 {
			group.Go(func() {
				err := h.WriteCheckpoint(h.Context(), at(i+1))
				if _, behind := errors.AsType[*RegressError](err); err == nil || behind {
					ok.Add(1)
				} else {
					t.Errorf("checkpoint %d: %v", i+1, err)
				}
			})
		}
		group.Wait()
		if b.row(0).Checkpoint != at(20) || ok.Load() != 20 || h.Context().Err() != nil {
			t.Errorf("row at %v, %d ended as they should, %v", b.row(0).Checkpoint, ok.Load(), context.Cause(h.Context()))
		}
	})
}

func TestHeld_anotherLeasesEndIsNotItsOwn(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h, other := w.take(0), w.take(1)
		// A checkpoint of h under other's context, which ends while the write hangs.
		remove := b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Times: 1, Effect: emulator.Delay(time.Second)})
		defer remove()
		done := make(chan error, 1)
		go func() { done <- h.WriteCheckpoint(other.Context(), at(1)) }()
		synctest.Wait()
		w.renewer.drop(other, fmt.Errorf("%w: for the test", ErrLeaseLost))
		if err := <-done; err == nil {
			t.Error("the write did not end with its context")
		}
		b.pass(10 * second)
		if h.Context().Err() != nil {
			t.Errorf("lost with the other lease: %v", context.Cause(h.Context()))
		}
	})
}

func TestRenewer_releaseFreesTheRowAfterTheContextEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h := w.take(0)
		remove := b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Times: 1, Effect: emulator.Delay(second)})
		defer remove()
		done := make(chan error, 1)
		go func() { done <- w.renewer.Release(b.ctx, h) }()
		synctest.Wait()
		if cause := context.Cause(h.Context()); !errors.Is(cause, ErrReleased) || !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("while the release is under way the cause is %v", cause)
		}
		if err := <-done; err != nil || b.row(0).Owner != "" {
			t.Errorf("release: %v, owner %q", err, b.row(0).Owner)
		}
		if err := w.renewer.Release(b.ctx, h); !errors.Is(err, ErrReleased) {
			t.Errorf("a second release: %v", err)
		}
		if err := h.WriteCheckpoint(b.ctx, at(1)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a checkpoint after it: %v", err)
		}
		for i := 1; i < 5; i++ {
			w.take(i)
		}
		if err := w.renewer.ReleaseAll(b.ctx); err != nil || b.owners()[""] != 5 || len(w.renewer.Held()) != 0 {
			t.Errorf("release all: %v, owners %v", err, b.owners())
		}
		if w.count("released") != 5 || w.count("lost") != 0 {
			t.Error(w.log())
		}
	})
}

func TestRenewer_aReleasedLeaseIsTakenAtThePeersNextLook(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		a, c := b.worker("a", "a").start(), b.worker("c", "c").start()
		b.within(10*second, "balance", func() bool { return len(a.renewer.Held()) == 2 && len(c.renewer.Held()) == 2 })
		b.pass(20 * second)
		if err := a.renewer.ReleaseAll(b.ctx); err != nil {
			t.Fatal(err)
		}
		a.stop()
		at := b.since()
		b.within(b.cfg.LeaseTakerInterval+second, "taken", func() bool { return len(c.renewer.Held()) == 4 })
		if took := b.since() - at; took > b.cfg.LeaseTakerInterval+100*time.Millisecond {
			t.Errorf("taken after %v", took)
		}
	})
}

func TestRenewer_endsEverythingWhenItStops(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		w := b.worker("a", "a").renewing()
		h := w.take(0)
		w.stop()
		if !errors.Is(context.Cause(h.Context()), ErrLeaseLost) {
			t.Errorf("cause is %v", context.Cause(h.Context()))
		}
		if late := w.take(1); !errors.Is(context.Cause(late.Context()), ErrLeaseLost) {
			t.Errorf("a lease added after the stop: %v", context.Cause(late.Context()))
		}
	})
}

func TestRenewer_twoProcessesWithOneID(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(b *bubble) {
		older := b.worker("one", "same").start()
		b.within(10*second, "all held", func() bool { return len(older.renewer.Held()) == 3 })
		h := older.renewer.Held()[0]
		began := b.since()
		newer := b.worker("two", "same").renewing()
		regained, err := newer.renewer.Regain(b.ctx)
		if err != nil || len(regained) != 3 {
			t.Fatalf("regained %d, %v", len(regained), err)
		}
		if took := b.since() - began; took > second {
			t.Errorf("regaining took %v", took)
		}
		if err := h.WriteCheckpoint(h.Context(), at(7)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("the older one's checkpoint: %v", err)
		}
		if b.row(0).Checkpoint != checkpoint.TrimHorizon {
			t.Errorf("the older one's checkpoint landed: %v", b.row(0).Checkpoint)
		}
		err = <-older.failed
		if took := b.since() - began; took > b.cfg.RenewInterval+second {
			t.Errorf("the older one stopped after %v", took)
		}
		if _, ok := errors.AsType[*DuplicateWorkerError](err); !ok || !strings.Contains(err.Error(), "one-host") || !strings.Contains(err.Error(), "two-host") {
			t.Errorf("the older one's Run: %v", err)
		}
		for _, n := range regained {
			if n.Context().Err() != nil {
				t.Errorf("the newer one lost %s: %v", n.key, context.Cause(n.Context()))
			}
		}
		if tokens := [2]int64{h.Grant().Token, regained[0].Grant().Token}; tokens[1] <= tokens[0] {
			t.Errorf("tokens %v", tokens)
		}
	})
}

// What it held is over when it wakes up, so that it has no write that could fail.
func TestTaker_stopsAfterAFreezeInWhichAReplacementTookItsID(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(b *bubble) {
		older := b.worker("one", "same").start()
		b.within(10*second, "all held", func() bool { return len(older.renewer.Held()) == 3 })
		thaw := b.server.Inject(emulator.Rule{Client: "one", Effect: emulator.Freeze()})
		b.pass(second)
		newer := b.worker("two", "same").start()
		if regained, err := newer.renewer.Regain(b.ctx); err != nil || len(regained) != 3 {
			t.Fatalf("regained %d, %v", len(regained), err)
		}
		b.pass(2 * b.cfg.FailoverTime)
		if len(older.renewer.Held()) != 0 {
			t.Fatal("the older one still holds something")
		}
		thaw()
		b.pass(b.cfg.LeaseTakerInterval * 5 / 4)
		select {
		case err := <-older.failed:
			if !isDuplicate(err) || !strings.Contains(err.Error(), "one-host") || !strings.Contains(err.Error(), "two-host") {
				t.Errorf("the older one's Run: %v", err)
			}
		default:
			t.Error("the older one goes on")
		}
		if n := len(newer.renewer.Held()); n != 3 || newer.count("lost") != 0 || older.count("taken") != 3 {
			t.Errorf("the newer one holds %d; its events %v, the older one's %v", n, newer.log(), older.log())
		}
	})
}

// A namesake that holds what was never ours is one that lives, not one that has just been replaced.
func TestTaker_stopsBesideANamesakeThatLives(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		one, two := b.worker("one", "same").renewing(), b.worker("two", "same")
		one.take(0)
		one.take(1)
		two.start()
		b.pass(b.cfg.FailoverTime * 9 / 10)
		if len(two.failed) > 0 {
			t.Fatal("it stopped at once")
		}
		b.pass(b.cfg.FailoverTime)
		select {
		case err := <-two.failed:
			if !isDuplicate(err) {
				t.Errorf("its Run: %v", err)
			}
		default:
			t.Error("it goes on beside a process of the same id that renews its leases")
		}
	})
}

func TestRenewer_regainHandsOverWhatPeersHaveAskedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(b *bubble) {
		w := b.worker("a", "a")
		w.take(0)
		w.take(1)
		b.worker("b", "b").take(2)
		// b asks for the second; a has asked for the third.
		b.mark(1, "b", "a")
		b.mark(2, "a", "b")
		again := b.worker("a2", "a").renewing()
		held, err := again.renewer.Regain(b.ctx)
		if err != nil || len(held) != 1 || held[0].key != shardKey(0) {
			t.Errorf("regained %v, %v; want the first only", held, err)
		}
		if l := b.row(1); !l.InTransit() || l.Owner != "b" {
			t.Errorf("the row that b has asked for is %+v, want it in transit to b", l)
		}
		if l := b.row(2); !l.MarkIsLive() || l.ActualOwner() != "b" {
			t.Errorf("the row that b was asked for is %+v, want it as it was", l)
		}
	})
}

// skewedClock is a clock whose wall runs ahead by what the test says, and whose timers can be held up: a machine that was
// suspended, a process that was stopped.
type skewedClock struct {
	ahead   atomic.Int64 // wall
	stopped atomic.Bool  // timers made from now on do not fire
}

func (s *skewedClock) context(ctx context.Context) context.Context {
	wall := func() time.Time { return time.Now().Round(0).Add(time.Duration(s.ahead.Load())) }
	return loop.WithClock(ctx, loop.NewClock(time.Now, wall, func(d time.Duration) *loop.Timer {
		if s.stopped.Load() {
			d = 1000 * time.Hour
		}
		timer := time.NewTimer(d)
		return loop.NewTimerOf(timer.C, timer.Stop, func(d time.Duration) {
			if s.stopped.Load() {
				d = 1000 * time.Hour
			}
			timer.Reset(d)
		})
	}))
}

func TestHeld_looksAtTheClockItself(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		clock := &skewedClock{}
		w := b.worker("a", "a").under(clock.context(b.ctx))
		h := w.take(0) // no renewer runs: nobody's timer ends the lease
		c := b.worker("c", "c").start()
		b.within(2*b.cfg.FailoverTime, "takeover", func() bool { return c.count("taken") == 1 })
		b.server.ResetCounts()
		if h.Context().Err() != nil {
			t.Fatal("somebody ended the lease")
		}
		if err := h.WriteCheckpoint(h.Context(), at(3)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a checkpoint after the deadline: %v", err)
		}
		if h.Context().Err() == nil || b.writes("a") != 0 {
			t.Errorf("context %v, %d writes; want an end and none", h.Context().Err(), b.writes("a"))
		}
		if next := c.renewer.Held()[0]; next.Grant().Token <= h.Grant().Token {
			t.Errorf("token %d after %d", next.Grant().Token, h.Grant().Token)
		}
	})
}

func TestHeld_renewsAfterASuspendBeforeItActs(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		clock := &skewedClock{}
		w := b.worker("a", "a").under(clock.context(b.ctx))
		h := w.take(0)
		counter := h.Lease().Counter
		clock.ahead.Add(int64(time.Minute)) // the machine slept for a minute that our clock does not know
		if err := h.Usable(b.ctx); err != nil {
			t.Errorf("usable: %v", err)
		}
		if got := b.row(0).Counter; got != counter+1 {
			t.Errorf("counter %d after Usable, want one renewal after %d", got, counter)
		}
		clock.ahead.Add(int64(time.Minute))
		if err := h.WriteCheckpoint(h.Context(), at(1)); err != nil {
			t.Errorf("checkpoint: %v", err)
		}
		if got := b.row(0).Counter; got != counter+3 {
			t.Errorf("counter %d, want a renewal and a checkpoint after %d", got, counter+1)
		}
		// A peer took the other one meanwhile: it is lost at the first act, and nothing lands.
		lost := w.take(1)
		b.worker("c", "c").take(1)
		clock.ahead.Add(int64(time.Minute))
		if err := lost.WriteCheckpoint(lost.Context(), at(5)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a checkpoint of a lease that was taken during the suspend: %v", err)
		}
		if l := b.row(1); l.Checkpoint != checkpoint.TrimHorizon || l.Owner != "c" {
			t.Errorf("row is at %v, owner %q", l.Checkpoint, l.Owner)
		}
	})
}

func TestHeld_waitsForTheAnswerAfterASuspend(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		clock := &skewedClock{}
		w := b.worker("a", "a").under(clock.context(b.ctx))
		h := w.take(0)
		// 1. A renewal is under way when the machine sleeps; its answer comes after the wake-up.
		h.renewer.mu.Lock()
		h.due = time.Now()
		h.renewer.mu.Unlock()
		b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Times: 1, Effect: emulator.DelayReply(100 * time.Millisecond)})
		until := h.until
		h.slot <- struct{}{}
		renewed := make(chan struct{})
		go func() { defer close(renewed); w.renewer.renew(b.ctx, h); h.releaseSlot() }()
		synctest.Wait()
		clock.ahead.Add(int64(5 * second))
		<-renewed
		// 2. It gives the counter, extends nothing, and leaves the lease in doubt.
		if row := b.row(0); h.Lease().Counter != row.Counter {
			t.Errorf("counter is %d, row has %d", h.Lease().Counter, row.Counter)
		}
		if h.until != until {
			t.Errorf("an answer to a request from before the suspend extended the lease by %v", h.until.Sub(until))
		}
		before := b.row(0).Counter
		if err := h.Usable(b.ctx); err != nil || b.row(0).Counter != before+1 {
			t.Errorf("usable: %v, counter %d after %d; want a renewal", err, b.row(0).Counter, before)
		}
		// 3. With the table cut off, nothing may be done, but the wait obeys ctx.
		clock.ahead.Add(int64(5 * second))
		remove := b.server.Inject(emulator.Rule{Client: "a", Effect: emulator.Refuse()})
		ctx, cancel := context.WithTimeout(b.ctx, second)
		defer cancel()
		if err := h.Usable(ctx); err == nil {
			t.Error("usable without the table's answer after a suspend")
		}
		remove()
		if err := h.Usable(b.ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestRenewer_renewsEverythingAfterASuspend(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(b *bubble) {
		clock := &skewedClock{}
		w := b.worker("a", "a").under(clock.context(b.ctx)).renewing()
		for i := range 10 {
			w.take(i)
		}
		b.pass(20 * second)
		clock.ahead.Add(int64(time.Minute))
		b.server.ResetCounts()
		b.pass(b.cfg.RenewInterval/2 + 100*time.Millisecond)
		if n := b.writes("a"); n < 10 {
			t.Errorf("%d renewals soon after the suspend, want all ten leases renewed", n)
		}
		if w.count("lost") != 0 {
			t.Error(w.log())
		}
	})
}

func TestHeld_aWorkerStoppedPastItsLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		a := b.worker("a", "a").start()
		b.within(2*second, "held", func() bool { return len(a.renewer.Held()) == 1 })
		h := a.renewer.Held()[0]
		if err := h.WriteCheckpoint(h.Context(), at(10)); err != nil {
			t.Fatal(err)
		}
		c := b.worker("c", "c").start()
		b.pass(10 * second)
		// Everything that a sends waits, as if the process stood still between deciding and sending.
		thaw := b.server.Inject(emulator.Rule{Client: "a", Effect: emulator.Freeze()})
		late := make(chan error, 1)
		go func() { late <- h.WriteCheckpoint(b.ctx, at(20)) }()
		b.within(3*b.cfg.FailoverTime, "takeover", func() bool { return c.count("taken") == 1 })
		if h.Context().Err() == nil {
			t.Error("the new owner came before the old one's context ended")
		}
		next := c.renewer.Held()[0]
		if err := next.WriteCheckpoint(next.Context(), at(11)); err != nil {
			t.Fatal(err)
		}
		thaw()
		if err := <-late; !errors.Is(err, ErrLeaseLost) {
			t.Errorf("the late checkpoint: %v", err)
		}
		b.pass(second)
		if l := b.row(0); l.Checkpoint != at(11) || l.Owner != "c" || next.Grant().Token <= h.Grant().Token {
			t.Errorf("row at %v, owner %q, tokens %d then %d", l.Checkpoint, l.Owner, h.Grant().Token, next.Grant().Token)
		}
	})
}
