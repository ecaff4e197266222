package leases

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// AssignmentStrategy says which worker should hold which lease. Every worker of a fleet runs it on its own view and does
// its own part of the answer, so all must run the same one.
//
// Assign must be pure: the same fleet gives the same answer, on every worker. It returns, for each of f.Leases in order,
// the index in f.Workers of the worker that should hold it, or a negative number to leave it to nobody. A lease that has a
// holder should stay unless moving it improves something: each change is a move, and an assignment that keeps changing
// its mind moves leases for ever. Leases that are Fixed stay whatever the answer says, and no worker takes more than its Max.
// A lease that is left to nobody is read all the same, after a while, by some worker. If Assign panics, or the answer has
// another length or a worker that is not there, that is reported and leases stay where they are; what nobody holds is shared.
// (KCL: LeaseAssignmentDecider)
type AssignmentStrategy interface {
	Assign(f Fleet) []int
}

// Fleet is what a strategy decides on: the workers that this worker can see, itself included, and the leases that are work.
// A worker without any lease is in nobody's view but its own. Finished leases weigh nothing and are not listed.
type Fleet struct {
	Workers []FleetWorker // sorted by id
	Leases  []FleetLease  // sorted by key
}

// FleetWorker is a live worker.
type FleetWorker struct {
	ID   string
	Max  int    // its MaxLeasesForWorker; 0 = no limit, or not known, as of a Java worker
	Zone string // empty if not known
	Go   bool   // its rows carry our tenure; a Java worker's do not, and it takes what it is due in its own time
	// Failing says that it let a lease go stale while it renews others: it is the last to be given more than its share.
	Failing bool
}

// FleetLease is a lease that is work.
type FleetLease struct {
	Lease  Lease
	Holder int  // index of the live worker that holds it, or that a hand-off under way will give it to; negative if none
	Fixed  bool // a hand-off is under way: it stays with Holder
	Unread bool // nobody reads it: free, stale, or its owner looks dead
	// Leaving: its owner reads it and is stopping, and waits to be asked for it. It has no Holder.
	Leaving bool
	Java    bool // its owner is a Java worker, which cannot be asked
	Former  int  // index of the live worker that let it go stale, and should not get it again; negative if none
	// Near is the index of the live worker that holds a parent of a lease without holder; negative if none. It is the first
	// to know that the lease is there, when its parent ends.
	Near int
}

// LeaseCount gives every worker the same number of leases, one more or less, with the fewest moves that does it; a worker
// with a limit gets no more than that and the others share the rest. It is the default, and right unless shards differ
// much in load. (KCL: LEASE_COUNT_BASED, the 2.x LeaseTaker)
type LeaseCount struct{}

// Assign implements [AssignmentStrategy].
func (LeaseCount) Assign(f Fleet) []int { return shareCounts(f, nil) }

// shareCounts is LeaseCount for leases that come on top of others: before is how many of those each worker has, nil for none.
func shareCounts(f Fleet, before []int) []int {
	c := newCounting(f)
	copy(c.count, before)
	c.settle()
	for w, quota := range quotas(len(f.Leases), f.Workers, c.count, before) {
		c.room[w] = quota - c.count[w]
	}
	for i, l := range f.Leases { // children that their parent's owner has no room for
		if w := c.target[i]; l.Holder < 0 && w >= 0 && c.room[w] < 0 {
			c.move(i, -1)
		}
	}
	// Before the next step, which may give a worker more than its quota if nobody else can take it.
	surplus := make([]int, len(f.Workers))
	for w := range surplus {
		surplus[w] = max(0, -c.room[w])
	}
	c.spread()
	c.shed(surplus)
	return c.target
}

// counting is one run of LeaseCount.
type counting struct {
	fleet  Fleet
	draw   draw
	target []int // by lease
	count  []int // by worker
	room   []int // by worker: its quota less its count
}

func newCounting(f Fleet) *counting {
	return &counting{
		fleet: f, draw: newDraw(f),
		target: make([]int, len(f.Leases)), count: make([]int, len(f.Workers)), room: make([]int, len(f.Workers)),
	}
}

// settle counts every lease where it stays before anything is moved.
func (c *counting) settle() {
	for i, l := range c.fleet.Leases {
		if c.target[i] = c.stays(l); c.target[i] >= 0 {
			c.count[c.target[i]]++
		}
	}
}

// stays is the worker that has a lease before anything is moved. A child counts as its parent's owner's until balance says
// otherwise: that worker starts it at once, the others would notice it at their next look.
func (c *counting) stays(l FleetLease) int {
	if l.Holder < 0 && l.Near >= 0 && l.Near != l.Former && c.fleet.Workers[l.Near].Go {
		return l.Near
	}
	return l.Holder
}

// move changes a lease's target; a negative one leaves it to nobody.
func (c *counting) move(lease, to int) {
	if from := c.target[lease]; from >= 0 {
		c.count[from]--
		c.room[from]++
	}
	if c.target[lease] = to; to >= 0 {
		c.count[to]++
		c.room[to]--
	}
}

// spread gives what nobody holds to those below their quota: what nobody reads first, then in an order that is no worker's.
func (c *counting) spread() {
	loose := c.fleet.indices(func(i int, _ FleetLease) bool { return c.target[i] < 0 })
	slices.SortFunc(loose, func(a, b int) int {
		return cmp.Or(-compareBool(c.fleet.Leases[a].Unread, c.fleet.Leases[b].Unread), c.draw.order(a, b))
	})
	for _, i := range loose {
		c.move(i, c.draw.taker(i, c.room, c.count))
	}
}

