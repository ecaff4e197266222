package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// worker is a whole worker as far as leases go: a table through faults, a renewer and a taker.
type worker struct {
	id      string
	faults  *faultyClient
	table   *leases.Table
	renewer *leases.LeaseRenewer
	taker   *leases.LeaseTaker
	ctx     context.Context
	group   *sync.WaitGroup
	failed  chan error
	begun   atomic.Bool

	mu     sync.Mutex
	tokens map[string]int64 // of the last tenure of each lease
	begins int              // tenures
	faulty []string         // what must not be
}

// worker makes one that renews from now on; it takes once begin is called. What it is asked for it hands over.
func (m *matrix) worker(id, host string) *worker {
	cfg := m.suite.server.Config.Copy()
	w := &worker{
		id: id, faults: newFaultyClient(cfg.HTTPClient), ctx: m.ctx, group: &m.group, failed: make(chan error, 1), tokens: map[string]int64{},
	}
	cfg.HTTPClient = w.faults
	w.table = leases.NewTable(dynamodb.NewFromConfig(cfg), m.cfg, leases.TableOptions{Worker: id})
	w.renewer = leases.NewRenewer(w.table, m.cfg, leases.RenewerOptions{
		Worker: id, Host: host, Hooks: &config.Hooks{LeaseTaken: w.began},
		Asked: func(h *leases.Held) { w.group.Go(func() { _ = w.renewer.Release(w.ctx, h) }) },
	})
	w.taker = leases.NewTaker(w.table, w.renewer, m.cfg, leases.TakerOptions{Worker: id})
	w.group.Go(func() { w.failed <- w.renewer.Run(w.ctx) })
	m.workers = append(m.workers, w)
	return w
}

// begin starts the taker.
func (w *worker) begin() {
	w.begun.Store(true)
	w.group.Go(func() {
		if err := w.taker.Run(w.ctx); err != nil {
			w.fault("the taker of %s: %v", w.id, err)
		}
	})
}

func (w *worker) began(e config.LeaseEvent) {
	w.mu.Lock()
	before := w.tokens[e.LeaseKey]
	w.tokens[e.LeaseKey] = e.Token
	w.begins++
	w.mu.Unlock()
	if e.Token <= before {
		w.fault("%s has token %d of %s after token %d", w.id, e.Token, e.LeaseKey, before)
	}
}

// tenures is how many the worker has had.
func (w *worker) tenures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begins
}

func (w *worker) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faulty = append(w.faulty, fmt.Sprintf(format, args...))
}

// matrix is one case: a table, workers on it, and what is known of its rows.
type matrix struct {
	*bundle
	event
	cfg     config.LeaseManagementConfig
	ctx     context.Context
	group   sync.WaitGroup
	workers []*worker
	places  map[string]checkpoint.ExtendedSequenceNumber // the largest checkpoint seen of each row
}

// pause lets time go by, of which there is more than one kind.
func (m *matrix) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// until waits until ok says nothing, at most for so long.
func (m *matrix) until(limit time.Duration, ok func() string) {
	m.Helper()
	for end := time.Now().Add(limit); ; m.pause(m.cfg.FailoverTime / 20) {
		missing := ok()
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			m.Fatalf("after %v still %s", limit, missing)
		}
	}
}

