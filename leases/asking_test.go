package leases

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/emulator"
)

// asked is a fleet in which a has two leases and b, which has just joined, has asked for one of them: row.
func (b *bubble) asked(stays bool) (a, asker *testWorker, row int) {
	b.t.Helper()
	a, asker = b.worker("a", "a"), b.worker("b", "b")
	a.stays = stays
	a.start()
	b.within(5*second, "a has both", func() bool { return len(a.renewer.Held()) == 2 })
	b.pass(20 * second)
	asker.start()
	b.within(10*second, "asked for", func() bool {
		for row = range 2 {
			if b.row(row).MarkIsLive() {
				return true
			}
		}
		return false
	})
	return a, asker, row
}

func (w *testWorker) holds(row int) bool {
	_, ok := w.renewer.Get(shardKey(row))
	return ok
}

func TestAsk_movesALeaseWhenItsOwnerHasFinished(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		a, asker, row := b.asked(true)
		old, _ := a.renewer.Get(shardKey(row))
		b.within(b.cfg.RenewInterval+second, "the owner knows", func() bool { return a.count("asked") == 1 })
		b.pass(5 * second)
		if !a.holds(row) || asker.holds(row) || old.Context().Err() != nil {
			t.Fatal("the lease moved before its owner had finished")
		}
		if err := a.renewer.Release(b.ctx, old); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(old.Context()); !errors.Is(cause, ErrHandedOver) || !errors.Is(cause, ErrReleased) {
			t.Errorf("the old owner's context ended with %v, want ErrHandedOver", cause)
		}
		at := b.since()
		b.within(second, "moved", func() bool { return asker.holds(row) })
		if took := asker.taken[shardKey(row)] - at; took > pollTime(b.cfg.FailoverTime) {
			t.Errorf("the new owner began %v after the old one ended, want %v at most", took, pollTime(b.cfg.FailoverTime))
		}
		h, _ := asker.renewer.Get(shardKey(row))
		if h.Grant().Token <= old.Grant().Token {
			t.Errorf("tokens %d and then %d, want a larger one", old.Grant().Token, h.Grant().Token)
		}
		if l := b.row(row); l.State() != RowOwned || l.Owner != "b" || l.Counter != h.Grant().Token {
			t.Errorf("the row is %v with counter %d, want it owned, with the token %d as counter", l.State(), l.Counter, h.Grant().Token)
		}
		b.pass(time.Minute)
		if n := a.count("lost") + asker.count("lost"); n != 0 {
			t.Errorf("%d leases were lost", n)
		}
	})
}

func TestAsk_takesTheLeaseOfAnOwnerThatDoesNotFinish(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		a, asker, row := b.asked(true)
		at := b.since()
		b.within(b.cfg.GracefulHandoffTimeout+second, "taken", func() bool { return asker.holds(row) })
		if took := b.since() - at; took < b.cfg.GracefulHandoffTimeout-second {
			t.Errorf("taken after %v, want GracefulHandoffTimeout, %v", took, b.cfg.GracefulHandoffTimeout)
		}
		b.within(b.cfg.RenewInterval+second, "the owner knows", func() bool { return a.count("lost") == 1 })
		if grace := HandoffGrace(b.cfg); grace >= b.cfg.GracefulHandoffTimeout-b.cfg.RenewInterval || grace < b.cfg.GracefulHandoffTimeout/2 {
			t.Errorf("an owner has %v to finish, want it to be over before the lease is taken", grace)
		}
	})
}

