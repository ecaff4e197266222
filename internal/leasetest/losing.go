package leasetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// rival is somebody who writes the row at the wrong moment.
type rival struct {
	name      string
	act       func(b *bundle)
	duplicate bool // it is another process with our worker id
	anew      bool // it makes a row that looks like the old one
}

func rivals() []rival {
	return []rival{
		{name: "another worker takes it", act: func(b *bundle) { b.takenBy(b.other()) }},
		{name: "a Java worker takes it", act: func(b *bundle) { b.java("w9") }},
		// Owner as ours, counter one more: what our own lost reply looks like, to a worker that looks at these two.
		{name: "a Java worker with our id writes it", act: func(b *bundle) { b.java("w1") }},
		{name: "another process with our id takes it", act: func(b *bundle) { b.takenBy(b.twin()) }, duplicate: true},
		{name: "it is deleted", act: func(b *bundle) {
			if err := b.calm.Delete(b.Context(), b.row()); err != nil {
				b.Fatal(err)
			}
		}},
		{name: "it is deleted, made anew and taken until the counter is the same", anew: true, act: func(b *bundle) {
			l := b.row()
			if err := b.calm.Delete(b.Context(), l); err != nil {
				b.Fatal(err)
			}
			b.create()
			for range l.Counter {
				b.takenBy(leases.Tenure{Worker: "w2", Nonce: "host2/22/00000000000000bb/anew", Failover: b.suite.failover})
			}
		}},
	}
}

// loses runs one write into rows that somebody else has written meanwhile: before it, and between its landing and the answer.
func (s *suite) loses(t *testing.T, w write) {
	t.Helper()
	for _, r := range rivals() {
		for when, f := range map[string]fault{
			"before":                {},
			"after, and reply lost": {drop: true},
			"instead, never sent":   {refuse: true},
		} {
			if w.name == "delete" && when == "after, and reply lost" {
				continue // nobody can write a row that is gone
			}
			t.Run(r.name+" "+when, func(t *testing.T) {
				t.Parallel()
				b := s.bundle(t)
				seen := w.before(b)
				if seen.Counter == 0 && r.anew {
					return // a new row is the same row: nobody has written it
				}
				if when == "after, and reply lost" {
					f.landed = func() { r.act(b) }
				} else {
					r.act(b)
				}
				before, wasThere, err := b.calm.Get(b.Context(), b.key)
				if err != nil {
					t.Fatal(err)
				}
				b.faults.strike(w.action, f)
				got, err := w.do(b.Context(), b, seen)
				if w.name == "delete" && !wasThere {
					if err != nil {
						t.Errorf("delete of a row that is gone: %v", err)
					}
					return
				}
				if !errors.Is(err, leases.ErrLeaseLost) {
					t.Errorf("wrote %+v, error %v; want lease lost", got, err)
				}
				dup, isDup := errors.AsType[*leases.DuplicateWorkerError](err)
				if want := r.duplicate && w.held; isDup != want {
					t.Errorf("error %v; duplicate worker %t, want %t", err, isDup, want)
				}
				if isDup && (dup.OurProcess != "host1 (process 11)" || dup.TheirProcess != "host3 (process 33)" || dup.Worker != "w1" || dup.Key != b.key) {
					t.Errorf("error names %+v", dup)
				}
				if when == "after, and reply lost" {
					return // the rival's row is what the next lines would compare with itself
				}
				after, isThere, err := b.calm.Get(b.Context(), b.key)
				if err != nil || isThere != wasThere {
					t.Fatalf("row is there %t, was %t, error %v", isThere, wasThere, err)
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("a write that lost changed the row (-before +after):\n%s", diff)
				}
			})
		}
	}
}

func (s *suite) createLoses(t *testing.T) {
	t.Helper()
	for name, f := range map[string]fault{"there already": {}, "there already, first attempt never sent": {refuse: true}, "there already, reply lost": {drop: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bundle(t)
			before := b.held()
			b.faults.strike("PutItem", f)
			created, err := b.table.Create(b.Context(), leases.Lease{Key: b.key, Checkpoint: checkpoint.TrimHorizon, ParentShardIDs: []string{"p1", "p2"}})
			if created || err != nil {
				t.Errorf("created %t, error %v; want neither", created, err)
			}
			b.same(before)
		})
	}
}

