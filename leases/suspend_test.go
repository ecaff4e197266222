package leases

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/loop"
)

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
	for name, act := range map[string]func(h *Held) error{
		"before a checkpoint":            func(h *Held) error { return h.WriteCheckpoint(h.Context(), at(3)) },
		"before the processor is called": func(h *Held) error { return h.Usable(h.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
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
				if err := act(h); !errors.Is(err, ErrLeaseLost) {
					t.Errorf("after the deadline: %v, want lease lost", err)
				}
				if h.Context().Err() == nil || b.writes("a") != 0 {
					t.Errorf("context %v, %d writes; want an end and none", h.Context().Err(), b.writes("a"))
				}
				if next := c.renewer.Held()[0]; next.Grant().Token <= h.Grant().Token {
					t.Errorf("token %d after %d", next.Grant().Token, h.Grant().Token)
				}
			})
		})
	}
}

// Who has asked for a lease waits by its own clock, which goes on while our machine sleeps.
func TestHeld_countsASuspendAsTimeToHandItOver(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		b.cfg.FailoverTime, b.cfg.GracefulHandoffTimeout = 20*time.Second, 10*time.Second
		clock := &skewedClock{}
		w := b.worker("a", "a").under(clock.context(b.ctx))
		w.renewer.opts.Asked = nil // nothing comes of it
		h := w.take(0)
		b.mark(0, "b", "a")
		if err := h.WriteCheckpoint(h.Context(), at(1)); err != nil || !h.Asked() {
			t.Fatalf("checkpoint: %v, asked %t", err, h.Asked())
		}
		clock.ahead.Add(int64(HandoffGrace(b.cfg) + b.cfg.FailoverTime/20))
		if err := h.Usable(b.ctx); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("usable after a suspend for which the peer has waited: %v", err)
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
