package shardlease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// lingering is a processor each of whose calls lasts very long, unless its context ends.
type lingering struct {
	processor.Base
	lasts time.Duration

	mu     sync.Mutex
	done   int           // calls that ended by themselves
	cause  error         // why the context of one ended
	after  time.Duration // and how long after it had begun
	told   error         // the cause that LeaseLost was given
	tokens []int64       // of the calls
}

func (s *lingering) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	began := time.Now()
	timer := time.NewTimer(s.lasts)
	defer timer.Stop()
	s.mu.Lock()
	s.tokens = append(s.tokens, in.Grant.Token)
	s.mu.Unlock()
	select {
	case <-timer.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done++
		return in.Checkpointer.Checkpoint(ctx)
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cause, s.after = context.Cause(ctx), time.Since(began)
		return s.cause
	}
}

func (s *lingering) LeaseLost(_ context.Context, in processor.LeaseLostInput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = in.Cause
}

func TestRun_aProcessorThatBlocksKeepsItsLeaseAndIsToldWhenItIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const failover = 10 * time.Second
		f := fleettest.New(t, 1)
		p := &lingering{lasts: 10 * failover}
		w := f.StartWith("w", func(processor.Shard) processor.RecordProcessor { return p }, func(c *config.Config) {
			c.LeaseManagement.FailoverTime = failover
		})
		<-w.Ready()
		time.Sleep(time.Second)
		peer := f.StartWith("peer", func(processor.Shard) processor.RecordProcessor { return &lingering{lasts: time.Hour} })
		f.Put(10, 1)
		time.Sleep(11 * failover)
		p.mu.Lock()
		if p.done != 1 || p.cause != nil || len(p.tokens) != 1 {
			t.Errorf("in a call of 10 × FailoverTime: %d calls ended well, of %d; context ended by %v", p.done, len(p.tokens), p.cause)
		}
		p.mu.Unlock()
		if n := len(peer.Assignments()); n != 0 || len(w.Assignments()) != 1 {
			t.Errorf("the lease has moved: %d and %d leases", len(w.Assignments()), n)
		}
		// A second call, in which the worker is cut off from the table.
		f.Put(10, 1)
		time.Sleep(5 * failover)
		w.CutOff()
		time.Sleep(2 * failover)
		p.mu.Lock()
		defer p.mu.Unlock()
		if !errors.Is(p.cause, leases.ErrLeaseLost) || !errors.Is(p.told, leases.ErrLeaseLost) {
			t.Errorf("after the loss: context ended by %v, LeaseLost was told %v", p.cause, p.told)
		}
		if p.after > 6*failover+time.Second {
			t.Errorf("its context ended after %v", p.after)
		}
		if n := len(peer.Assignments()); n != 1 {
			t.Errorf("the peer has %d leases, want 1", n)
		}
		w.Kill()
	})
}