// tenures are the rules about marks, and about what one tenure may write over.
func (s *suite) tenures(t *testing.T) {
	t.Parallel()
	t.Run("a renewal learns a mark and keeps it", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		b.asked("w2")
		w, err := b.table.Renew(b.Context(), held, b.me, leases.Renewal{})
		if err != nil {
			t.Fatal(err)
		}
		if !w.Lease.MarkIsLive() || w.Lease.ActualOwner() != "w1" || w.Lease.HandoffTo != "w2" {
			t.Errorf("row after it: %+v", w.Lease)
		}
		if w, err = b.table.Update(b.Context(), w.Lease, b.me, leases.Update{Checkpoint: &at12}); err != nil || !w.Lease.MarkIsLive() {
			t.Errorf("checkpoint under the mark: row %+v, error %v", w.Lease, err)
		}
	})
	t.Run("an ask that falls between a write and its answer is no loss", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		b.faults.strike("UpdateItem", fault{drop: true, landed: func() { b.asked("w2") }})
		w, err := b.table.Update(b.Context(), held, b.me, leases.Update{Checkpoint: &at12})
		if err != nil || !w.Lease.MarkIsLive() || w.Lease.Checkpoint != at12 || w.Recovered != leases.ByThisCall {
			t.Errorf("row %+v, recovered %v, error %v", w.Lease, w.Recovered, err)
		}
		b.same(w.Lease)
	})
	t.Run("nor is one that falls between a take and its answer forgotten", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		seen := b.create()
		b.faults.strike("UpdateItem", fault{drop: true, landed: func() { b.asked("w2") }})
		w, err := b.table.Take(b.Context(), seen, b.me)
		if err != nil || !w.Lease.MarkIsLive() || w.Lease.ActualOwner() != "w1" || w.Lease.Owner != "w2" {
			t.Errorf("row %+v, error %v", w.Lease, err)
		}
		b.same(w.Lease)
	})
	t.Run("a release learns a mark instead of releasing", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		b.asked("w2")
		err := b.table.Evict(b.Context(), held, b.me)
		asked, ok := errors.AsType[*leases.HandoffAskedError](err)
		if !ok || errors.Is(err, leases.ErrLeaseLost) || !asked.Lease.MarkIsLive() {
			t.Fatalf("error %v, want one that shows the mark", err)
		}
		b.same(asked.Lease)
	})
	t.Run("a release removes a mark that is not live", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		b.markedAsJava3("w1") // as its own successor: a known defect of KCL 3.x
		if err := b.table.Evict(b.Context(), held, b.me); err != nil {
			t.Fatal(err)
		}
		if l := b.row(); l.Owner != "" || l.CheckpointOwner != "" {
			t.Errorf("row after it: %+v", l)
		}
	})
	t.Run("an assignment by a Java leader is a loss although no counter moved", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		b.markedAsJava3("w9")
		if w, err := b.table.Renew(b.Context(), held, b.me, leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
			t.Errorf("row %+v, error %v; want lease lost", w.Lease, err)
		}
	})
	t.Run("leaving is written", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held, me := b.held(), b.me
		me.Leaving = true
		w, err := b.table.Renew(b.Context(), held, me, leases.Renewal{})
		if err != nil || !w.Lease.Tenure.Leaving || w.Lease.Tenure.Max != 5 || w.Lease.Tenure.Zone != "a" || w.Lease.Tenure.Failover != s.failover {
			t.Errorf("tenure %+v, error %v", w.Lease.Tenure, err)
		}
	})
	t.Run("a pin is written once", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		b.create()
		for _, at := range []int64{1000, 2000} {
			if err := b.table.UpdateMetadata(b.Context(), b.key, leases.Metadata{StartAtMillis: at}); err != nil {
				t.Fatal(err)
			}
		}
		seen := b.row()
		seen.StartAtMillis = 3000
		w, err := b.table.Take(b.Context(), seen, b.me)
		if err != nil || w.Lease.StartAtMillis != 1000 {
			t.Errorf("startAtMillis %d, error %v; want 1000", w.Lease.StartAtMillis, err)
		}
	})
	t.Run("a checkpoint does not go back", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		w, err := b.table.Update(b.Context(), b.held(), b.me, leases.Update{Checkpoint: &at12})
		if err != nil {
			t.Fatal(err)
		}
		back := checkpoint.ExtendedSequenceNumber{SequenceNumber: "9"}
		_, err = b.table.Update(b.Context(), w.Lease, b.me, leases.Update{Checkpoint: &back})
		r, ok := errors.AsType[*leases.RegressError](err)
		if !ok || errors.Is(err, leases.ErrLeaseLost) || r.Have != at12 || r.Want != back {
			t.Errorf("error %v, want one that names both", err)
		}
		b.same(w.Lease)
	})
	t.Run("nor over an earlier one that had landed unnoticed", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		checkpointTo12 := named(counterMoving(), "checkpoint")
		b.faults.strike("UpdateItem", fault{drop: true}, fault{refuse: true, forever: true})
		s.unknown(b, checkpointTo12, held)
		b.faults.heal()
		back := checkpoint.ExtendedSequenceNumber{SequenceNumber: "9"}
		w, err := b.table.Update(b.Context(), held, b.me, leases.Update{Checkpoint: &back})
		if _, ok := errors.AsType[*leases.RegressError](err); !ok || w.Recovered != leases.ByEarlierCall {
			t.Errorf("recovered %v, error %v", w.Recovered, err)
		}
		b.same(w.Lease)
	})
	t.Run("a former tenure of this process cannot write", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held, next := b.held(), b.me
		next.Nonce = "host1/11/00000000000000aa/next"
		b.takenBy(next)
		_, err := b.table.Update(b.Context(), held, b.me, leases.Update{Checkpoint: &at12})
		if _, dup := errors.AsType[*leases.DuplicateWorkerError](err); dup || !errors.Is(err, leases.ErrLeaseLost) {
			t.Errorf("error %v, want lease lost, and no other process blamed", err)
		}
	})
	t.Run("an attempt that hangs is given up after a sixth of the failover time", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		held := b.held()
		b.faults.strike("UpdateItem", fault{hang: true})
		w, err := b.table.Renew(b.Context(), held, b.me, leases.Renewal{})
		if err != nil || w.Recovered != leases.ByThisCall || b.faults.count("UpdateItem") != 3 {
			t.Errorf("recovered %v after %d requests, error %v; want by this call after 3", w.Recovered, b.faults.count("UpdateItem"), err)
		}
	})
}
