package leases

import (
	"cmp"
	"slices"
	"strconv"
)

// ConsistentHash places workers and leases on a circle by their hashes, each worker at 128 places, and gives a lease to the
// first worker after it that has room below its limit. Who holds it now does not matter: the same workers and shards give the
// same assignment, whatever happened before.
//
// Choose it when it should be foreseeable where a shard is, or when a worker that restarts under its old id should get its
// old shards back: caches on its disk, routing by shard from outside. The price: counts are uneven, by some 10 % of the mean
// either way, and a worker that comes back takes its shards from those who have them by now. A change of one worker of W
// moves one share in W, and nothing else.
//
// Leases that a Java worker holds stay with it; it would take them back.
type ConsistentHash struct{}

// places is on how many points of the circle each worker stands: the counts of shards scatter by about 1/√places.
const places = 128

// Assign implements [AssignmentStrategy].
func (ConsistentHash) Assign(f Fleet) []int {
	s := newSharing(f)
	type place struct {
		at     uint64
		worker int
	}
	var circle []place
	for _, w := range s.receivers {
		for i := range places {
			circle = append(circle, place{hashOf(f.Workers[w].ID + "#" + strconv.Itoa(i)), w})
		}
	}
	slices.SortFunc(circle, func(a, b place) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.worker, b.worker)) })
	// In an order of their own, so that under limits it is the same leases that go elsewhere, whoever asks.
	draw := newDraw(f)
	slices.SortFunc(s.open, draw.order)
	for _, i := range s.open {
		start, _ := slices.BinarySearchFunc(circle, draw.keys[i], func(p place, key uint64) int { return cmp.Compare(p.at, key) })
		for step := range circle {
			w := circle[(start+step)%len(circle)].worker
			if s.hasRoom(w) && (w != f.Leases[i].Former || len(s.receivers) == 1) {
				s.give(i, w)
				break
			}
		}
	}
	return s.target
}
