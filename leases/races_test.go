package leases

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

// A checkpoint that never reaches the table leaves nothing in memory either: the next renewal, or a checkpoint's first half,
// is based on the row as it is. (KCL: #1354, #1788)
func TestHeld_aCheckpointThatFailedLeavesBeliefAndRowAsTheyWere(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		a := b.worker("a", "a").renewing()
		h := a.take(0)
		heal := b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Effect: emulator.Fail(500, "InternalServerError", "no")})
		ctx, cancel := context.WithTimeout(b.ctx, 2*second)
		defer cancel()
		if err := h.WriteCheckpoint(ctx, at(5)); err == nil || errors.Is(err, ErrLeaseLost) {
			t.Errorf("error %v, want one that says unknown", err)
		}
		if l := h.Lease(); l.Checkpoint != checkpoint.TrimHorizon || l.Counter != b.row(0).Counter {
			t.Errorf("memory has %v at counter %d, the row %v at %d", l.Checkpoint, l.Counter, b.row(0).Checkpoint, b.row(0).Counter)
		}
		heal()
		b.pass(b.cfg.RenewInterval)
		if err := h.WritePending(b.ctx, checkpoint.Pending{At: at(6)}); err != nil {
			t.Fatal(err)
		}
		if row, l := b.row(0), h.Lease(); row.Checkpoint != checkpoint.TrimHorizon || row.Counter != l.Counter || row.Checkpoint != l.Checkpoint {
			t.Errorf("after a renewal and a pending checkpoint the row is %+v, memory %+v", row, l)
		}
	})
}

// Listings that take longer than a lease lasts show counters that are old when they arrive; an owner that renews all the
// time loses nothing by them. (KCL: steals with what a slow scan has shown)
func TestTaker_takesNothingOfALiveWorkerAfterSlowListings(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		a := b.worker("a", "a").start()
		b.within(10*second, "a has all", func() bool { return len(a.renewer.Held()) == 4 })
		b.server.Inject(emulator.Rule{Client: "c", Operation: "Scan", Effect: emulator.DelayReply(15 * second)})
		b.worker("c", "c").start()
		b.pass(3 * time.Minute)
		if n := a.count("lost"); n != 0 {
			t.Errorf("a live owner lost %d leases", n)
		}
		if row := b.owners(); row["a"]+row["c"] != 4 {
			t.Errorf("owners %v", row)
		}
	})
}

// A row that is deleted between the look that shows it and the take costs that take and nothing else. (KCL: the taker's whole
// run ends with a NullPointerException)
func TestTaker_goesOnWhenARowIsDeletedBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(b *bubble) {
		var once sync.Once
		b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Match: func([]byte) bool {
			once.Do(func() { b.deletes(0); b.deletes(1) })
			return false
		}})
		a := b.worker("a", "a").start()
		b.within(b.cfg.LeaseTakerInterval+second, "the rest is taken", func() bool { return a.holds(2) })
		b.pass(time.Minute)
		if len(a.renewer.Held()) != 1 || a.count("lost") > 1 {
			t.Errorf("holds %d, events %v; want the one row that is there", len(a.renewer.Held()), a.log())
		}
		if rows := b.owners(); len(rows) != 1 || rows["a"] != 1 {
			t.Errorf("owners %v: a row was made anew by a take", rows)
		}
	})
}

// A worker that gets a lease again which it has not noticed losing has one tenure of it afterwards, the new one. (KCL: a second
// token under which the old consumer goes on)
func TestRenewer_aLeaseTakenAgainEndsTheTenureBefore(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		a := b.worker("a", "a").renewing()
		old := a.take(0)
		fresh := a.take(0)
		if old.Context().Err() == nil || fresh.Context().Err() != nil {
			t.Errorf("old tenure %v, new tenure %v; want the old one only to have ended", old.Context().Err(), fresh.Context().Err())
		}
		if err := old.WriteCheckpoint(b.ctx, at(3)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("the old tenure's checkpoint: %v", err)
		}
		if err := fresh.WriteCheckpoint(b.ctx, at(4)); err != nil || b.row(0).Checkpoint != at(4) {
			t.Errorf("the new one's: %v, row at %v", err, b.row(0).Checkpoint)
		}
		b.pass(time.Minute)
		if held := a.renewer.Held(); len(held) != 1 || held[0] != fresh || a.count("lost") != 1 {
			t.Errorf("holds %v, events %v", held, a.log())
		}
	})
}

// The owner completes at the very moment at which the asker's patience ends and it takes the lease by its counter. One of the
// two writes lands, whichever it is the asker has the lease, once, and the owner does not. (KCL: leaseTransferCalled)
func TestAsk_completionAndTakeAtTheSameMoment(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-300, -100, -50, -10, 0, 10, 50, 100, 300} {
		off *= time.Millisecond
		inBubble(t, 2, func(b *bubble) {
			a, asker, row := b.asked(true)
			old, _ := a.renewer.Get(shardKey(row))
			// The asker counts from its ask, which was at some time within the last 50 ms.
			b.pass(b.cfg.GracefulHandoffTimeout + off)
			err := a.renewer.Release(b.ctx, old)
			if err != nil && !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%v: %v", off, err)
			}
			b.within(2*second, "moved", func() bool { return asker.holds(row) })
			if old.Context().Err() == nil || a.holds(row) {
				t.Errorf("%v: both hold it", off)
			}
			if asker.count("taken "+shardKey(row)[:5]) != 1 || b.row(row).State() != RowOwned {
				t.Errorf("%v: events %v, row %+v", off, asker.log(), b.row(row))
			}
			if err := old.WriteCheckpoint(b.ctx, at(9)); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%v: the old owner's checkpoint: %v", off, err)
			}
		})
	}
}

// A row made anew has a smaller counter than was seen before. Its owner renews it, so it is not dead. (KCL: compares by "greater")
func TestTaker_takesNoRowMadeAnewFromItsLiveOwner(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		a := b.worker("a", "a").start()
		b.within(10*second, "a has both", func() bool { return len(a.renewer.Held()) == 2 })
		c := b.worker("c", "c").start()
		b.within(time.Minute, "shared", func() bool { return len(c.renewer.Held()) == 1 })
		b.pass(10 * time.Minute) // counters of some hundred
		row := 0
		if c.holds(0) {
			row = 1
		}
		high := b.row(row).Counter
		b.deletes(row)
		b.within(b.cfg.RenewInterval+second, "noticed", func() bool { return !a.holds(row) })
		b.creates(row)
		b.within(2*b.cfg.FailoverTime, "taken", func() bool { return a.holds(row) || c.holds(row) })
		lost := a.count("lost") + c.count("lost")
		b.pass(5 * time.Minute)
		if now := b.row(row); now.Counter >= high {
			t.Fatalf("counter %d, want it below %d all the time", now.Counter, high)
		}
		if n := a.count("lost") + c.count("lost"); n != lost {
			t.Errorf("%d leases were lost after the row was made anew: %v, %v", n-lost, a.log(), c.log())
		}
		if len(a.renewer.Held()) != 1 || len(c.renewer.Held()) != 1 {
			t.Errorf("a holds %d, c %d", len(a.renewer.Held()), len(c.renewer.Held()))
		}
	})
}
