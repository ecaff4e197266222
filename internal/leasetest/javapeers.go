package leasetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/leases"
)

// What the recorded requests are called.
const (
	javaTake       = "take (owner switches +1)"
	javaRegain     = "take (unowned or own)"
	javaRenew      = "renew"
	javaRenewKnown = "renew with throughput (handoff known)" // 3.5 under a mark that it has learnt
	javaCheckpoint = "checkpoint"
	javaAssign     = "assign: finish or override a handoff"
)

// javaPeers are hand-offs into which Java workers write, in the requests that they were recorded with. Both versions take by
// the counter alone. A take by 2.7 leaves checkpointOwner and handoffTo behind, one by 3.5 handoffTo; and 3.5 renews only
// rows without a checkpointOwner, unless it has learnt a mark.
func (s *suite) javaPeers(t *testing.T) {
	t.Parallel()
	for _, kcl := range []string{"2.7", "3.5"} {
		j := javaWorker{"j1", kcl}
		leaves := kcl == "2.7" // its takes leave checkpointOwner
		for name, run := range map[string]func(b *bundle, mark leases.Lease){
			"takes a marked row": func(b *bundle, mark leases.Lease) {
				l := j.must(b, javaTake, mark)
				if (l.CheckpointOwner != "") != leaves || l.HandoffTo != "w2" || l.Owner != "j1" || l.ActualOwner() != "j1" || l.State() != leases.RowOwned {
					b.Fatalf("row %+v in state %v", l, l.State())
				}
				s.notOurs(b, mark)
				// It goes on as on any row of its own. A mark that 2.7 left would stop 3.5, and 2.7 does not look.
				if l = j.must(b, javaRenew, l); l.ActualOwner() != "j1" || l.MarkIsLive() {
					b.Errorf("after a renewal: %+v", l)
				}
				if l = j.must(b, javaCheckpoint, l); l.ActualOwner() != "j1" || l.MarkIsLive() {
					b.Errorf("after a checkpoint: %+v", l)
				}
				if _, err := b.calm.StartHandoff(b.Context(), l, "w2"); !errors.Is(err, leases.ErrLeaseLost) {
					b.Errorf("asking a Java worker: %v", err)
				}
				s.cured(b, l)
			},
			"takes a row in transit": func(b *bundle, mark leases.Lease) {
				given, err := b.table.CompleteHandoff(b.Context(), mark, b.me)
				if err != nil {
					b.Fatal(err)
				}
				l := j.must(b, javaTake, given)
				if l.InTransit() || l.HandoffTo != "w2" || l.ActualOwner() != "j1" {
					b.Fatalf("row %+v", l)
				}
				if _, err := b.calm.Renew(b.Context(), given, b.other(), leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
					b.Errorf("the successor's first renewal: %v, want lease lost", err)
				}
				s.notOurs(b, mark)
				s.cured(b, l)
			},
			"takes between the completion and its answer": func(b *bundle, mark leases.Lease) {
				b.faults.strike("UpdateItem", fault{drop: true, landed: func() { j.must(b, javaTake, b.row()) }})
				if _, err := b.table.CompleteHandoff(b.Context(), mark, b.me); !errors.Is(err, leases.ErrLeaseLost) {
					b.Errorf("error %v, want lease lost", err)
				}
				s.cured(b, b.row())
			},
			"takes between the successor's first renewal and its answer": func(other *bundle, _ leases.Lease) {
				b := s.bundle(other)
				given := b.completed()
				b.faults.strike("UpdateItem", fault{drop: true, landed: func() { j.must(b, javaTake, b.row()) }})
				if _, err := b.table.Renew(b.Context(), given, b.me, leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
					b.Errorf("error %v, want lease lost", err)
				}
				s.cured(b, b.row())
			},
			"owns what somebody wants to ask for": func(other *bundle, _ leases.Lease) {
				b := s.bundle(other)
				seen := b.held()
				before := j.must(b, javaTake, seen)
				// Its owner may even be what was seen: the tenure does not speak, and the table itself finds that.
				for _, seen := range []leases.Lease{seen, before} {
					if l, err := b.calm.StartHandoff(b.Context(), seen, "w2"); !errors.Is(err, leases.ErrLeaseLost) || !cmp.Equal(l, before) {
						b.Errorf("row %+v, error %v", l, err)
					}
				}
				b.same(before)
			},
			"with the owner's id writes before the ask": func(other *bundle, _ leases.Lease) {
				b := s.bundle(other)
				seen := b.held()
				before := javaWorker{"w1", kcl}.must(b, javaRegain, seen)
				if l, err := b.calm.StartHandoff(b.Context(), seen, "w2"); !errors.Is(err, leases.ErrLeaseLost) || !cmp.Equal(l, before) {
					b.Errorf("row %+v, error %v", l, err)
				}
				b.same(before)
			},
			// A worker that was rolled back to Java under its id: 2.7 does not see the mark, 3.5 refuses the row.
			"with the owner's id renews under the mark": func(b *bundle, mark leases.Lease) {
				twin := javaWorker{"w1", kcl}
				if landed := twin.send(b, javaRenew, mark); landed != leaves {
					b.Fatalf("renewal landed %t", landed)
				}
				l := b.row()
				if !leaves {
					// It learns the mark, and goes on under it by the counter alone.
					b.same(mark)
					l = twin.must(b, javaRenewKnown, l)
				}
				// The counter has moved and the tenure is silent: the mark is not live, and leaseOwner owns.
				if l.MarkIsLive() || l.ActualOwner() != "w2" {
					b.Errorf("row %+v", l)
				}
				s.notOurs(b, mark)
				s.cured(b, l)
			},
			"completes the hand-off as KCL 3 does": func(b *bundle, mark leases.Lease) {
				if leaves {
					return // 2.7 has no such request
				}
				l := javaWorker{"w2", kcl}.must(b, javaAssign, mark)
				if l.MarkIsLive() || l.InTransit() || l.CheckpointOwner != "" || l.ActualOwner() != "w2" {
					b.Errorf("row %+v", l)
				}
				s.notOurs(b, mark)
				s.cured(b, l)
			},
			"with the successor's id takes in transit": func(b *bundle, mark leases.Lease) {
				given, err := b.table.CompleteHandoff(b.Context(), mark, b.me)
				if err != nil {
					b.Fatal(err)
				}
				l := javaWorker{"w2", kcl}.must(b, javaRegain, given)
				if l.InTransit() || l.ActualOwner() != "w2" {
					b.Errorf("row %+v", l)
				}
				if _, err := b.calm.Renew(b.Context(), given, b.other(), leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
					b.Errorf("the Go successor's first renewal: %v, want lease lost", err)
				}
				s.cured(b, l)
			},
		} {
			t.Run(kcl+" "+name, func(t *testing.T) {
				t.Parallel()
				b := s.bundle(t)
				b.held()
				run(b, b.asked("w2"))
			})
		}
	}
	// The order of events in which a mark would come alive again, if anything but the counter were looked at.
	t.Run("a mark that 2.7 left stays dead when its target takes as Java", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		b.held()
		mark := b.asked("w2")
		l := javaWorker{"j1", "2.7"}.must(b, javaTake, mark)
		l = javaWorker{"w2", "2.7"}.must(b, javaTake, l)
		if l.CheckpointOwner != "w1" || l.HandoffTo != l.Owner || l.Tenure.Worker != "w1" {
			t.Fatalf("row %+v: want all of a mark but the tenure's counter", l)
		}
		if l.MarkIsLive() || l.ActualOwner() != "w2" {
			t.Errorf("row %+v", l)
		}
		s.notOurs(b, mark)
	})
	t.Run("a hand-off of a leader of KCL 3.x to the owner itself is not asked over", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		seen := b.held()
		b.markedAsJava3("w1")
		before := b.row()
		for _, seen := range []leases.Lease{seen, before} {
			if l, err := b.calm.StartHandoff(b.Context(), seen, "w2"); !errors.Is(err, leases.ErrLeaseLost) || !cmp.Equal(l, before) {
				t.Errorf("row %+v, error %v", l, err)
			}
		}
		b.same(before)
		s.cured(b, before)
	})
	t.Run("3.5 cannot renew a row that 2.7 took under a mark", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		b.held()
		l := javaWorker{"j1", "2.7"}.must(b, javaTake, b.asked("w2"))
		// So a Java worker that is upgraded has to take its row again, as does ours.
		if (javaWorker{"j1", "3.5"}).send(b, javaRenew, l) {
			t.Error("it did; the suite's idea of KCL 3.5 is wrong")
		}
		s.cured(b, l)
	})
}

