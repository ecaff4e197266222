package leasetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/leases"
)

func failedCondition(err error) bool {
	_, failed := errors.AsType[*types.ConditionalCheckFailedException](err)
	return failed
}

// owner is the tenure that this worker asks.
func (b *bundle) owner() leases.Tenure {
	return leases.Tenure{Worker: "w3", Nonce: "host4/44/00000000000000dd/" + b.key, Failover: b.suite.failover}
}

// handoffs are the writes of a hand-off but the first renewal after it, which is with the renewals.
func handoffs() []write {
	ask := func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error) {
		l, err := b.table.StartHandoff(ctx, seen, b.me.Worker)
		return leases.Written{Lease: l}, err
	}
	asked := func(b *bundle, seen leases.Lease) string {
		want := b.row()
		want.Owner, want.CheckpointOwner, want.HandoffTo = b.me.Worker, seen.Owner, b.me.Worker
		if l := b.row(); !l.MarkIsLive() || l.ActualOwner() != "w3" || l.Counter < seen.Counter || !cmp.Equal(l, want) {
			return fmt.Sprintf("a live mark at the same counter: %+v", l)
		}
		return ""
	}
	complete := func(ctx context.Context, b *bundle, held leases.Lease) (leases.Written, error) {
		l, err := b.table.CompleteHandoff(ctx, held, b.me)
		return leases.Written{Lease: l}, err
	}
	completed := func(b *bundle, seen leases.Lease) string {
		want := seen
		want.Counter++
		want.CheckpointOwner = ""
		me := b.me
		me.At = want.Counter
		want.Tenure = &me
		if l := b.row(); !l.InTransit() || !cmp.Equal(l, want) {
			return "a row in transit, else as it was (-want +got):\n" + cmp.Diff(want, l)
		}
		return ""
	}
	return []write{
		{
			name: "ask", action: "UpdateItem", do: ask, effect: asked,
			before: func(b *bundle) leases.Lease {
				b.create()
				b.takenBy(b.owner())
				return b.row()
			},
		},
		{
			// The owner renews meanwhile, as it does three times in each failover time: that is no reason to fail.
			name: "ask at an older counter", action: "UpdateItem", do: ask, effect: asked,
			before: func(b *bundle) leases.Lease {
				b.create()
				b.takenBy(b.owner())
				seen := b.row()
				if _, err := b.calm.Renew(b.Context(), seen, b.owner(), leases.Renewal{}); err != nil {
					b.Fatal(err)
				}
				return seen
			},
		},
		{
			name: "completion", action: "UpdateItem", held: true, gives: true, do: complete, effect: completed,
			before: func(b *bundle) leases.Lease {
				b.held()
				return b.asked("w2")
			},
		},
		{
			// The tenure in the row is that of the former process, me is a new one of the same id.
			name: "completion after a restart", action: "UpdateItem", held: true, gives: true, do: complete, effect: completed,
			before: func(b *bundle) leases.Lease {
				b.create()
				b.takenBy(leases.Tenure{Worker: "w1", Nonce: "host1/10/0000000000000099/7", Failover: b.suite.failover})
				return b.asked("w2")
			},
		},
		{
			name: "release of what was handed over", action: "UpdateItem", held: true, gives: true, before: (*bundle).completed,
			do: func(ctx context.Context, b *bundle, held leases.Lease) (leases.Written, error) {
				return leases.Written{}, b.table.Evict(ctx, held, b.me)
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if l := b.row(); l.Owner != "" || l.HandoffTo != "" || l.Counter != seen.Counter+1 || l.Tenure.Nonce != b.me.Nonce {
					return fmt.Sprintf("no owner, at one counter more: %+v", l)
				}
				return ""
			},
		},
	}
}

