package leases

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

func at(n int) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.Itoa(n)}
}

func TestRenewer_writesNoMoreThanTheIntervalAsksFor(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
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
