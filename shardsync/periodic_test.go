package shardsync_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// auditor is a manager that runs.
type auditor struct {
	*shardsync.PeriodicShardSyncManager
	leads atomic.Bool
	blind atomic.Bool // the table has not been read
	stop  func()      // ends Run and waits for it
}

// audit runs a manager over s, which leads, with a period of two minutes.
func (w *world) audit(ctx context.Context, s *shardsync.HierarchicalShardSyncer) *auditor {
	a := &auditor{}
	a.leads.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	a.PeriodicShardSyncManager = shardsync.NewPeriodicShardSyncManager(s, shardsync.PeriodicOptions{
		IsLeader: a.leads.Load,
		Rows: func() ([]leases.Lease, bool) {
			l, err := w.table.List(ctx)
			return l.Leases, err == nil && !a.blind.Load()
		},
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	a.stop = func() { cancel(); wg.Wait() }
	return a
}

// first makes the rows of a stream's shards at TRIM_HORIZON.
func (w *world) first() {
	w.t.Helper()
	if _, err := w.syncer("first", config.TrimHorizon()).Sync(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.note(func() { w.synced, w.created, w.retries = nil, nil, nil })
}

func (w *world) delete(n int) leases.Lease {
	w.t.Helper()
	row := w.rows()[shard(n)]
	if err := w.table.Delete(w.t.Context(), row); err != nil {
		w.t.Fatal(err)
	}
	return row
}

func (w *world) deleteStream() {
	w.t.Helper()
	if _, err := w.user.DeleteStream(w.t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(stream)}); err != nil {
		w.t.Fatal(err)
	}
}

func isPermanent(err, kind error) bool {
	_, permanent := errors.AsType[*shardsync.PermanentError](err)
	return permanent && errors.Is(err, kind)
}

func (w *world) audits() (out []config.SyncEvent) {
	w.note(func() { out = slices.Clone(w.synced) })
	return out
}

func (w *world) retried() (out []config.RetryEvent) {
	w.note(func() { out = slices.Clone(w.retries) })
	return out
}

func TestAudit_repairsAHoleThatItSawThreeTimes(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, w *world) {
		w.first()
		a := w.audit(ctx, w.syncer("w", config.TrimHorizon()))
		defer a.stop()
		time.Sleep(time.Minute)
		gone := w.delete(2)
		time.Sleep(3 * time.Minute) // two audits
		if got := w.keys(); len(got) != 3 || w.requests("w", "ListShards").Requests != 0 || w.requests("w", "Scan").Requests != 0 {
			t.Errorf("rows %v and requests %+v before the third audit", got, w.requests("w", ""))
		}
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff(gone, w.rows()[shard(2)]); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Hour)
		if n := w.requests("w", "ListShards").Requests; n != 1 {
			t.Errorf("%d listings", n)
		}
		if n := w.requests("w", "Scan").Requests; n != 1 {
			t.Errorf("%d scans", n)
		}
		evs := w.audits()
		if len(evs) < 32 || len(evs) > 37 { // 65 minutes by 108 to 120 seconds
			t.Errorf("%d audits", len(evs))
		}
		for i, ev := range evs {
			if want := i == 3; want != (ev.Created == 1) || ev.Err != nil || want != (ev.Shards == 4) {
				t.Errorf("audit %d: %+v", i, ev)
			}
		}
	})
}

// The first audit of a tenure counts for as many as it takes: leaders that change often would never be sure.
func TestAudit_repairsAtOnceWhenItComesToLead(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, w *world) {
		w.first()
		w.delete(1)
		s := w.syncer("w", config.TrimHorizon())
		a := w.audit(ctx, s)
		defer a.stop()
		time.Sleep(time.Second)
		if got := w.keys(); len(got) != 4 {
			t.Errorf("rows %v after the start", got)
		}
		a.leads.Store(false)
		time.Sleep(time.Minute)
		w.delete(2)
		before := w.requests("w", "")
		a.Request() // nobody answers it here
		time.Sleep(time.Hour)
		if got := w.keys(); len(got) != 3 {
			t.Errorf("a follower made rows: %v", got)
		}
		if now := w.requests("w", ""); now != before {
			t.Errorf("a follower sent requests: %+v, had sent %+v", now, before)
		}
		a.leads.Store(true)
		time.Sleep(3 * time.Second) // it asks four times in a FailoverTime
		if got := w.keys(); len(got) != 4 {
			t.Errorf("rows %v after the election", got)
		}
	})
}

