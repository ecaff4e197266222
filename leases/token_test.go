package leases

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/checkpoint"
)

// javaWrites is a take or a renewal by a Java worker: it moves the counter, sets the owner, and knows no tenure.
func (b *bubble) javaWrites(i int, owner string) {
	b.t.Helper()
	_, err := dynamodb.NewFromConfig(b.server.ClientConfig("java")).UpdateItem(b.ctx, &dynamodb.UpdateItemInput{
		TableName: &b.cfg.TableName, Key: item{attrKey: str(shardKey(i))},
		UpdateExpression:          aws.String("SET leaseOwner = :o ADD leaseCounter :one"),
		ExpressionAttributeValues: item{":o": str(owner), ":one": number(1)},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// deletes deletes a row as an operator does: whatever it holds.
func (b *bubble) deletes(i int) {
	b.t.Helper()
	_, err := dynamodb.NewFromConfig(b.server.ClientConfig("operator")).DeleteItem(b.ctx, &dynamodb.DeleteItemInput{
		TableName: &b.cfg.TableName, Key: item{attrKey: str(shardKey(i))},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// creates makes the row anew.
func (b *bubble) creates(i int) {
	b.t.Helper()
	if created, err := b.table.Create(b.ctx, Lease{Key: shardKey(i), Checkpoint: checkpoint.TrimHorizon}); !created || err != nil {
		b.t.Fatalf("create: %t, %v", created, err)
	}
}

// Every way in which a tenure begins, one after the other on one row.
func TestToken_risesWithEveryTenure(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		a, c := b.worker("a", "a").renewing(), b.worker("c", "c").renewing()
		var (
			last int64
			held *Held
		)
		began := func(how string, w *testWorker, h *Held) {
			t.Helper()
			token := h.Grant().Token
			if token <= last {
				t.Errorf("%s: token %d after %d", how, token, last)
			}
			// It is in the table before anybody may act under it.
			if row := b.row(0); row.Counter < token || row.ActualOwner() != w.id {
				t.Errorf("%s: token %d, and the row has counter %d, owner %q", how, token, row.Counter, row.ActualOwner())
			}
			last, held = token, h
		}
		began("the first take", a, a.take(0))
		b.pass(b.cfg.FailoverTime)
		began("a take from its owner", c, c.take(0))
		if err := c.renewer.Release(b.ctx, held); err != nil {
			t.Fatal(err)
		}
		began("a take after a release", a, a.take(0))
		b.mark(0, "c", "a")
		b.within(b.cfg.FailoverTime, "handed over", func() bool { return b.row(0).InTransit() })
		began("a hand-off", c, c.take(0))
		if err := held.WriteCheckpoint(b.ctx, at(1)); err != nil {
			t.Fatal(err)
		}
		again := b.worker("c2", "c").renewing()
		regained, err := again.renewer.Regain(b.ctx)
		if err != nil || len(regained) != 1 {
			t.Fatalf("regained %v, %v", regained, err)
		}
		began("a regain by another process of the same id", again, regained[0])
		b.javaWrites(0, "java")
		b.javaWrites(0, "java")
		began("a take from a Java worker", a, a.take(0))
		b.javaWrites(0, "a") // a Java worker with our id
		began("a take from one with our own id", a, a.take(0))
		a.stop()
		d := b.worker("d", "d").start()
		b.within(2*b.cfg.FailoverTime+second, "the dead worker's lease is taken", func() bool { return d.holds(0) })
		h, _ := d.renewer.Get(shardKey(0))
		began("a take of what is stale", d, h)
	})
}

// A row that is deleted and made anew starts over with its counter. The old tenure's writes carry its nonce, so none of them
// lands on the new row, also when that has come to the very counter that they expect.
func TestHeld_writesNothingToARowMadeAnew(t *testing.T) {
	t.Parallel()
	for name, byWhom := range map[string]string{"by another worker": "c", "by a process of the same id": "a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(b *bubble) {
				a := b.worker("a", "a") // does not renew: it is paused
				old := a.take(0)
				if err := old.WriteCheckpoint(b.ctx, at(7)); err != nil {
					t.Fatal(err)
				}
				seen := old.Lease().Counter
				b.deletes(0)
				b.creates(0)
				c := b.worker("c", byWhom)
				fresh := c.take(0)
				for i := 1; fresh.Lease().Counter < seen; i++ {
					if err := fresh.WriteCheckpoint(b.ctx, at(i)); err != nil {
						t.Fatal(err)
					}
				}
				before := b.row(0)
				if before.Counter != seen {
					t.Fatalf("counter %d, want %d, which the old tenure expects", before.Counter, seen)
				}
				if err := old.WriteCheckpoint(b.ctx, at(99)); !errors.Is(err, ErrLeaseLost) {
					t.Errorf("the old tenure's checkpoint: %v, want lease lost", err)
				}
				if after := b.row(0); after.Counter != before.Counter || after.Checkpoint != before.Checkpoint || after.Tenure.Nonce != before.Tenure.Nonce {
					t.Errorf("the row was %+v and is %+v", before, after)
				}
				if old.Context().Err() == nil {
					t.Error("the old tenure goes on")
				}
				// What does not hold, and docs/guarantees.md says so: the tokens have started over.
				if fresh.Grant().Token > old.Grant().Token {
					t.Errorf("token %d after %d: the document is out of date", fresh.Grant().Token, old.Grant().Token)
				}
			})
		})
	}
}

// The old tenure notices by its next renewal, not at its next checkpoint only.
func TestRenewer_losesARowThatIsDeletedAtItsNextRenewal(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		a := b.worker("a", "a").renewing()
		h := a.take(0)
		b.pass(b.cfg.FailoverTime)
		at := b.since()
		b.deletes(0)
		b.within(b.cfg.RenewInterval+second, "lost", func() bool { return h.Context().Err() != nil })
		if cause := context.Cause(h.Context()); !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("cause %v", cause)
		}
		t.Logf("lost after %v", b.since()-at)
		if _, found, err := b.table.Get(b.ctx, shardKey(0)); found || err != nil {
			t.Errorf("found %t, error %v: a write of the owner has made the row anew", found, err)
		}
	})
}