// handingOver are the rules of a hand-off that its writes alone do not show.
func (s *suite) handingOver(t *testing.T) {
	t.Parallel()
	type next struct {
		b    *bundle
		held leases.Lease // as this worker, the owner, last wrote it, without the mark
		mark leases.Lease // as it is
	}
	for name, check := range map[string]func(n next){
		"from the ask to the first renewal": func(n next) {
			w, err := n.b.table.Renew(n.b.Context(), n.held, n.b.me, leases.Renewal{})
			if err != nil || !w.Lease.MarkIsLive() {
				n.b.Fatalf("row %+v, error %v", w.Lease, err)
			}
			if w, err = n.b.table.Update(n.b.Context(), w.Lease, n.b.me, leases.Update{Checkpoint: &at12}); err != nil {
				n.b.Fatal(err)
			}
			given, err := n.b.table.CompleteHandoff(n.b.Context(), w.Lease, n.b.me)
			if err != nil {
				n.b.Fatal(err)
			}
			first, err := n.b.calm.Renew(n.b.Context(), given, n.b.other(), leases.Renewal{})
			if err != nil {
				n.b.Fatal(err)
			}
			got, counter := first.Lease, n.held.Counter
			if got.Owner != "w2" || got.HandoffTo != "" || got.CheckpointOwner != "" || got.Counter != counter+4 || got.Tenure.Nonce != n.b.other().Nonce {
				n.b.Errorf("row %+v, tenure %+v", got, got.Tenure)
			}
			if got.Checkpoint != at12 || got.OwnerSwitches != 0 {
				n.b.Errorf("checkpoint %v, owner switches %d; want 12 and 0", got.Checkpoint, got.OwnerSwitches)
			}
			n.b.same(got)
			n.b.note()
			// Nothing of the former tenure lands any more.
			for what, held := range map[string]leases.Lease{"its own last row": w.Lease, "the row in transit": given} {
				if _, err := n.b.table.Renew(n.b.Context(), held, n.b.me, leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
					n.b.Errorf("renewal on %s: %v", what, err)
				}
			}
			n.b.same(got)
		},
		"the old owner loses what it has completed": func(n next) {
			if _, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me); err != nil {
				n.b.Fatal(err)
			}
			before := n.b.row()
			_, renew := n.b.table.Renew(n.b.Context(), n.mark, n.b.me, leases.Renewal{})
			_, update := n.b.table.Update(n.b.Context(), n.mark, n.b.me, leases.Update{Checkpoint: &at12})
			evict := n.b.table.Evict(n.b.Context(), n.held, n.b.me)
			for what, err := range map[string]error{"renew": renew, "checkpoint": update, "release": evict} {
				if !errors.Is(err, leases.ErrLeaseLost) {
					n.b.Errorf("%s: %v, want lease lost", what, err)
				}
			}
			n.b.same(before)
		},
		"a completion on a counter that has moved": func(n next) {
			// A renewal landed and nobody told us; the mark is still there.
			if _, err := n.b.calm.Renew(n.b.Context(), n.mark, n.b.me, leases.Renewal{}); err != nil {
				n.b.Fatal(err)
			}
			l, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me)
			if err != nil || !l.InTransit() || l.Counter != n.mark.Counter+2 {
				n.b.Errorf("row %+v, error %v", l, err)
			}
			n.b.same(l)
		},
		"a completion that the successor has already built on": func(n next) {
			// Its reply is lost, and the successor renews before it is sent again. Then it looks like a take.
			n.b.faults.strike("UpdateItem", fault{drop: true, landed: func() {
				if _, err := n.b.calm.Renew(n.b.Context(), n.b.row(), n.b.other(), leases.Renewal{}); err != nil {
					n.b.Error(err)
				}
			}})
			_, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me)
			if _, dup := errors.AsType[*leases.DuplicateWorkerError](err); dup || !errors.Is(err, leases.ErrLeaseLost) {
				n.b.Errorf("error %v, want lease lost", err)
			}
			if l := n.b.row(); l.ActualOwner() != "w2" {
				n.b.Errorf("row %+v", l)
			}
		},
		"a completion that nobody asked for": func(n next) {
			before := n.b.row()
			_, err := n.b.table.CompleteHandoff(n.b.Context(), n.held, n.b.me)
			if _, ok := errors.AsType[*leases.NotAskedError](err); !ok || errors.Is(err, leases.ErrLeaseLost) {
				n.b.Errorf("error %v, want one that says so", err)
			}
			if _, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.other()); err == nil {
				n.b.Error("the successor completed what it has asked for itself")
			}
			n.b.same(before)
			if n.b.faults.count("UpdateItem") != 0 {
				n.b.Errorf("%d requests, want none", n.b.faults.count("UpdateItem"))
			}
		},
		"another process with the owner's id has completed it": func(n next) {
			given, err := n.b.calm.CompleteHandoff(n.b.Context(), n.mark, n.b.twin())
			if err != nil {
				n.b.Fatal(err)
			}
			_, err = n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me)
			if _, dup := errors.AsType[*leases.DuplicateWorkerError](err); !dup {
				n.b.Errorf("error %v, want one that names both processes", err)
			}
			n.b.same(given)
		},
		"a leaving owner says so to the end": func(n next) {
			me := n.b.me
			me.Leaving = true
			w, err := n.b.table.Renew(n.b.Context(), n.mark, me, leases.Renewal{})
			if err != nil || !w.Lease.Tenure.Leaving || !w.Lease.MarkIsLive() {
				n.b.Fatalf("row %+v, error %v", w.Lease, err)
			}
			l, err := n.b.table.CompleteHandoff(n.b.Context(), w.Lease, me)
			if err != nil || !l.Tenure.Leaving {
				n.b.Fatalf("tenure %+v, error %v", l.Tenure, err)
			}
			if w, err = n.b.calm.Renew(n.b.Context(), l, n.b.other(), leases.Renewal{}); err != nil || w.Lease.Tenure.Leaving {
				n.b.Errorf("the successor's tenure is %+v, error %v", w.Lease.Tenure, err)
			}
		},
		"the asker takes what is never completed": func(n next) {
			w, err := n.b.calm.Take(n.b.Context(), n.mark, n.b.other())
			if err != nil || w.Lease.CheckpointOwner != "" || w.Lease.HandoffTo != "" || w.Lease.Owner != "w2" {
				n.b.Fatalf("row %+v, error %v", w.Lease, err)
			}
			if _, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me); !errors.Is(err, leases.ErrLeaseLost) {
				n.b.Errorf("complete after it: %v, want lease lost", err)
			}
			n.b.same(w.Lease)
		},
		"the owner's process, restarted, takes it back": func(n next) {
			w, err := n.b.calm.Take(n.b.Context(), n.mark, n.b.twin())
			if err != nil || w.Lease.CheckpointOwner != "" || w.Lease.HandoffTo != "" || w.Lease.Owner != "w1" {
				n.b.Fatalf("row %+v, error %v", w.Lease, err)
			}
		},
		"a second asker is told of the first": func(n next) {
			for what, seen := range map[string]leases.Lease{"before the ask": n.held, "now": n.mark} {
				l, err := n.b.table.StartHandoff(n.b.Context(), seen, "w7")
				if !errors.Is(err, leases.ErrLeaseLost) || l.Owner != "w2" || !l.MarkIsLive() {
					n.b.Errorf("seen %s: row %+v, error %v", what, l, err)
				}
			}
			n.b.same(n.mark)
		},
		"nobody asks for what is in transit": func(n next) {
			given, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me)
			if err != nil {
				n.b.Fatal(err)
			}
			for what, seen := range map[string]leases.Lease{"before the ask": n.held, "now": given} {
				if l, err := n.b.table.StartHandoff(n.b.Context(), seen, "w7"); !errors.Is(err, leases.ErrLeaseLost) || !l.InTransit() {
					n.b.Errorf("seen %s: row %+v, error %v", what, l, err)
				}
			}
			// The first asker, whose reply was lost, learns that it is its own.
			if l, err := n.b.calm.StartHandoff(n.b.Context(), n.held, "w2"); err != nil || !l.InTransit() {
				n.b.Errorf("the same ask again: row %+v, error %v", l, err)
			}
			n.b.same(given)
		},
		"the first renewal is the successor's alone": func(n next) {
			given, err := n.b.table.CompleteHandoff(n.b.Context(), n.mark, n.b.me)
			if err != nil {
				n.b.Fatal(err)
			}
			if _, err := n.b.calm.Renew(n.b.Context(), given, n.b.owner(), leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
				n.b.Errorf("renewal by another: %v, want lease lost", err)
			}
			if err := n.b.calm.Evict(n.b.Context(), given, n.b.owner()); !errors.Is(err, leases.ErrLeaseLost) {
				n.b.Errorf("release by another: %v, want lease lost", err)
			}
			n.b.same(given)
			// Anybody may take it once it is stale.
			if w, err := n.b.calm.Take(n.b.Context(), given, n.b.owner()); err != nil || w.Lease.HandoffTo != "" {
				n.b.Errorf("take of it: row %+v, error %v", w.Lease, err)
			}
			if _, err := n.b.calm.Renew(n.b.Context(), given, n.b.other(), leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
				n.b.Errorf("the successor's renewal after a take: %v, want lease lost", err)
			}
		},
		"a shard that has ended is not asked for": func(n next) {
			b := s.bundle(n.b)
			seen := b.held()
			if _, err := b.table.Update(b.Context(), seen, b.me, leases.Update{Checkpoint: &end}); err != nil {
				n.b.Fatal(err)
			}
			before := b.row()
			for what, seen := range map[string]leases.Lease{"before its end": seen, "now": before} {
				if l, err := b.calm.StartHandoff(b.Context(), seen, "w2"); !errors.Is(err, leases.ErrLeaseLost) || !l.Finished() {
					n.b.Errorf("seen %s: row %+v, error %v", what, l, err)
				}
			}
			b.same(before)
		},
		"one that ends under the mark can still be completed": func(n next) {
			w, err := n.b.table.Update(n.b.Context(), n.mark, n.b.me, leases.Update{Checkpoint: &end})
			if err != nil || !w.Lease.MarkIsLive() {
				n.b.Fatalf("row %+v, error %v", w.Lease, err)
			}
			l, err := n.b.table.CompleteHandoff(n.b.Context(), w.Lease, n.b.me)
			if err != nil || l.Owner != "w2" || !l.Finished() {
				n.b.Errorf("row %+v, error %v", l, err)
			}
		},
		"an ask that arrives after the tenure": func(n next) {
			b := s.bundle(n.b)
			b.create()
			b.takenBy(b.owner())
			b.faults.strike("UpdateItem", fault{late: true}, fault{refuse: true, forever: true})
			s.unknown(b, named(handoffs(), "ask"), b.row())
			b.faults.heal()
			again := b.owner()
			again.Nonce += "-again" // the same worker, a later tenure
			b.takenBy(again)
			b.late()
		},
		"an ask for what cannot be asked for": func(n next) {
			b := s.bundle(n.b)
			unowned := b.create()
			b.takenBy(b.owner())
			mine := b.row()
			for what, c := range map[string]struct {
				seen leases.Lease
				to   string
			}{"unowned": {unowned, "w1"}, "one's own": {mine, "w3"}, "no row": {leases.Lease{}, "w1"}} {
				if l, err := b.table.StartHandoff(b.Context(), c.seen, c.to); !errors.Is(err, leases.ErrLeaseLost) || !cmp.Equal(l, c.seen) {
					n.b.Errorf("%s: row %+v, error %v", what, l, err)
				}
			}
			_, err := b.table.StartHandoff(b.Context(), mine, "")
			if _, ok := errors.AsType[*leases.PermanentError](err); !ok {
				n.b.Errorf("to nobody: %v", err)
			}
			if b.faults.count("UpdateItem") != 0 {
				n.b.Errorf("%d requests, want none", b.faults.count("UpdateItem"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bundle(t)
			held := b.held()
			check(next{b, held, b.asked("w2")})
		})
	}
}
