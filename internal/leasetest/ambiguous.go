package leasetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// ambiguous is one kind of write of which a worker may not know whether it landed.
type ambiguous struct {
	name   string
	action string
	only   func(request) bool // which requests of the action it is
	keeps  bool               // if nobody else writes, it is one tenure before and after it
	defers bool               // checkpoints are written with renewals
	// run brings the case where the write applies, strikes it, makes it, and brings the workers into a state in which they go on
	// by themselves. strike arms the faults; deadline is closed when this worker may not act on the answer any more.
	run func(m *matrix, w *worker, strike func(key string, deadline <-chan struct{}))
}

// event is what happens to it.
type event struct {
	name   string
	before bool // a Java worker takes the row before the write
	mild   bool // nothing is lost by it
	late   bool // it lasts until the write's deadline
	faults func(deadline <-chan struct{}, java func()) []fault
}

func events() []event {
	return []event{
		{name: "reply lost", mild: true, faults: func(<-chan struct{}, func()) []fault { return []fault{{drop: true}} }},
		{name: "reply after the deadline", late: true, faults: func(deadline <-chan struct{}, _ func()) []fault {
			return []fault{{until: deadline, forever: true}}
		}},
		{name: "repeated by the SDK after it had landed", mild: true, faults: func(<-chan struct{}, func()) []fault { return []fault{{resend: true}} }},
		{name: "a Java take between it and its reply, which is lost", faults: func(_ <-chan struct{}, java func()) []fault {
			return []fault{{drop: true, landed: java}}
		}},
		{name: "a Java take just before it", before: true, faults: func(<-chan struct{}, func()) []fault { return []fault{{}} }},
	}
}

