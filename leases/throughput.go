package leases

import (
	"cmp"
	"slices"
)

// ThroughputVariance evens out how many bytes a second the workers read, by the throughput that owners write beside their
// leases. It moves nothing while all workers lie within a tenth of their mean, or nothing that can move would help: a shard
// that is busier than all others together stays alone with its owner. A lease without a figure counts as the mean of those
// that have one; one that is almost idle as a tenth of it, because it costs requests all the same.
//
// Choose it when shards differ much in load and all workers are of one size. The price: counts differ, a figure is known only
// once a shard has been read for a while, and leases move when the load of shards changes for good. What is read again counts as load,
// so a fleet whose processors never checkpoint, which reads a shard from the beginning after each move, may come to no rest.
//
// Leases that a Java worker holds stay with it; it balances by count and would take them back.
// (KCL: VarianceBasedLeaseAssignmentDecider, which weighs the workers' CPU and network as well)
type ThroughputVariance struct{}

const (
	// In hundredths.
	tolerance = 20 // gap between two workers, over the mean, above which leases move
	evenness  = 10 // and down to which they then do, so that a little noise does not move leases each minute
	overshoot = 90 // the most of a gap that one lease may move: the gap turned round is then smaller by a fifth
)

// Assign implements [AssignmentStrategy].
func (ThroughputVariance) Assign(f Fleet) []int {
	b := newLoads(f)
	b.spread()
	b.level()
	return b.target
}

// loads is one run of ThroughputVariance.
type loads struct {
	*sharing
	draw   draw
	weight []int64 // by lease; whole numbers, since sums of fractions depend on their order
	load   []int64 // by worker
	mean   int64   // load of a receiver
	free   []int   // leases that nobody holds, the heaviest first
	held   [][]int // by worker: leases that may move, the heaviest first
}

func newLoads(f Fleet) *loads {
	b := &loads{
		sharing: newSharing(f), draw: newDraw(f), weight: weights(f.Leases),
		load: make([]int64, len(f.Workers)), held: make([][]int, len(f.Workers)),
	}
	for _, i := range b.open {
		l := f.Leases[i]
		b.mean += b.weight[i]
		switch {
		case l.Holder < 0:
			b.free = append(b.free, i)
			continue
		case !l.Fixed:
			b.held[l.Holder] = append(b.held[l.Holder], i)
		}
		b.place(i, l.Holder)
	}
	b.mean /= int64(len(b.receivers))
	b.sort(b.free)
	return b
}

// weights is what each lease counts, in bytes a second. Without any figure all count the same.
func weights(leases []FleetLease) []int64 {
	measured := func(l FleetLease) int64 { return int64(min(max(0, l.Lease.ThroughputKBps), 1<<30) * 1024) }
	sum, known := int64(0), int64(0)
	for _, l := range leases {
		if l.Lease.HasThroughput {
			sum += measured(l)
			known++
		}
	}
	mean := int64(1024)
	if sum > 0 {
		mean = max(10, sum/known)
	}
	w := make([]int64, len(leases))
	for i, l := range leases {
		w[i] = mean
		if l.Lease.HasThroughput {
			w[i] = max(measured(l), mean/10)
		}
	}
	return w
}

func (b *loads) sort(list []int) {
	slices.SortFunc(list, func(x, y int) int {
		return cmp.Or(cmp.Compare(b.weight[y], b.weight[x]), b.draw.order(x, y))
	})
}

func (b *loads) place(lease, to int) {
	b.give(lease, to)
	b.load[to] += b.weight[lease]
}

// spread gives what nobody holds to the least loaded, the heaviest lease first. A child goes to its parent's owner as long
// as that has less than the mean.
func (b *loads) spread() {
	for _, i := range b.free {
		l := b.fleet.Leases[i]
		if near := l.Near; near >= 0 && near != l.Former && b.fleet.Workers[near].Go && b.hasRoom(near) && b.load[near]+b.weight[i] <= b.mean {
			b.adopt(i, near)
			continue
		}
		best := -1
		for _, w := range b.receivers {
			if !b.hasRoom(w) || w == l.Former && len(b.receivers) > 1 {
				continue
			}
			if best < 0 || cmp.Or(cmp.Compare(b.load[w], b.load[best]), -cmp.Compare(b.hash(w, i), b.hash(best, i))) < 0 {
				best = w
			}
		}
		if best >= 0 {
			b.adopt(i, best)
		}
	}
}

// adopt places a lease that may still go elsewhere: it costs no move yet.
func (b *loads) adopt(lease, to int) {
	b.place(lease, to)
	b.held[to] = append(b.held[to], lease)
}

func (b *loads) hash(worker, lease int) uint64 {
	return mix(b.draw.workers[worker] ^ b.draw.keys[lease])
}

// level moves leases from the most to the least loaded while that helps. Each move makes the sum of squares smaller, so it
// ends, and two workers never swap.
func (b *loads) level() {
	for _, list := range b.held {
		b.sort(list)
	}
	limit := b.mean * tolerance / 100
	for {
		from, at, to := b.step(limit)
		if from < 0 {
			return
		}
		lease := b.held[from][at]
		b.held[from] = slices.Delete(b.held[from], at, at+1)
		b.load[from] -= b.weight[lease]
		b.count[from]--
		b.adopt(lease, to) // it may go on, as it might in the next plan: else that one would have something left to move
		b.sort(b.held[to])
		limit = b.mean * evenness / 100
	}
}

// step is the next move: the most loaded worker that can give anything, and the lease nearest to half of its distance from
// the least loaded.
func (b *loads) step(limit int64) (from, at, to int) {
	order := slices.Clone(b.receivers)
	slices.SortFunc(order, func(x, y int) int { return cmp.Or(cmp.Compare(b.load[y], b.load[x]), cmp.Compare(x, y)) })
	to = -1
	for _, w := range slices.Backward(order) {
		if b.hasRoom(w) {
			to = w
			break
		}
	}
	if to < 0 {
		return -1, 0, 0
	}
	for _, from := range order {
		gap := b.load[from] - b.load[to]
		if gap <= limit {
			break
		}
		at, near := -1, int64(0)
		for i, lease := range b.held[from] {
			off := max(b.weight[lease]-gap/2, gap/2-b.weight[lease])
			if b.weight[lease] <= gap*overshoot/100 && b.fleet.Leases[lease].Former != to && (at < 0 || off < near) {
				at, near = i, off
			}
		}
		if at >= 0 {
			return from, at, to
		}
	}
	return -1, 0, 0
}