// Each state in which KCL's hand-offs were seen to hang for ever.
func TestAsk_resolvesWhateverBecomesOfTheTwo(t *testing.T) {
	t.Parallel()
	limit := func(b *bubble) time.Duration { return b.cfg.FailoverTime * 3 / 2 }
	for name, c := range map[string]func(t *testing.T, b *bubble, a, asker *testWorker, row int){
		"the owner is gone": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			a.stop()
			b.within(limit(b), "taken", func() bool { return asker.holds(row) })
		},
		"the asker is gone": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			asker.stop()
			b.within(b.cfg.RenewInterval+second, "handed over", func() bool { return !a.holds(row) })
			b.within(limit(b), "taken back", func() bool { return a.holds(row) })
		},
		"both are gone": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			third := b.worker("c", "c").start()
			b.pass(100 * time.Millisecond)
			a.stop()
			asker.stop()
			b.within(limit(b), "taken", func() bool { return third.holds(row) })
		},
		"the asker comes back with the same id": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			asker.stop()
			again := b.worker("b2", "b").start()
			b.within(b.cfg.RenewInterval+2*second, "handed over", func() bool { return again.holds(row) })
			if a.count("lost") != 0 {
				t.Error("the owner lost a lease, want it to hand it over")
			}
		},
		"the owner comes back with the same id": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			a.stop()
			again := b.worker("a2", "a").renewing()
			if _, err := again.renewer.Regain(b.ctx); err != nil {
				t.Fatal(err)
			}
			b.within(second, "handed over", func() bool { return asker.holds(row) })
		},
		// A Java worker that has the owner's id knows nothing of the mark, which its write ends.
		"Java goes on in the owner's name": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			a.stop()
			_, err := dynamodb.NewFromConfig(b.server.ClientConfig("java")).UpdateItem(b.ctx, &dynamodb.UpdateItemInput{
				TableName: &b.cfg.TableName, Key: item{attrKey: str(shardKey(row))},
				UpdateExpression: aws.String("ADD leaseCounter :one"), ExpressionAttributeValues: item{":one": number(1)},
			})
			if err != nil {
				t.Fatal(err)
			}
			if l := b.row(row); l.MarkIsLive() {
				t.Fatalf("the mark lives on: %+v", l)
			}
			b.within(second, "taken", func() bool { return asker.holds(row) })
			if l := b.row(row); l.CheckpointOwner != "" || l.HandoffTo != "" {
				t.Errorf("the mark was left behind: %+v", l)
			}
		},
		"the lease is taken by another": func(t *testing.T, b *bubble, a, asker *testWorker, row int) {
			t.Helper()
			third := b.worker("c", "c").renewing()
			third.take(row)
			b.within(b.cfg.RenewInterval+second, "the owner knows", func() bool { return a.count("lost") == 1 })
			b.pass(2 * second)
			if asker.holds(row) || !third.holds(row) {
				t.Error("the third worker's lease was taken by the one that had asked for it")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 2, func(b *bubble) {
				a, asker, row := b.asked(false)
				c(t, b, a, asker, row)
				b.within(limit(b), "everything is held", func() bool { return b.row(0).State() == RowOwned && b.row(1).State() == RowOwned })
			})
		})
	}
}

// Who gave a lease to one that is dead takes it as soon as it may: it knows since when the row stands still.
func TestAsk_whoGaveALeaseToOneThatIsDeadTakesItBackFirst(t *testing.T) {
	t.Parallel()
	for i := range 8 { // its next look is anywhere in the interval after it gave the lease
		inBubble(t, 2, func(b *bubble) {
			a, asker, row := b.asked(false)
			asker.stop()
			b.within(b.cfg.RenewInterval+second, "handed over", func() bool { return !a.holds(row) })
			given := b.since()
			took := b.within(b.cfg.FailoverTime*3/2, "taken back", func() bool { return a.holds(row) }) - given
			if most := b.cfg.FailoverTime + 500*time.Millisecond; took > most {
				t.Errorf("run %d: taken back %v after it was given, want at most %v", i, took, most)
			}
		})
	}
}

func TestAsk_ofItselfResolves(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		a := b.worker("a", "a").start()
		b.within(5*second, "a has both", func() bool { return len(a.renewer.Held()) == 2 })
		b.mark(0, "a", "a")
		b.within(b.cfg.RenewInterval+second, "noticed", func() bool { return a.count("asked") == 1 })
		b.within(b.cfg.LeaseTakerInterval+second, "without a mark", func() bool { return b.row(0).State() == RowOwned && a.holds(0) })
	})
}