// ambiguousWrites are all writes that a worker makes, at the place where it makes them.
func ambiguousWrites() []ambiguous {
	update := func(parts ...string) func(request) bool {
		return func(r request) bool {
			for _, p := range parts {
				if part, not := strings.CutPrefix(p, "!"); strings.Contains(r.UpdateExpression, part) == not {
					return false
				}
			}
			return true
		}
	}
	isTake := update("#leaseOwner = ", "!#checkpointOwner = ")
	const one, two = "shardId-000000000001", "shardId-000000000002"
	return []ambiguous{
		{name: "take", keeps: true, action: "UpdateItem", only: isTake, run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			m.add(one, checkpoint.TrimHorizon)
			strike(one, m.after(m.cfg.FailoverTime))
			w.begin()
		}},
		{name: "renew", keeps: true, action: "UpdateItem", run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			h := m.hold(w, m.add(one, at12), w.id+"/1/x/1")
			strike(one, h.Context().Done())
			m.until(m.cfg.FailoverTime, func() string {
				if h.Context().Err() != nil || w.faults.count("UpdateItem") > 1 {
					return ""
				}
				return "not renewed"
			})
		}},
		{name: "checkpoint", keeps: true, action: "UpdateItem", only: update("#checkpoint = "), run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			h := m.hold(w, m.add(one, at12), w.id+"/1/x/1")
			strike(one, h.Context().Done())
			next := checkpoint.ExtendedSequenceNumber{SequenceNumber: "13"}
			err := h.WriteCheckpoint(m.ctx, next)
			if now := m.rows()[one]; err == nil && now.Checkpoint != next {
				m.Errorf("the checkpoint landed, it says, and the row is at %v", now.Checkpoint)
			}
			if err != nil && (m.mild || !errors.Is(err, leases.ErrLeaseLost)) {
				m.Errorf("error %v: the lease was ours, or lost", err)
			}
			if now := m.rows()[one]; m.before && (err == nil || now.Checkpoint != at12) {
				m.Errorf("after a Java take: error %v, the row is at %v, want lease lost and %v", err, now.Checkpoint, at12)
			}
		}},
		{name: "checkpoint with the next renewal", keeps: true, defers: true, action: "UpdateItem", only: update("#checkpoint = "), run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			h := m.hold(w, m.add(one, at12), w.id+"/1/x/1")
			strike(one, h.Context().Done())
			next := checkpoint.ExtendedSequenceNumber{SequenceNumber: "13"}
			durable := make(chan error, 1)
			if ok, err := h.DeferCheckpoint(next, func(_ checkpoint.ExtendedSequenceNumber, _ time.Duration, err error) { durable <- err }); err != nil || !ok {
				m.Fatalf("accepted %t, error %v", ok, err)
			}
			m.until(2*m.cfg.FailoverTime, func() string {
				var err error
				select {
				case err = <-durable:
				case <-h.Context().Done():
					err = context.Cause(h.Context())
				default:
					return "neither durable nor lost"
				}
				switch now := m.rows()[one]; {
				case err == nil && (m.before || now.Checkpoint != next):
					m.Errorf("durable, it says; the row is at %v", now.Checkpoint)
				case err != nil && (m.mild || !errors.Is(err, leases.ErrLeaseLost) || m.before && now.Checkpoint != at12):
					m.Errorf("error %v; the row is at %v", err, now.Checkpoint)
				}
				return ""
			})
		}},
		{name: "release", action: "UpdateItem", only: update("REMOVE #leaseOwner"), run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			h := m.hold(w, m.add(one, at12), w.id+"/1/x/1")
			strike(one, h.Context().Done())
			err := w.renewer.Release(m.ctx, h)
			if h.Context().Err() == nil {
				m.Error("the lease's context lives on after its release")
			}
			if now := m.rows()[one]; m.mild && (err != nil || now.Owner != "") {
				m.Errorf("released: error %v, owner %q; want neither", err, now.Owner)
			}
		}},
		{name: "create", action: "PutItem", run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			late := m.after(m.cfg.FailoverTime)
			strike(one, late)
			m.again(late, func(ctx context.Context) error {
				_, err := w.table.Create(ctx, leases.Lease{Key: one, Checkpoint: at12})
				return err
			})
			if l, there := m.rows()[one]; !there || l.Checkpoint != at12 {
				m.Errorf("row %+v, there %t; want it as it was to be created", l, there)
			}
		}},
		{name: "delete", action: "DeleteItem", run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			seen := m.add(one, checkpoint.ShardEnd)
			late := m.after(m.cfg.FailoverTime)
			strike(one, late)
			m.again(late, func(ctx context.Context) error { return w.table.Delete(ctx, seen) })
			if l, there := m.rows()[one]; there && l.Owner == "" {
				m.Errorf("row %+v, want none, unless it was taken before", l)
			}
		}},
		{name: "start hand-off", action: "UpdateItem", only: update("#checkpointOwner = "), run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			peer := m.worker("w3", "host3/3")
			m.hold(peer, m.add(one, at12), "w3/3/x/1")
			m.hold(peer, m.add(two, at12), "w3/3/x/2")
			peer.begin()
			m.pause(2 * m.cfg.FailoverTime)
			strike("", m.after(m.cfg.FailoverTime))
			w.begin()
		}},
		{
			name: "complete hand-off", action: "UpdateItem", only: update("REMOVE #checkpointOwner", "!#leaseOwner = "),
			run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
				m.hold(w, m.add(one, at12), w.id+"/1/x/1")
				m.hold(w, m.add(two, at12), w.id+"/1/x/2")
				w.begin()
				m.pause(2 * m.cfg.FailoverTime)
				strike("", m.after(2*m.cfg.FailoverTime))
				m.worker("w3", "host3/3").begin()
			},
		},
		{name: "regain", keeps: true, action: "UpdateItem", only: isTake, run: func(m *matrix, w *worker, strike func(string, <-chan struct{})) {
			seen := m.add(one, at12)
			if _, err := m.calm.Take(m.Context(), seen, leases.Tenure{Worker: w.id, Nonce: "host0/9/z/7", Failover: m.cfg.FailoverTime}); err != nil {
				m.Fatal(err)
			}
			late := m.after(m.cfg.FailoverTime)
			strike(one, late)
			m.again(late, func(ctx context.Context) error {
				_, err := w.renewer.Regain(ctx)
				return err
			})
		}},
	}
}

// after is closed after so long.
func (m *matrix) after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(c) })
	m.Cleanup(func() { timer.Stop() })
	return c
}

// again makes a call until the deadline and, if that leaves it unknown, once more.
func (m *matrix) again(deadline <-chan struct{}, call func(ctx context.Context) error) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.FailoverTime/2)
	defer cancel()
	err := call(ctx)
	if err == nil || errors.Is(err, leases.ErrLeaseLost) {
		return
	}
	<-deadline
	if err := call(m.ctx); err != nil && !errors.Is(err, leases.ErrLeaseLost) {
		m.Errorf("the same call again: %v", err)
	}
}

