package leases

import (
	"context"
	"errors"

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

// take makes this worker the owner of the claim's row and returns the held lease. An error that wraps [ErrLeaseLost] ends the
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
	from := c.seen.ActualOwner()
	for {
		asked := stampOf(clock)
		write, cancel := loop.Timeout(ctx, r.cfg.FailoverTime/2, "take lease "+c.seen.Key)
		w, err := table.Take(write, c.seen, c.me)
		cancel()
		if err != nil {
			if c.first == nil && !errors.Is(err, ErrLeaseLost) {
				c.first = &asked
			}
			return nil, err
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