// rows reads the table, and fails if a checkpoint went back.
func (m *matrix) rows() map[string]leases.Lease {
	m.Helper()
	listing, err := m.calm.List(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	rows := map[string]leases.Lease{}
	for _, l := range listing.Leases {
		if l, found, err := m.calm.Get(m.Context(), l.Key); err != nil {
			m.Fatal(err)
		} else if found {
			rows[l.Key] = l
			if l.Checkpoint.Compare(m.places[l.Key]) < 0 {
				m.Errorf("the checkpoint of %s went back from %v to %v", l.Key, m.places[l.Key], l.Checkpoint)
			}
			m.places[l.Key] = l.Checkpoint
		}
	}
	return rows
}

// settled says what keeps table and beliefs from agreeing: each row is held by one of the workers, who knows it as it is, and
// nobody holds anything else. Renewals go on meanwhile, so a row that moved while it was compared is compared again.
func (m *matrix) settled() string {
	held := map[string]*leases.Held{}
	for _, w := range m.workers {
		for _, h := range w.renewer.Held() {
			key := h.Grant().LeaseKey
			if h.Context().Err() == nil {
				if held[key] != nil {
					return "two believe to hold " + key
				}
				held[key] = h
			}
		}
	}
	rows := m.rows()
	for key, row := range rows {
		h := held[key]
		if h == nil {
			return fmt.Sprintf("nobody believes to hold %s: %+v (tenure %+v)", key, row, row.Tenure)
		}
		if row.State() == leases.RowHandingOver {
			return key + " is being handed over"
		}
		if diff := cmp.Diff(row, h.Lease()); diff != "" {
			return "table and belief differ (-table +belief):\n" + diff
		}
	}
	for key := range held {
		if _, there := rows[key]; !there {
			return fmt.Sprintf("somebody believes to hold %s, which has no row", key)
		}
	}
	return ""
}

// judge waits until table and beliefs agree and fails if that does not come, if a checkpoint went back on the way, or if
// whoever holds a row cannot go on from what it believes.
func (m *matrix) judge() {
	m.Helper()
	// A row that nobody renews is stale one failover time later, as is one in transit; the asker of one that is not handed
	// over waits for the hand-off's timeout.
	for again := true; again; {
		m.until(3*m.cfg.FailoverTime+m.cfg.GracefulHandoffTimeout, m.settled)
		again = false
		for _, w := range m.workers {
			for _, h := range w.renewer.Held() {
				if m.goesOn(w, h) {
					again = true // each hand-off brings the workers nearer to their shares, so it ends
				}
			}
		}
	}
	for _, w := range m.workers {
		w.mu.Lock()
		for _, f := range w.faulty {
			m.Error(f)
		}
		w.mu.Unlock()
		select {
		case err := <-w.failed:
			m.Errorf("the renewer of %s ended: %v", w.id, err)
		default:
		}
	}
}

// goesOn lets a worker write what it may write from what it believes, and fails if it cannot; on a slow server the other worker may
// ask for the lease only now: then it says that it was handed over.
func (m *matrix) goesOn(w *worker, h *leases.Held) (handedOver bool) {
	m.Helper()
	key := h.Grant().LeaseKey
	next := at12
	next.SequenceNumber = "99"
	// KCL writes the checkpoint of its memory with this one (kcl-lease-layer, H7): a stale memory would move the row back.
	before := h.Lease().Checkpoint
	if before == checkpoint.ShardEnd || before == next {
		return false
	}
	err := h.WritePending(m.ctx, checkpoint.Pending{At: next})
	if errors.Is(err, leases.ErrHandedOver) {
		return true
	}
	if err != nil {
		m.Errorf("%s holds %s and cannot write: %v", w.id, key, err)
	}
	if now := m.rows()[key]; now.Checkpoint != before || now.Pending == nil {
		m.Errorf("%s prepared a checkpoint of %s: the row has %v, want %v as before, and what is pending", w.id, key, now.Checkpoint, before)
	}
	err = h.WriteCheckpoint(m.ctx, next)
	if errors.Is(err, leases.ErrHandedOver) {
		return true
	}
	if err != nil || m.rows()[key].Checkpoint != next {
		m.Errorf("%s wrote a checkpoint of %s: error %v, the row has %v", w.id, key, err, m.rows()[key].Checkpoint)
	}
	return false
}

// add makes a row that nobody owns and returns it.
func (m *matrix) add(key string, at checkpoint.ExtendedSequenceNumber) leases.Lease {
	m.Helper()
	if created, err := m.calm.Create(m.Context(), leases.Lease{Key: key, Checkpoint: at}); err != nil || !created {
		m.Fatalf("create %s: created %t, error %v", key, created, err)
	}
	l, _, err := m.calm.Get(m.Context(), key)
	if err != nil {
		m.Fatal(err)
	}
	return l
}

// hold lets a worker take a row, and returns what it holds.
func (m *matrix) hold(w *worker, seen leases.Lease, nonce string) *leases.Held {
	m.Helper()
	asked := time.Now()
	written, err := m.calm.Take(m.Context(), seen, leases.Tenure{Worker: w.id, Nonce: nonce, Failover: m.cfg.FailoverTime})
	if err != nil {
		m.Fatal(err)
	}
	w.began(config.LeaseEvent{LeaseKey: seen.Key, Token: written.Lease.Counter})
	return w.renewer.Add(m.ctx, written, asked)
}
