package leases

// Sticky leaves every lease with whoever holds it for as long as that worker lives and renews it. What nobody holds goes to
// those who have the fewest, a child to its parent's owner while that has no more than its share.
//
// Choose it when moving a shard costs more than an uneven fleet: a processor that builds a large local state, or a cache
// that takes long to warm up. The price: a worker that joins gets only what becomes free, so a fleet that grew from two
// workers to ten goes on with two busy ones until shards split or owners stop.
type Sticky struct{}

// Assign implements [AssignmentStrategy].
func (Sticky) Assign(f Fleet) []int {
	c := newCounting(f)
	loose := 0
	for i, l := range f.Leases {
		if c.target[i] = l.Holder; l.Holder >= 0 {
			c.count[l.Holder]++
		} else {
			loose++
		}
	}
	for w, quota := range quotas(loose, f.Workers, c.count, c.count) {
		c.room[w] = quota - c.count[w]
	}
	for i, l := range f.Leases {
		if near := c.stays(l); c.target[i] < 0 && near >= 0 && c.room[near] > 0 {
			c.move(i, near)
		}
	}
	c.spread()
	return c.target
}