// notOurs fails if any write of the owner under a mark lands although somebody else has written the row.
func (s *suite) notOurs(b *bundle, mark leases.Lease) {
	b.Helper()
	before := b.row()
	_, renew := b.table.Renew(b.Context(), mark, b.me, leases.Renewal{})
	_, update := b.table.Update(b.Context(), mark, b.me, leases.Update{Checkpoint: &at12})
	_, complete := b.table.CompleteHandoff(b.Context(), mark, b.me)
	held := mark
	held.Owner, held.CheckpointOwner, held.HandoffTo = "w1", "", ""
	evict := b.table.Evict(b.Context(), held, b.me)
	for what, err := range map[string]error{"renew": renew, "checkpoint": update, "complete": complete, "release": evict} {
		if !errors.Is(err, leases.ErrLeaseLost) {
			b.Errorf("%s: %v, want lease lost", what, err)
		}
	}
	b.same(before)
}

// cured fails unless a Go take makes the row an ordinary one, whatever was left on it.
func (s *suite) cured(b *bundle, seen leases.Lease) {
	b.Helper()
	w, err := b.calm.Take(b.Context(), seen, b.owner())
	if err != nil {
		b.Fatal(err)
	}
	if l := w.Lease; l.State() != leases.RowOwned || l.CheckpointOwner != "" || l.HandoffTo != "" || l.ActualOwner() != "w3" || !l.TenureSpeaks() {
		b.Errorf("after a Go take: %+v", l)
	}
	if l, err := b.table.StartHandoff(b.Context(), w.Lease, "w1"); err != nil || !l.MarkIsLive() {
		b.Errorf("asking for it then: row %+v, error %v", l, err)
	}
	b.note()
}
