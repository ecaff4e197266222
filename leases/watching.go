package leases

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// watchers take a dead owner's leases at a table that is too large for whole looks.
//
// There a worker sees most rows move for the last time only in the whole look that the death has caused, some seconds
// later, and for it their failover time starts then. The few workers that watch a row's segment have seen that when it
// happened, within a look at their segments. So it is they who take it, whatever worker the strategy would give it to: each
// as soon as a row is stale to it, up to the number of leases that it should hold. Which of them gets which row
// is left to their timers; each begins with the rows for which its own hash is high, so that two of them seldom want the
// same one, and reads a row before it takes it.
//
//  1. A row's watchers may all have their share already. Who watches it goes beyond its share then, after a while in which
//     workers that know less and have room left may take it. The longest wait has the one whose hash is lowest.
//  2. Whoever took a lease that the strategy means for another is asked for it later, without a gap.
func (p *planner) watchers() {
	room := p.moves.Target - p.moves.Held - len(p.moves.Take)
	limit := math.MaxInt
	if p.cfg.MaxLeasesForWorker > 0 {
		limit = p.cfg.MaxLeasesForWorker - p.moves.Held - len(p.moves.Take)
	}
	var rows []int
	for i, l := range p.fleet.Leases {
		if p.view.watched[l.Lease.Key] && p.rows[i].Knowledge == Stale && l.Former != p.me && p.target[i] != p.me {
			rows = append(rows, i)
		}
	}
	slices.SortFunc(rows, func(a, b int) int { return -cmp.Compare(p.mine(a), p.mine(b)) })
	for _, i := range rows {
		if limit <= 0 {
			return
		}
		wait := time.Duration(0)
		if room <= 0 {
			low := float64(^p.mine(i)) / (1 << 63) / 2
			wait = p.rows[i].expires(p.view.failover).Add(overShare(p.cfg.FailoverTime, low)).Sub(p.view.now)
		}
		if wait > 0 {
			p.again(wait)
			continue
		}
		p.moves.Take = append(p.moves.Take, p.fleet.Leases[i].Lease)
		room--
		limit--
	}
}

// overShare is how long after it could be taken a lease is taken by one who has its share already. low is how low its hash
// for the lease is: 0 to 1.
func overShare(failover time.Duration, low float64) time.Duration {
	return failover/5 + time.Duration(low*float64(failover)/10)
}
