package leases

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

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

// besideANamesake starts a worker while a process of its id, whose client is "one", renews two of the leases.
func besideANamesake(b *bubble) *testWorker {
	one, two := b.worker("one", "same").renewing(), b.worker("two", "same")
	one.take(0)
	one.take(1)
	return two.start()
}

// A namesake that holds what was never ours is one that lives, not one that has just been replaced.
func TestTaker_stopsBesideANamesakeThatLives(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		two := besideANamesake(b)
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

// A namesake that has died is none that lives, also if the next look that gets through is much later than its last renewal.
func TestTaker_goesOnAfterANamesakeThatDiedWhileTheTableWasOutOfReach(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		two := besideANamesake(b)
		b.pass(b.cfg.LeaseTakerInterval)
		thaw := b.server.Inject(emulator.Rule{Client: "two", Effect: emulator.Freeze()})
		b.pass(b.cfg.RenewInterval + second)
		defer b.server.Inject(emulator.Rule{Client: "one", Effect: emulator.Refuse()})() // as good as dead
		b.pass(2 * b.cfg.FailoverTime)
		thaw()
		b.pass(3 * b.cfg.FailoverTime)
		select {
		case err := <-two.failed:
			t.Errorf("its Run: %v", err)
		default:
			if n := len(two.renewer.Held()); n != 4 {
				t.Errorf("it holds %d leases, want all 4", n)
			}
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