func TestAudit_waitsUntilTheTableWasRead(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		w.first()
		w.delete(1)
		s := w.syncer("w", config.TrimHorizon())
		a := w.audit(ctx, s)
		defer a.stop()
		time.Sleep(time.Millisecond)
		a.stop()
		w.first()
		w.delete(1)
		b := w.audit(ctx, s)
		defer b.stop()
		b.blind.Store(true)
		time.Sleep(time.Minute)
		if len(w.audits()) > 1 {
			t.Errorf("audits %+v", w.audits())
		}
		b.blind.Store(false)
		time.Sleep(3 * time.Second)
		if got := w.keys(); len(got) != 2 {
			t.Errorf("rows %v", got)
		}
	})
}

// X6 and B040: requests that arrive while an audit runs lead to one more.
func TestAudit_remembersARequestThatArrivesMeanwhile(t *testing.T) {
	bubble(t, 4, func(ctx context.Context, w *world) {
		w.first()
		a := w.audit(ctx, w.syncer("w", config.TrimHorizon()))
		defer a.stop()
		time.Sleep(10 * time.Second)
		w.server.Inject(emulator.Rule{Client: "w", Operation: "ListShards", Times: 1, Effect: emulator.DelayReply(5 * time.Second)})
		w.delete(1)
		a.Request()
		time.Sleep(2 * time.Second) // it has read the table and lists the shards
		w.delete(3)
		for range 1000 {
			a.Request()
		}
		time.Sleep(4500 * time.Millisecond)
		if got := w.keys(); !slices.Equal(got, []string{"", "1", "2", "3"}) {
			t.Errorf("rows %v", got)
		}
		time.Sleep(20 * time.Second)
		if n := len(w.audits()); n != 3 {
			t.Errorf("%d audits for the start, a request, and a thousand requests", n)
		}
		for range 100 { // nobody makes it busy
			a.Request()
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(w.audits()); n > 14 {
			t.Errorf("%d audits after 10s of requests", n)
		}
	})
}

// B034 and B037: listings in the middle of a reshard are never acted on, and end nothing.
func TestAudit_waitsForAListingThatMakesSense(t *testing.T) {
	t.Parallel()
	// Shards 0 and 1; 0 was split into 2 and 3. Rows: 1 and 2.
	for name, spoil := range map[string]func([]shardsync.Shard) []shardsync.Shard{
		"an open parent with a listed child": func(s []shardsync.Shard) []shardsync.Shard { s[0].EndingSequenceNumber = ""; return s },
		"a closed shard without children":    func(s []shardsync.Shard) []shardsync.Shard { return s[:2] },
		"a ring with a gap":                  func(s []shardsync.Shard) []shardsync.Shard { return s[:3] },
		"a page lost":                        func(s []shardsync.Shard) []shardsync.Shard { return s[2:] },
		"nothing":                            func([]shardsync.Shard) []shardsync.Shard { return nil },
		"a shard twice":                      func(s []shardsync.Shard) []shardsync.Shard { return append(s, s[1]) },
		"an overlap":                         func(s []shardsync.Shard) []shardsync.Shard { s[1].HashKeyRange = hashkey.Full(); return s },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(ctx context.Context, w *world) {
				w.split(0)
				w.set(1, number("99999999999999999999999999999999999999999999999999999999"))
				w.set(2, checkpoint.TrimHorizon)
				bad := 5
				s := w.syncer("w", config.TrimHorizon(), func(_ shardsync.Filter, shards []shardsync.Shard) []shardsync.Shard {
					if bad--; bad >= 0 {
						return spoil(shards)
					}
					return shards
				})
				a := w.audit(ctx, s)
				defer a.stop()
				time.Sleep(4 * time.Second)
				if got := w.keys(); !slices.Equal(got, []string{"1", "2"}) {
					t.Errorf("rows %v", got)
				}
				if len(w.retried()) == 0 {
					t.Error("nothing was reported")
				}
				time.Sleep(30 * time.Second)
				if got := w.keys(); !slices.Equal(got, []string{"1", "2", "3"}) {
					t.Errorf("rows %v after the listing was whole", got)
				}
				evs := w.audits()
				if len(evs) != 2 || !errors.Is(evs[0].Err, shardsync.ErrInconsistent) || evs[1].Err != nil {
					t.Errorf("audits %+v", evs)
				}
			})
		})
	}
}

