package leases

import "slices"

// Zone gives each lease to a worker of the zone that of returns for it, and shares the leases of a zone among its workers
// as [LeaseCount] does. A lease whose zone is empty, has no live worker, or has none below its limit, goes to the worker of
// any zone that has the fewest; when a worker of the right zone appears, it moves there. of must be pure, and the same on all
// workers.
//
// The zone of a worker is its LeaseManagement.Zone, which its rows carry. A worker that says none, as every Java worker,
// gets only what no zone claims.
//
// Choose it when reading from, or writing to, another zone costs money or time, and shards can be said to belong to one. The
// price: zones with many shards and few workers are busier than the others.
func Zone(of func(l Lease) string) AssignmentStrategy { return zoned{of} }

type zoned struct{ of func(l Lease) string }

// Assign implements [AssignmentStrategy].
func (z zoned) Assign(f Fleet) []int {
	c := newCounting(f)
	members := map[string][]int{}
	for w, info := range f.Workers {
		if info.Go && info.Zone != "" {
			members[info.Zone] = append(members[info.Zone], w)
		}
	}
	claimed := map[string][]int{}
	var rest []int
	for i, l := range f.Leases {
		if zone := z.of(l.Lease); len(members[zone]) > 0 && !c.keeps(i) {
			claimed[zone] = append(claimed[zone], i)
		} else {
			rest = append(rest, i)
		}
	}
	for i := range c.target {
		c.target[i] = -1
	}
	given := make([]int, len(f.Workers))
	for zone, leases := range claimed { // zones have no worker in common, so their order does not matter
		rest = append(rest, z.within(c, leases, members[zone], given)...)
	}
	slices.Sort(rest)
	all := make([]int, len(f.Workers))
	for w := range all {
		all[w] = w
	}
	z.within(c, rest, all, given)
	return c.target
}

// keeps reports whether a lease stays where it is in any case: what a Java worker holds, it would take back.
func (c *counting) keeps(i int) bool {
	holder := c.fleet.Leases[i].Holder
	return holder >= 0 && !c.fleet.Workers[holder].Go
}

// within shares leases among some workers that have been given others before, and returns those that nobody has room for.
func (z zoned) within(c *counting, leases, workers, given []int) (over []int) {
	at := make(map[int]int, len(workers))
	var part Fleet
	for i, w := range workers {
		at[w] = i
		part.Workers = append(part.Workers, c.fleet.Workers[w])
	}
	place := func(w int) int {
		if i, ok := at[w]; ok && w >= 0 {
			return i
		}
		return -1
	}
	for _, i := range leases {
		l := c.fleet.Leases[i]
		l.Holder, l.Former, l.Near = place(l.Holder), place(l.Former), place(l.Near)
		part.Leases = append(part.Leases, l)
	}
	before := make([]int, len(workers))
	for i, w := range workers {
		before[i] = given[w]
	}
	for i, w := range shareCounts(part, before) {
		if w < 0 {
			over = append(over, leases[i])
			continue
		}
		c.target[leases[i]] = workers[w]
		given[workers[w]]++
	}
	return over
}
