package leases

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// blames fails unless the worker's Run ended because another process has its id, with both hosts in the error.
func (w *testWorker) blames(within time.Duration, hosts ...string) {
	w.t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-w.failed:
		if _, ok := errors.AsType[*DuplicateWorkerError](err); !ok {
			w.t.Errorf("Run ended with %v, want the other process with its id", err)
		}
		for _, host := range hosts {
			if err == nil || !strings.Contains(err.Error(), host) {
				w.t.Errorf("Run's error does not name %s: %v", host, err)
			}
		}
	case <-timer.C:
		w.t.Errorf("Run goes on %v after another process with its id began", within)
	}
}

// The older process was asked for a lease and has not finished; another process of its id starts. That hands the lease over at
// once, since nobody acts under it in its name but the older one, which must not any more. The older one learns it at its next
// write, none of which lands.
func TestAsk_anotherProcessWithTheOwnersIDCompletesAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		older, asker, row := b.asked(true)
		h, _ := older.renewer.Get(shardKey(row))
		newer := b.worker("newer", "a").renewing()
		regained, err := newer.renewer.Regain(b.ctx)
		if err != nil || len(regained) != 1 || regained[0].key == shardKey(row) {
			t.Fatalf("regained %v, %v; want the lease that nobody has asked for", regained, err)
		}
		b.within(second, "handed over", func() bool { return asker.holds(row) })
		if err := h.WriteCheckpoint(b.ctx, at(7)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("the older one's checkpoint: %v", err)
		}
		if at7 := b.row(row).Checkpoint; at7 == at(7) {
			t.Error("the older one's checkpoint landed")
		}
		older.blames(b.cfg.RenewInterval+second, "a-host", "newer-host")
		b.pass(time.Minute)
		if regained[0].Context().Err() != nil || !asker.holds(row) {
			t.Errorf("after a minute: the newer one's %v, the asker holds it %t", context.Cause(regained[0].Context()), asker.holds(row))
		}
	})
}

// The older process has asked for a lease and goes on; another process of its id starts. Both watch the row, and it comes to
// one of them: the first renewal of a hand-off lands once. In the end the newer process has what the id has.
func TestAsk_twoProcessesWithTheAskersID(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		owner, older := b.worker("a", "a").start(), b.worker("older", "b").start()
		b.within(time.Minute, "shared", func() bool { return len(older.renewer.Held()) == 2 && len(owner.renewer.Held()) == 2 })
		b.mark(0, "b", b.row(0).Owner)
		b.mark(1, "b", b.row(1).Owner) // some of them are its own already
		newer := b.worker("newer", "b")
		if _, err := newer.renewer.Regain(b.ctx); err != nil {
			t.Fatal(err)
		}
		newer.start()
		older.blames(2*b.cfg.RenewInterval+2*second, "older-host", "newer-host")
		older.stop()
		b.within(3*b.cfg.FailoverTime, "shared again", func() bool { return len(newer.renewer.Held()) == 2 && len(owner.renewer.Held()) == 2 })
		b.pass(time.Minute)
		for i := range 4 {
			if row := b.row(i); row.State() != RowOwned || owner.holds(i) == newer.holds(i) {
				t.Errorf("row %d is %v of %q; held by the owner %t, by the newer process %t", i, row.State(), row.Owner, owner.holds(i), newer.holds(i))
			}
		}
		if n := owner.count("lost"); n != 0 {
			t.Errorf("the owner lost %d leases, want it to hand over", n)
		}
	})
}
