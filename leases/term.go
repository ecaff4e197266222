package leases

import (
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// timing is how long a lease lasts and how often it is renewed. Its methods are the rules about the time of a held lease: pure,
// so that a program may live through thousands of hours of them in a second.
type timing struct {
	failover time.Duration // how long peers respect a lease that is not renewed
	interval time.Duration // from one renewal to the next
	margin   time.Duration // how long before the failover time is over an owner stops
}

func timingOf(cfg config.LeaseManagementConfig) timing {
	return timing{failover: cfg.FailoverTime, interval: cfg.RenewInterval, margin: marginOf(cfg.FailoverTime)}
}

// marginOf is how long before the failover time is over an owner stops. Clocks that differ in rate by ρ need 2ρ of it, 0.04 %
// at 200 ppm; a twentieth also covers a goroutine that is scheduled late between looking at the clock and acting.
func marginOf(failover time.Duration) time.Duration {
	return max(failover/20, 50*time.Millisecond)
}

// term is the time of one held lease.
type term struct {
	from     stamp     // asked-at of the write that the lease counts from
	until    time.Time // from + FailoverTime − margin: the end of the right to act
	unsure   *stamp    // asked-at of the earliest write since then whose outcome is not known
	due      time.Time // of the next renewal
	failures int       // renewals failed in a row
}

// over reports whether the right to act has ended.
func (x term) over(now time.Time) bool { return !now.Before(x.until) }

// begin is the term of a lease just taken, by a request that was sent at asked. Its first renewal is due after first.
func (t timing) begin(asked stamp, first time.Duration) term {
	return term{from: asked, until: asked.mono.Add(t.failover - t.margin), due: asked.mono.Add(first)}
}

// inDoubt reports whether the machine was suspended since the lease was last renewed.
func (t timing) inDoubt(x term, now stamp) bool { return x.from.slept(now) > t.margin }

// toRenew reports whether a renewal is called for.
func (t timing) toRenew(x term, now stamp) bool { return !x.due.After(now.mono) || t.inDoubt(x, now) }

// patience is how long one renewal, with all its attempts, may take. There are several in a lease's life, and one row that hangs
// does not keep a goroutine for all of it.
func (t timing) patience(x term, now time.Time) time.Duration {
	return min(t.interval, x.until.Sub(now))
}

// landed is the term after a write that succeeded. asked was read before it was sent, now is when the answer came.
func (t timing) landed(x term, asked, now stamp, r Recovery) term {
	counts, known := asked, true
	if r == ByEarlierCall {
		if known = x.unsure != nil; known {
			counts = *x.unsure
		}
	}
	x.unsure, x.failures = nil, 0
	if r == ByEarlierCall {
		x.unsure = &asked // what this call repeated may have landed, and is then what the next one finds
	}
	// The answer to a request that was sent before a suspend gives us the counter and nothing else: nobody knows how long
	// ago it was for the others.
	if known && counts.slept(now) <= t.margin && !counts.mono.Before(x.from.mono) {
		x.from, x.until = counts, counts.mono.Add(t.failover-t.margin)
	}
	x.due = now.mono
	if x.from == asked {
		x.due = asked.mono.Add(t.interval)
	}
	return x
}

// failed is the term after a write whose outcome is not known, and how long to wait before the next try.
//
// It may have landed. The next write that succeeds says so; the lease then counts from here, not from that write.
func (t timing) failed(x term, asked, now stamp) (_ term, wait time.Duration) {
	if x.unsure == nil {
		x.unsure = &asked
	}
	x.failures++
	wait = min(t.interval/2, 25*time.Millisecond<<min(x.failures, 10))
	x.due = now.mono.Add(wait)
	return x, wait
}

// stamp is one moment on both clocks of this process.
type stamp struct{ mono, wall time.Time }

func stampOf(c *loop.Clock) stamp { return stamp{mono: c.Now(), wall: c.Wall()} }

// slept is by how much the wall clock went on while the monotonic one stood: a suspend, or somebody setting the clock
// forward, which costs one renewal.
func (s stamp) slept(now stamp) time.Duration { return now.wall.Sub(s.wall) - now.mono.Sub(s.mono) }

// passed is how long ago s was for those whose clocks went on while ours stood. A wall clock that was set back changes nothing.
func (s stamp) passed(now stamp) time.Duration {
	return max(now.mono.Sub(s.mono), now.wall.Sub(s.wall))
}
