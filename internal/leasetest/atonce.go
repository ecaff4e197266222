package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// Everything is built on a server that decides each condition and makes the write in one step. One that does not is not found
// by cases in which one request follows the other: here many workers want the same at the same moment, many times.
const (
	contenders = 8
	contests   = 30
)

// atOnce lets many workers create one row, take one lease, and ask for one, at once: each time one succeeds.
func (s *suite) atOnce(t *testing.T) {
	t.Parallel()
	b := s.bundle(t)
	who := make([]leases.Tenure, contenders)
	for i := range who {
		who[i] = leases.Tenure{Worker: fmt.Sprint("w", i), Nonce: fmt.Sprintf("host%d/%d/00000000000000aa/1", i, i), Failover: s.failover}
	}
	wins := map[string]int{}
	for range contests {
		b.key = fmt.Sprintf("shardId-%012d", s.rows.Add(1))
		wins["create"] += s.contest(t, func(ctx context.Context, me leases.Tenure) (bool, error) {
			// A slow server's reply may be lost: only rows that differ tell whose it was.
			return b.calm.Create(ctx, leases.Lease{Key: b.key, Checkpoint: checkpoint.TrimHorizon, ParentShardIDs: []string{me.Worker}})
		}, who)
		seen := b.row()
		var mu sync.Mutex
		var taken []leases.Lease
		wins["take"] += s.contest(t, func(ctx context.Context, me leases.Tenure) (bool, error) {
			w, err := b.calm.Take(ctx, seen, me)
			if errors.Is(err, leases.ErrLeaseLost) {
				return false, nil
			}
			mu.Lock()
			taken = append(taken, w.Lease)
			mu.Unlock()
			return err == nil, err
		}, who)
		if len(taken) == 1 {
			b.same(taken[0])
		}
		held := b.row()
		// Each asks the owner to hand over to it.
		wins["ask"] += s.contest(t, func(ctx context.Context, me leases.Tenure) (bool, error) {
			l, err := b.calm.StartHandoff(ctx, held, "x"+me.Worker)
			if errors.Is(err, leases.ErrLeaseLost) {
				return false, nil
			}
			return l.Owner == "x"+me.Worker, err
		}, who)
	}
	for what, n := range wins {
		if n != contests {
			t.Errorf("%s: %d workers succeeded in %d contests of %d, want one in each", what, n, contests, contenders)
		}
	}
}

// contest lets each do the same at once and returns how many succeeded.
func (s *suite) contest(t *testing.T, try func(ctx context.Context, me leases.Tenure) (bool, error), who []leases.Tenure) (won int) {
	t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	start := make(chan struct{})
	for _, me := range who {
		group.Go(func() {
			<-start
			ok, err := try(t.Context(), me)
			if err != nil {
				t.Errorf("%s: %v", me.Worker, err)
			}
			if ok {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	close(start)
	group.Wait()
	return won
}
