package main

import (
	"math"
	"time"
)

// bound is what a figure of a scenario may be at most.
type bound struct {
	what string
	most float64
	of   func([]result) float64
}

func balancedSeconds(r result) float64 {
	if r.balanced < 0 {
		return math.Inf(1)
	}
	return r.balanced.Seconds()
}

// sinceLast is the time to balance from the last start or stop on.
func sinceLast(r result) float64 { return max(0, balancedSeconds(r)-r.last.Seconds()) }

func failedPercent(rs []result) float64 {
	failed, writes := 0, 0
	for _, r := range rs {
		failed, writes = failed+r.failed, writes+r.writes
	}
	return 100 * float64(failed) / float64(max(1, writes))
}

func worst(what string, most float64, of func(result) float64) bound {
	return bound{what + ", worst", most, func(rs []result) float64 { _, w := figures(rs, of); return w }}
}

func median(what string, most float64, of func(result) float64) bound {
	return bound{what + ", median", most, func(rs []result) float64 { m, _ := figures(rs, of); return m }}
}

func balancedWithin(d time.Duration) bound {
	return worst("seconds to balance after the last start or stop", d.Seconds(), sinceLast)
}

func movesAtMost(over float64) bound { return worst("moves over the least", over, result.over) }

func failedAtMostOne() bound { return bound{"failed conditions %", 1, failedPercent} }

const (
	budgetMinute = 110 * 60 // the read budget
	kclMinute    = 149_000  // what KCL 2.x reads in a minute at 10,000 leases and 100 workers
)

func minuteAtMost(units float64) bound {
	return worst("read units in the first minute", units, func(r result) float64 { return r.minute })
}

func steadyAtMost(units float64) bound {
	return worst("read units a minute", units, func(r result) float64 { return r.steady })
}

// noGap says for how long shards stand still at most where owners hand over.
func noGap() bound {
	return bound{"seconds that a shard stands still when handed over, 99 of 100", 0.2, func(rs []result) float64 { p99, _ := gapsOf(rs, planned); return p99 }}
}

// takenWithin says how long after its owner's crash a lease is taken, in failover times of 10 s.
func takenWithin(p99, longest float64) []bound {
	return []bound{
		{"failover times from a crash to the take, 99 of 100", p99, func(rs []result) float64 { p, _ := gapsOf(rs, afterCrashes); return p / 10 }},
		{"failover times from a crash to the take, longest", longest, func(rs []result) float64 { _, l := gapsOf(rs, afterCrashes); return l / 10 }},
	}
}

// standsStill says that nothing moves any more once the fleet is balanced.
func standsStill() bound {
	return worst("moves after balance", 0, func(r result) float64 { return float64(r.later) })
}

