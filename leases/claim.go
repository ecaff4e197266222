package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// claim is one try to become the owner of a row. A call that ends without an answer leaves it as it is: calling again with
// the same claim, nonce included, finds out.
type claim struct {
	seen  Lease
	me    Tenure
	first *stamp // asked-at of the first call, if that ended without an answer
}

func (r *LeaseRenewer) claim(seen Lease) claim {
	return claim{seen: seen, me: r.tenure(r.nonces.next())}
}

// take makes this worker the owner of the claim's row and returns the held lease. A row that was handed over to this worker
// and waits for its first renewal is renewed; any other is taken by its counter. An error that wraps [ErrLeaseLost] ends the
// claim: the row was not as seen. After any other the claim may be taken up again.
//
// An answer may come too late to act on:
//  1. We take; the write lands, the answer takes longer than the lease.
//  2. Peers have seen our counter stand for the failover time; one may be about to take the row.
//  3. The answer says that the row is ours. It was, then.
//
// So the row is taken once more, as it is now, by a new tenure.
func (r *LeaseRenewer) take(ctx context.Context, table takeTable, c *claim) (*Held, error) {
	clock := loop.ClockOf(ctx)
	if c.seen.MarkIsLive() && c.seen.CheckpointOwner == r.opts.Worker {
		// Ours by a take that was answered too late, and asked for meanwhile. Nobody acts under it.
		_, err := r.giveUp(ctx, c.seen, c.me)
		if err == nil {
			err = fmt.Errorf("take lease %s: %w", c.seen.Key, ErrHandedOver)
		}
		return nil, err
	}
	from := c.seen.ActualOwner()
	if c.seen.InTransit() {
		from = c.seen.Tenure.Worker
	}
	for {
		asked := stampOf(clock)
		write, cancel := loop.Timeout(ctx, r.cfg.FailoverTime/2, "take lease "+c.seen.Key)
		var w Written
		var err error
		if c.seen.InTransit() && c.seen.Owner == r.opts.Worker {
			w, err = r.table.Renew(write, c.seen, c.me, Renewal{})
		} else {
			w, err = table.Take(write, c.seen, c.me)
		}
		cancel()
		if err != nil {
			if c.first == nil && !errors.Is(err, ErrLeaseLost) {
				c.first = &asked
			}
			return nil, err
		}
		if !w.sent.mono.IsZero() {
			asked = w.sent
		}
		// The nonce was new, so nothing before the first call can have landed.
		if w.Recovered == ByEarlierCall && c.first != nil {
			asked = *c.first
		}
		now := stampOf(clock)
		if now.mono.Sub(asked.mono) >= r.cfg.FailoverTime-r.margin || asked.slept(now) > r.margin {
			*c = r.claim(w.Lease)
			continue
		}
		h := r.add(ctx, w, asked)
		if f := r.hooks.LeaseTaken; f != nil {
			f(config.LeaseEvent{Worker: r.opts.Worker, LeaseKey: h.key, Counter: w.Lease.Counter, Token: h.token, From: from})
		}
		return h, nil
	}
}