// shed gives what an owner has above its quota to those below theirs. Leases of a hand-off stay, and count.
func (c *counting) shed(surplus []int) {
	held := c.fleet.indices(func(_ int, l FleetLease) bool { return l.Holder >= 0 && !l.Fixed && surplus[l.Holder] > 0 })
	slices.SortFunc(held, c.draw.order)
	for _, i := range held {
		from := c.fleet.Leases[i].Holder
		if surplus[from] == 0 {
			continue
		}
		w := c.draw.best(i, func(w int) bool { return c.room[w] > 0 })
		if limit := c.fleet.Workers[from].Max; w < 0 && (limit == 0 || c.count[from] <= limit) {
			return
		}
		c.move(i, w) // to nobody, if that is all that its holder's limit allows
		surplus[from]--
	}
}

func (f Fleet) indices(keep func(int, FleetLease) bool) []int {
	var at []int
	for i, l := range f.Leases {
		if keep(i, l) {
			at = append(at, i)
		}
	}
	return at
}

// quotas divides n leases: the largest level f such that every worker can have f (or its limit) without more than n being
// needed, and one more for some until n is reached. The ones more go first to who holds more than f already, then by a
// hash, whatever they hold up to f: by the count, the one more would move to whoever has just taken a lease, and with it
// a lease that needed no move. A worker that let a lease go stale, while it lives, gets one more last of all.
//
// before is how many leases that are not among the n each worker has; nil for none. They are part of its quota.
func quotas(n int, workers []FleetWorker, count, before []int) []int {
	if before == nil {
		before = make([]int, len(workers))
	}
	need := func(level int) (sum int) {
		for w, info := range workers {
			sum += max(0, info.atMost(level)-before[w])
		}
		return sum
	}
	low, high := 0, n+1
	for _, b := range before {
		high += b
	}
	for high-low > 1 {
		if mid := (low + high) / 2; need(mid) <= n {
			low = mid
		} else {
			high = mid
		}
	}
	quota := make([]int, len(workers))
	order := make([]int, len(workers))
	hash := make([]uint64, len(workers))
	left := n
	for w := range workers {
		quota[w] = max(before[w], workers[w].atMost(low))
		order[w], hash[w] = w, hashOf(workers[w].ID)
		left -= quota[w] - before[w]
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(
			compareBool(workers[a].Failing, workers[b].Failing),
			-compareBool(count[a] > low, count[b] > low),
			cmp.Compare(hash[a], hash[b]),
			cmp.Compare(a, b),
		)
	})
	for _, w := range order {
		if left > 0 && workers[w].atMost(low+1) > quota[w] {
			quota[w]++
			left--
		}
	}
	return quota
}

func (w FleetWorker) atMost(n int) int {
	if w.Max > 0 {
		return min(w.Max, n)
	}
	return n
}

// draw decides, by hashes that every worker computes alike, which of several workers a lease goes to, so that they do not
// race for the same leases and a change of the fleet changes few of the answers.
type draw struct {
	fleet   Fleet
	workers []uint64
	keys    []uint64
	ours    bool // there are Go workers
}

func newDraw(f Fleet) draw {
	d := draw{fleet: f, workers: make([]uint64, len(f.Workers)), keys: make([]uint64, len(f.Leases))}
	for w, info := range f.Workers {
		d.workers[w] = hashOf(info.ID)
		d.ours = d.ours || info.Go
	}
	for i, l := range f.Leases {
		d.keys[i] = hashOf(l.Lease.Key)
	}
	return d
}

// order sorts leases so that no worker's shards come first.
func (d draw) order(a, b int) int {
	return cmp.Or(cmp.Compare(d.keys[a], d.keys[b]), cmp.Compare(a, b))
}

// best is the worker with the highest hash for the lease among those that may have it; negative if there is none.
func (d draw) best(lease int, may func(worker int) bool) int {
	best, high := -1, uint64(0)
	for w := range d.workers {
		if !may(w) {
			continue
		}
		if h := mix(d.workers[w] ^ d.keys[lease]); best < 0 || h > high {
			best, high = w, h
		}
	}
	return best
}

// taker is the worker that a lease without holder goes to: one with room, else the one with the least too much that is
// below its limit. Go workers come before Java ones, whose taker may need several failover times to notice; their share
// follows when they steal it. A worker that let the lease go stale gets it only if it is alone.
func (d draw) taker(lease int, room, count []int) int {
	former := d.fleet.Leases[lease].Former
	eligible := func(w int) bool {
		info := d.fleet.Workers[w]
		return w != former && (info.Go || !d.ours) && (info.Max == 0 || count[w] < info.Max)
	}
	if w := d.best(lease, func(w int) bool { return eligible(w) && room[w] > 0 }); w >= 0 {
		return w
	}
	most := 0
	found := false
	for w := range room {
		if eligible(w) && (!found || room[w] > most) {
			most, found = room[w], true
		}
	}
	if found {
		return d.best(lease, func(w int) bool { return eligible(w) && room[w] == most })
	}
	if former >= 0 && len(d.workers) == 1 {
		return former
	}
	return -1
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return mix(h.Sum64())
}

// mix spreads a 64-bit number so that each bit of the result depends on each bit of the argument (the finalizer of
// splitmix64): FNV alone keeps similar keys near each other.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