// P12 of KCL's tests, and P9 of its lease layer's: rows of an early KCL, without hash keys.
func TestAudit_fillsInHashKeysFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hole  bool
		fails bool
	}{
		"the ring is whole then":        {},
		"it has a hole then":            {hole: true},
		"the first write does not work": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(ctx context.Context, w *world) {
				w.first()
				time.Sleep(time.Second)
				want := w.rows()
				a := w.audit(ctx, w.syncer("w", config.TrimHorizon()))
				defer a.stop()
				time.Sleep(time.Second)
				for _, n := range []int{0, 1} {
					l := w.delete(n)
					l.HashKeyRange = hashkey.Range{}
					if _, err := w.table.Create(ctx, l); err != nil {
						t.Fatal(err)
					}
				}
				if c.hole {
					w.delete(3)
				}
				if c.fails {
					w.server.Inject(emulator.Rule{Client: "w", Operation: "UpdateItem", Times: 1, Effect: emulator.Fail(400, "AccessDeniedException", "")})
				}
				time.Sleep(250 * time.Second) // two audits
				if rows := w.rows(); !rows[shard(0)].HashKeyRange.Known || !rows[shard(1)].HashKeyRange.Known || len(rows) == 5 == c.hole {
					t.Errorf("rows %+v", rows)
				}
				time.Sleep(2 * time.Minute)
				if diff := cmp.Diff(want, w.rows()); diff != "" {
					t.Error(diff)
				}
				// Each audit that misses something lists once, and so does a repair.
				listings := int64(1)
				if c.hole || c.fails {
					listings = 2
				}
				if n := w.requests("w", "ListShards").Requests; n != listings {
					t.Errorf("%d listings, want %d", n, listings)
				}
			})
		})
	}
}

// B043: both children of a finished shard lost their rows. They are read from their beginnings, whatever the configuration.
func TestAudit_startsLostChildrenWhereTheirParentEnded(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		w.split(0)
		w.set(0, checkpoint.ShardEnd)
		w.set(1, checkpoint.Latest)
		a := w.audit(ctx, w.syncer("w", config.Latest()))
		defer a.stop()
		time.Sleep(time.Second)
		rows := w.rows()
		for _, n := range []int{2, 3} {
			if at := rows[shard(n)].Checkpoint; at != checkpoint.TrimHorizon {
				t.Errorf("shard %d starts at %v", n, at)
			}
		}
	})
}

// A table that somebody emptied is filled by the first audit that sees it.
func TestAudit_fillsAnEmptyTableAtOnce(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, w *world) {
		w.first()
		a := w.audit(ctx, w.syncer("w", config.Latest()))
		defer a.stop()
		time.Sleep(time.Second)
		for n := range 3 {
			w.delete(n)
		}
		time.Sleep(2 * time.Minute)
		pins := map[int64]bool{}
		for _, l := range w.rows() {
			pins[l.StartAtMillis] = true
		}
		if len(w.rows()) != 3 || len(pins) != 1 || pins[0] {
			t.Errorf("rows %v", w.rows())
		}
	})
}

