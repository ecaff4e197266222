package leases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/emulator"
)

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

// A worker that knows that it was asked and is stopped then, as by SIGSTOP, goes on when the one that asked has given up waiting and
// taken the lease by its counter. With a FailoverTime that is longer than that wait, its own time is not over yet.
func TestHeld_isNotUsableOnceTheTimeToHandItOverHasPassed(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		b.cfg.FailoverTime, b.cfg.GracefulHandoffTimeout = 20*time.Second, 10*time.Second
		w := b.worker("a", "a").renewing()
		w.renewer.opts.Asked = nil // nothing comes of it
		h := w.take(0)
		b.mark(0, "b", "a")
		b.within(b.cfg.FailoverTime, "the mark is seen", h.Asked)
		learnt := time.Now()
		if err := h.Usable(b.ctx); err != nil {
			t.Errorf("usable when it was just asked for: %v", err)
		}
		b.pass(HandoffGrace(b.cfg))
		if err := h.Usable(b.ctx); err != nil {
			t.Errorf("usable after %v: %v", time.Since(learnt), err)
		}
		b.pass(b.cfg.FailoverTime / 20)
		if err := h.Usable(b.ctx); !errors.Is(err, ErrLeaseLost) || h.Context().Err() != nil {
			t.Errorf("usable after %v: %v (context %v), want a lease that is lost although it has not ended", time.Since(learnt), err, h.Context().Err())
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