// scenarios are what is played, with the bounds that hold.
func scenarios() []scenario {
	both := []fleet{ours, kcl}
	large := []bound{minuteAtMost(2 * kclMinute), standsStill()}
	small := []bound{standsStill()}
	with := func(more []bound, b ...bound) []bound { return append(b, more...) }
	return []scenario{
		{
			name: "cold 1,000/10", leases: 1000, fleets: both, seeds: 5, horizon: 5 * time.Minute, event: start(10, ours, all),
			bounds: with(small, worst("seconds until all are owned", 5, func(r result) float64 { return max(0, r.owned.Seconds()-r.last.Seconds()) }),
				balancedWithin(15*time.Second), movesAtMost(1.6), failedAtMostOne()),
		},
		{
			name: "cold 1,000/10, rows absent", leases: 1000, fleets: both, absent: true, seeds: 4, horizon: 5 * time.Minute, event: start(10, ours, all),
			bounds: with(small, balancedWithin(15*time.Second), movesAtMost(1.6)),
		},
		{
			name: "cold 10,000/100", leases: 10000, fleets: both, seeds: 1, horizon: 5 * time.Minute, event: start(100, ours, all),
			bounds: with(large, balancedWithin(20*time.Second), movesAtMost(1.6), failedAtMostOne()),
		},
		{
			name: "cold 10,000/100, rows absent", leases: 10000, fleets: []fleet{ours}, absent: true, slow: true, seeds: 1, horizon: 5 * time.Minute, event: start(100, ours, all),
			bounds: with(large, balancedWithin(20*time.Second), movesAtMost(1.6)),
		},
		{
			name: "join 1 to 10 (1,000)", leases: 1000, fleets: both, before: 1, seeds: 4, horizon: 5 * time.Minute, event: start(9, ours, share(9)),
			bounds: with(small, balancedWithin(15*time.Second), median("moves over the least", 1.02, result.over), movesAtMost(1.08)),
		},
		{
			name: "join 10 to 100 (10,000)", leases: 10000, fleets: both, before: 10, seeds: 1, horizon: 5 * time.Minute, event: start(90, ours, share(90)),
			bounds: with(large, balancedWithin(20*time.Second), median("moves over the least", 1.02, result.over), movesAtMost(1.08), failedAtMostOne()),
		},
		{
			name: "join 100 to 110 (10,000)", leases: 10000, fleets: []fleet{ours}, before: 100, seeds: 1, horizon: 5 * time.Minute, event: start(10, ours, share(10)),
			bounds: with(large, balancedWithin(20*time.Second), median("moves over the least", 1.02, result.over), movesAtMost(1.08), failedAtMostOne()),
		},
		{
			name: "crash 1 of 10 (1,000)", leases: 1000, fleets: both, before: 10, seeds: 4, horizon: 5 * time.Minute, event: crash(1),
			bounds: with(with(small, takenWithin(1.5, 1.6)...), balancedWithin(30*time.Second)),
		},
		{
			name: "crash 10 of 100 (10,000)", leases: 10000, fleets: both, before: 100, seeds: 1, horizon: 5 * time.Minute, event: crash(10),
			bounds: with(with(large, takenWithin(1.5, 1.6)...), balancedWithin(30*time.Second), movesAtMost(1.10)),
		},
		{
			name: "crash 1 of 100 (10,000)", leases: 10000, fleets: []fleet{ours}, before: 100, slow: true, seeds: 1, horizon: 5 * time.Minute, event: crash(1),
			bounds: with(with(large, takenWithin(1.5, 1.6)...), balancedWithin(30*time.Second)),
		},
		{
			name: "rolling restart, 4 each 20 s (100)", leases: 100, fleets: both, before: 4, seeds: 5, horizon: 5 * time.Minute, event: rolling(4, 20*time.Second),
			bounds: with(small, balancedWithin(30*time.Second), movesAtMost(1.06), noGap()),
		},
		{
			name: "rolling restart, 10 each 20 s (1,000)", leases: 1000, fleets: []fleet{ours}, before: 10, seeds: 2, horizon: 8 * time.Minute, event: rolling(10, 20*time.Second),
			bounds: with(small, balancedWithin(30*time.Second), movesAtMost(1.06), noGap()),
		},
		{
			name: "rolling restart, 4 each 5 s (100)", leases: 100, fleets: both, before: 4, seeds: 5, horizon: 5 * time.Minute, event: rolling(4, 5*time.Second),
			bounds: with(small, balancedWithin(30*time.Second), noGap()),
		},
		{
			name: "rolling restart, 10 each 5 s (1,000)", leases: 1000, fleets: []fleet{ours}, before: 10, seeds: 2, horizon: 8 * time.Minute, event: rolling(10, 5*time.Second),
			bounds: with(small, balancedWithin(30*time.Second), noGap()),
		},
		{
			name: "steady 1,000/10", leases: 1000, fleets: both, before: 10, seeds: 2, steady: 5 * time.Minute,
			bounds: []bound{movesAtMost(0), steadyAtMost(budgetMinute)},
		},
		{
			name: "steady 10,000/100", leases: 10000, fleets: both, before: 100, seeds: 1, steady: time.Minute,
			bounds: []bound{movesAtMost(0), steadyAtMost(kclMinute)},
		},
		{
			name: "mixed cold 5 + 5 (1,000)", leases: 1000, fleets: []fleet{mixed}, seeds: 1, event: start(10, mixed, all),
			bounds: []bound{worst("seconds to balance", 2700, balancedSeconds), standsStill()},
		},
		{
			name: "mixed steady 5 + 5 (1,003)", leases: 1003, fleets: []fleet{mixed}, before: 10, first: mixed, seeds: 1, steady: 10 * time.Minute,
			bounds: []bound{movesAtMost(0)},
		},
		{
			name: "mixed, 5 join 5 of KCL (1,000)", leases: 1000, fleets: []fleet{mixed}, before: 5, first: kcl, seeds: 2, event: start(5, ours, share(5)),
			bounds: []bound{worst("seconds to balance", 2700, balancedSeconds), movesAtMost(1.02), standsStill()},
		},
		{
			name: "mixed, 5 of KCL join 5 (1,000)", leases: 1000, fleets: []fleet{mixed}, before: 5, first: ours, seeds: 1, event: start(5, kcl, share(5)),
			bounds: []bound{worst("seconds to balance", 2700, balancedSeconds), movesAtMost(1.02), standsStill()},
		},
	}
}
