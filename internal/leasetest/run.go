package leasetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/leases"
)

// Run runs the suite in a new table of the server, which it deletes at the end.
func Run(t *testing.T, server Server) {
	t.Helper()
	s := &suite{server: server, table: randomName("shardlease-suite"), failover: cmp.Or(server.Failover, 10*time.Second)}
	if err := s.bundle(t).calm.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	drop(t, s.bundle(t).raw, s.table)
	t.Run("writes", func(t *testing.T) {
		t.Parallel()
		for _, w := range slices.Concat(counterMoving(), handoffs(), others()) {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				s.writes(t, w)
			})
		}
	})
	t.Run("tenure", s.tenures)
	t.Run("hand-off", s.handingOver)
	t.Run("Java peers", s.javaPeers)
	t.Run("tables", s.tables)
	t.Run("reads", s.reads)
	t.Run("mode", s.modes)
	t.Run("features", s.features)
	t.Run("of many at once one succeeds", s.atOnce)
}

// drop deletes a table at the end of the test.
func drop(t *testing.T, raw *dynamodb.Client, table string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if _, err := raw.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
			t.Logf("delete table %s: %v", table, err)
		}
	})
}

// writes runs one write through everything that can happen to its requests.
func (s *suite) writes(t *testing.T, w write) {
	t.Helper()
	for name, faults := range map[string][]fault{
		"answered":               nil,
		"never sent":             {{refuse: true}},
		"refused by a proxy":     {{refuse: true, answer: 503}, {refuse: true, answer: 429}},
		"reply lost":             {{drop: true}},
		"reply lost twice":       {{drop: true}, {drop: true}},
		"reply cut":              {{cut: true}},
		"applied and 500":        {{fail: true}},
		"sent twice by a client": {{resend: true}},
		"sent twice, then lost":  {{resend: true, drop: true}},
		"first attempt late":     {{late: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bundle(t)
			seen := w.before(b)
			b.faults.strike(w.action, faults...)
			got, err := w.do(b.Context(), b, seen)
			if name == "sent twice by a client" && w.action == "PutItem" {
				// The row is there, and nobody can know that it was this call that made it.
				if got, found, readErr := b.calm.Get(b.Context(), b.key); !found || readErr != nil {
					t.Errorf("row %+v, found %t, error %v", got, found, readErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if missing := w.effect(b, seen); missing != "" {
				t.Errorf("want %s", missing)
			}
			if w.action == "UpdateItem" {
				b.note()
			}
			b.late()
			if faults == nil && b.faults.count(w.action) != 1 {
				t.Errorf("%d requests, want 1", b.faults.count(w.action))
			}
			if !w.holds {
				if got.Lease.Key != "" {
					b.same(got.Lease)
				}
				return
			}
			if got.Recovered == leases.ByEarlierCall || faults == nil && got.Recovered != leases.NotRecovered {
				t.Errorf("recovered %v; the write is this call's", got.Recovered)
			}
			b.same(got.Lease)
			if _, err := b.table.Renew(b.Context(), got.Lease, b.me, leases.Renewal{}); err != nil {
				t.Errorf("renew after it: %v", err)
			}
		})
	}
	for name, faults := range map[string][]fault{
		"unknown when the time is up": {{drop: true}, {refuse: true, forever: true}},
		"answered when it is up":      {{hang: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.bundle(t)
			seen := w.before(b)
			b.faults.strike(w.action, faults...)
			s.unknown(b, w, seen)
			b.faults.heal()
			got, err := w.do(b.Context(), b, seen)
			if w.action == "PutItem" {
				return // the second call cannot know that the first one made the row
			}
			if err != nil {
				t.Fatalf("the same call again: %v", err)
			}
			if missing := w.effect(b, seen); missing != "" {
				t.Errorf("want %s", missing)
			}
			if got.Lease.Key != "" {
				b.same(got.Lease)
			}
		})
	}
	if w.holds {
		t.Run("known to have landed, but not when", func(t *testing.T) {
			t.Parallel()
			b := s.bundle(t)
			seen := w.before(b)
			b.faults.strike(w.action, fault{drop: true}, fault{refuse: true, forever: true})
			s.unknown(b, w, seen)
			// The condition of this attempt fails on the earlier call's write, and nothing gets through afterwards.
			b.faults.strike(w.action, fault{}, fault{refuse: true, forever: true})
			ctx, timeUp := upWhenTold(b.Context())
			b.faults.whenStuck(timeUp)
			got, err := w.do(ctx, b, seen)
			if err != nil {
				t.Fatal(err)
			}
			if got.Recovered != leases.ByEarlierCall {
				t.Errorf("recovered %v, want %v", got.Recovered, leases.ByEarlierCall)
			}
			b.same(got.Lease)
		})
	}
	if w.action == "PutItem" {
		s.createLoses(t)
		return
	}
	if w.name == "metadata" {
		t.Run("row gone", func(t *testing.T) {
			t.Parallel()
			b := s.bundle(t)
			if err := b.table.UpdateMetadata(b.Context(), b.key, leases.Metadata{ChildShardIDs: []string{"c1"}}); !errors.Is(err, leases.ErrLeaseLost) {
				t.Errorf("error %v, want lease lost", err)
			}
			if _, found, err := b.calm.Get(b.Context(), b.key); found || err != nil {
				t.Errorf("found %t, error %v: the write made a row", found, err)
			}
		})
		return
	}
	s.loses(t, w)
}

// unknown runs a write that gets stuck, whose time is then up.
func (s *suite) unknown(b *bundle, w write, seen leases.Lease) {
	b.Helper()
	ctx, timeUp := upWhenTold(b.Context())
	b.faults.whenStuck(timeUp)
	defer b.faults.whenStuck(nil)
	_, err := w.do(ctx, b, seen)
	if err == nil || errors.Is(err, leases.ErrLeaseLost) || !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("error %v, want one that says unknown, for the deadline", err)
	}
}

// timed is a context whose deadline comes when the test says so: how long a request takes to land is the server's affair.
type timed struct {
	context.Context
	up chan struct{}
}

func upWhenTold(ctx context.Context) (timedOut context.Context, up func()) {
	c := timed{context.WithoutCancel(ctx), make(chan struct{})}
	return c, sync.OnceFunc(func() { close(c.up) })
}

func (c timed) Done() <-chan struct{} { return c.up }

func (c timed) Err() error {
	select {
	case <-c.up:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