func TestTaker_releasesWhatIsHandedOverToItAfterItsStop(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		a := b.worker("a", "a").renewing()
		a.take(0)
		a.take(1)
		asker := b.worker("b", "b").renewing()
		ctx, stop := context.WithCancel(b.ctx)
		ended := make(chan error, 1)
		go func() { ended <- asker.taker.Run(ctx) }()
		b.within(10*second, "asked for", func() bool { return b.row(0).MarkIsLive() || b.row(1).MarkIsLive() })
		row := 0
		if b.row(1).MarkIsLive() {
			row = 1
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		asker.taker.Settle(b.ctx)
		if l := b.row(row); l.State() != RowUnowned || asker.holds(row) || a.holds(row) {
			t.Errorf("after Settle the row is %v, want it unowned", l.State())
		}
		if a.count("asked") != 1 || a.count("released") != 1 || a.count("lost") != 0 {
			t.Errorf("the owner's events: %v", a.log())
		}
	})
}

func TestAsk_survivesRepliesThatAreLost(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"UpdateItem", "GetItem"} {
		inBubble(t, 24, func(b *bubble) {
			a := b.worker("a", "a").start()
			b.within(30*second, "a has all", func() bool { return len(a.renewer.Held()) == 24 })
			b.pass(20 * second)
			b.server.Inject(emulator.Rule{Operation: operation, Probability: 0.3, Effect: emulator.DropReply()})
			c := b.worker("c", "c").start()
			b.within(60*second, "balance", func() bool { return len(a.renewer.Held()) == 12 && len(c.renewer.Held()) == 12 })
			b.pass(20 * second)
			if n := a.count("lost") + c.count("lost"); n != 0 {
				t.Errorf("%s: %d leases were lost", operation, n)
			}
			for i := range 24 {
				if l := b.row(i); l.State() != RowOwned || !a.holds(i) && !c.holds(i) {
					t.Errorf("%s: row %d is %v, owner %q", operation, i, l.State(), l.Owner)
				}
			}
		})
	}
}

// A Java worker knows nothing of marks: it neither hands over nor removes one that an earlier hand-off has left behind.
func TestAsk_takesFromAJavaOwnerByTheCounter(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		java := dynamodb.NewFromConfig(b.server.ClientConfig("java"))
		write := func(i int, update string, values item) {
			_, err := java.UpdateItem(b.ctx, &dynamodb.UpdateItemInput{
				TableName: &b.cfg.TableName, Key: item{attrKey: str(shardKey(i))},
				UpdateExpression: &update, ConditionExpression: aws.String("attribute_not_exists(tenure)"), ExpressionAttributeValues: values,
			})
			if err != nil && kindOf(err) != conditionFailed {
				t.Error(err)
			}
		}
		for i := range 4 {
			write(i, "SET leaseOwner = :j, checkpointOwner = :old, handoffTo = :j ADD leaseCounter :one", item{":j": str("java"), ":old": str("gone"), ":one": number(1)})
		}
		ctx, stop := context.WithCancel(b.ctx)
		ended := make(chan struct{})
		go func() { // renews what it still owns
			defer close(ended)
			for ctx.Err() == nil {
				for i := range 4 {
					write(i, "ADD leaseCounter :one", item{":one": number(1)})
				}
				timer := time.NewTimer(3 * second)
				select {
				case <-ctx.Done():
				case <-timer.C:
				}
			}
		}()
		w := b.worker("a", "a").start()
		b.within(30*second, "half of them", func() bool { return len(w.renewer.Held()) == 2 })
		b.pass(20 * second)
		if n := len(w.renewer.Held()); n != 2 {
			t.Errorf("holds %d, want 2", n)
		}
		for _, h := range w.renewer.Held() {
			if l := h.Lease(); l.CheckpointOwner != "" || l.HandoffTo != "" {
				t.Errorf("lease %s bears the mark still: %q, %q", l.Key, l.CheckpointOwner, l.HandoffTo)
			}
		}
		stop()
		<-ended
	})
}

// A short GracefulHandoffTimeout is over before an owner that is cut off has lost its right to act.
func TestAsk_takesNothingFromAnOwnerThatMayStillAct(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		b.cfg.GracefulHandoffTimeout = 200 * time.Millisecond
		a, asker, row := b.asked(true)
		old, _ := a.renewer.Get(shardKey(row))
		b.server.Inject(emulator.Rule{Client: "a", Effect: emulator.Freeze()})
		b.within(b.cfg.FailoverTime*3/2, "taken", func() bool { return asker.holds(row) })
		if old.Context().Err() == nil {
			t.Errorf("the lease was taken %v after the start, while its owner may act, and does not know that it was asked", b.since())
		}
	})
}