// An open shard whose lease is finished is a hole that nothing may fill. It is said again with every audit, and harms no
// other shard.
func TestAudit_explainsAShardThatNobodyReads(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, w *world) {
		w.first()
		w.set(1, checkpoint.ShardEnd)
		want := w.rows()
		a := w.audit(ctx, w.syncer("w", config.TrimHorizon()))
		defer a.stop()
		time.Sleep(10 * time.Minute)
		evs := w.audits()
		if len(evs) < 5 || len(evs) > 15 {
			t.Errorf("%d audits", len(evs))
		}
		for _, ev := range evs {
			if !errors.Is(ev.Err, shardsync.ErrOtherHistory) || !strings.Contains(ev.Err.Error(), shard(1)) || !strings.Contains(ev.Err.Error(), "created at") {
				t.Errorf("audit: %v", ev.Err)
			}
		}
		if diff := cmp.Diff(want, w.rows()); diff != "" {
			t.Error(diff)
		}
		if n := w.requests("w", "ListShards").Requests; n > int64(len(evs)) {
			t.Errorf("%d listings in %d audits", n, len(evs))
		}
	})
}

// The stream disappears while the audit runs, and another one takes its name: nothing is created for it.
func TestAudit_noticesAStreamThatWasCreatedAnew(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		w.first()
		s := w.syncer("w", config.TrimHorizon())
		if _, err := s.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		a := w.audit(ctx, s)
		defer a.stop()
		time.Sleep(time.Second)
		w.deleteStream()
		w.delete(1)
		a.Request()
		time.Sleep(5 * time.Second)
		if err := w.server.CreateStream(stream, 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		evs := w.audits()
		if !errors.Is(evs[2].Err, shardsync.ErrStreamNotFound) || !errors.Is(evs[len(evs)-1].Err, shardsync.ErrOtherHistory) {
			t.Errorf("audits %+v", evs)
		}
		if got := w.keys(); !slices.Equal(got, []string{""}) {
			t.Errorf("rows %v", got)
		}
	})
}

// A leader stops between its decision and a write. Meanwhile another one makes the row, the shard is read to its end, and
// the row is deleted: made again, it would be read again.
func TestAudit_doesNotFollowADecisionOfLongAgo(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, w *world) {
		w.first()
		w.split(2)
		w.delete(1)
		w.delete(2)
		s := w.syncer("w", config.TrimHorizon())
		thaw := w.server.Inject(emulator.Rule{Client: "w", Operation: "PutItem", Effect: emulator.Freeze()})
		a := w.audit(ctx, s)
		defer a.stop()
		time.Sleep(5 * time.Second) // it has decided to make rows for 1 and 2
		w.set(3, number("99999999999999999999999999999999999999999999999999999999"))
		w.set(4, number("99999999999999999999999999999999999999999999999999999999"))
		time.Sleep(15 * time.Second)
		thaw()
		time.Sleep(time.Minute)
		if got := w.keys(); !slices.Equal(got, []string{"", "1", "3", "4"}) {
			t.Errorf("rows %v", got)
		}
	})
}

// A worker of several streams has no loop for each: it asks each manager for one step, and when to come again.
func TestAudit_byStepsDoesAsRunDoes(t *testing.T) {
	bubble(t, 2, func(ctx context.Context, w *world) {
		var leads atomic.Bool
		leads.Store(true)
		m := shardsync.NewPeriodicShardSyncManager(w.syncer("w", config.TrimHorizon()), shardsync.PeriodicOptions{
			IsLeader: leads.Load,
			Rows:     func() ([]leases.Lease, bool) { l, err := w.table.List(ctx); return l.Leases, err == nil },
		})
		again := m.Step(ctx)
		if got := w.keys(); len(got) != 2 {
			t.Fatalf("rows %v after the first step of a leader", got)
		}
		if again < 100*time.Second || again > 140*time.Second {
			t.Errorf("the next step is due after %v, want about two minutes", again)
		}
		w.delete(1)
		time.Sleep(again)
		m.Step(ctx)
		if got := w.keys(); len(got) != 1 {
			t.Errorf("rows %v after a hole was seen once", got)
		}
		leads.Store(false)
		if wait := m.Step(ctx); wait > 10*time.Second {
			t.Errorf("a worker that does not lead is to come again after %v", wait)
		}
		leads.Store(true)
		if m.Step(ctx); len(w.keys()) != 2 {
			t.Errorf("rows %v: a new leader needs no second look", w.keys())
		}
		w.delete(0)
		m.Request()
		time.Sleep(2 * time.Second)
		if m.Step(ctx); len(w.keys()) != 2 {
			t.Errorf("rows %v after a step that was asked for", w.keys())
		}
	})
}