// AmbiguousWrites runs every kind of write through everything that can leave its outcome open, on a server that returns the row
// with a failed condition and on one that does not. Afterwards the table and what workers believe agree, every row is held, and no
// checkpoint has gone back. open returns a server for each case; virtual says that cases run in bubbles of testing/synctest.
func AmbiguousWrites(t *testing.T, failover time.Duration, virtual bool, open func() Server) {
	t.Helper()
	var cases, struck atomic.Int64
	t.Cleanup(func() {
		t.Logf("ambiguous writes: cases %d, of which the write was struck in %d", cases.Load(), struck.Load())
		if cases.Load() != struck.Load() && !t.Failed() {
			t.Errorf("a case whose write is never made shows nothing")
		}
	})
	for _, write := range ambiguousWrites() {
		for _, e := range events() {
			for _, forgets := range []bool{false, true} {
				if !forgets && !virtual && !open().Features.OldItemOnFailure {
					continue // it is the same
				}
				name := write.name + "/" + e.name
				if forgets {
					name += "/without ALL_OLD"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					cases.Add(1)
					run := func(t *testing.T) {
						t.Helper()
						server := open()
						if forgets {
							server.Config = Forgetful(server.Config)
						}
						ambiguousCase(t, failover, server, write, e, &struck)
					}
					if virtual {
						synctest.Test(t, run)
						return
					}
					run(t)
				})
			}
		}
	}
}

func ambiguousCase(t *testing.T, failover time.Duration, server Server, write ambiguous, e event, struck *atomic.Int64) {
	t.Helper()
	s := &suite{server: server, table: randomName("shardlease-ambiguous"), failover: failover}
	full := config.Default("app", "orders")
	if write.defers {
		full.LeaseManagement.CheckpointInterval = failover
	}
	full.LeaseManagement.TableName, full.LeaseManagement.FailoverTime, full.LeaseManagement.GracefulHandoffTimeout = s.table, failover, 3*failover
	m := &matrix{event: e, bundle: s.bundle(t), cfg: full.Complete().LeaseManagement, places: map[string]checkpoint.ExtendedSequenceNumber{}}
	if err := m.calm.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	drop(t, m.raw, s.table)
	ctx, cancel := context.WithCancel(t.Context())
	defer m.group.Wait()
	defer cancel()
	m.ctx = ctx
	w := m.worker("w1", "host1/1")
	var met atomic.Bool
	java := func(key string) {
		for k := range m.rows() {
			// Of the rows that a hand-off may be about, the one that it is about.
			if row := m.rows()[k]; key == k || key == "" && (row.MarkIsLive() || row.InTransit()) {
				m.javaTakes(k)
				return
			}
		}
	}
	strike := func(key string, deadline <-chan struct{}) {
		faults := e.faults(deadline, func() { java(key) })
		for i := range faults {
			inner := write.only
			faults[i].only = func(r request) bool {
				ours := inner == nil || inner(r)
				if ours && met.CompareAndSwap(false, true) {
					struck.Add(1)
					if e.before {
						java(key)
					}
				}
				return ours
			}
		}
		w.faults.strike(write.action, faults...)
	}
	write.run(m, w, strike)
	m.until(2*failover, func() string {
		if met.Load() {
			return ""
		}
		return "the write is not made"
	})
	// The faults end by themselves but for those of a deadline, which ends them.
	if e.late {
		m.pause(2 * failover)
	}
	w.faults.heal()
	if !w.begun.Load() {
		w.begin()
	}
	m.judge()
	if n := w.tenures(); write.keeps && e.mild && n != 1 {
		m.Errorf("%d tenures, want one: the lease was lost on the way", n)
	}
}

// javaTakes lets a Java worker of KCL 2.7 take a row, by the request that it was recorded with. If the row is gone nothing
// happens. The Java worker then dies.
func (m *matrix) javaTakes(key string) {
	row, there := m.rows()[key]
	if !there {
		return
	}
	b := *m.bundle
	b.key = key
	javaWorker{"j1", "2.7"}.send(&b, javaTake, row)
}

// Forgetful makes a server one that does not return the item on which a condition failed, as some do not.
func Forgetful(cfg aws.Config) aws.Config {
	cfg = cfg.Copy()
	next := cfg.HTTPClient
	if next == nil {
		next = http.DefaultClient
	}
	cfg.HTTPClient = forgetful{next}
	return cfg
}

// forgetful takes the wish for the old item out of each request.
type forgetful struct{ next aws.HTTPClient }

func (f forgetful) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.Replace(body, []byte(`"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`), []byte(`"ReturnValuesOnConditionCheckFailure":"NONE"`), 1)
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return f.next.Do(r)
}
