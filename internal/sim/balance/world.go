package main

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// world is one table and the workers on it, in virtual time. It belongs to one goroutine.
type world struct {
	cfg      config.LeaseManagementConfig
	random   *rand.Rand
	now      time.Duration
	queue    events
	sequence int64

	rows     []row
	made     int             // rows that exist
	segments map[int][][]int // rows by segment, by the number of segments
	workers  []*worker
	listed   []leases.Lease // room for a listing
	tenures  int32
	nonces   []string
	readTill time.Duration // until when the table is busy with what was read
	m        measures
	measured time.Duration // since when
}

// measures are what a scenario is judged by. Renewals are in none of them.
type measures struct {
	writes, failed int
	moves          int // changes of the actual owner
	units          float64
	minutes        []float64 // read units by minute
	// For how long nobody acted on a shard: gaps that were planned, from when its owner gave it up or handed it over; and those
	// after a crash, from when its owner died. Each until the first write of the next owner.
	gaps, crashGaps []time.Duration
}

type event struct {
	at       time.Duration
	sequence int64
	run      func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].sequence < e[j].sequence
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return last
}

// newWorld makes a table for so many leases; its rows exist already, unowned, if made.
func newWorld(seed uint64, size int, made bool) *world {
	w := &world{
		cfg:    config.Default("sim", "sim").Complete().LeaseManagement,
		random: rand.New(rand.NewPCG(seed, 77)), segments: map[int][][]int{},
	}
	for i := range size {
		key := fmt.Sprintf("shardId-%012d", i)
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%d/%s", seed, key)
		r := row{key: key, place: scatter(h.Sum64())}
		w.rows = append(w.rows, r)
		empty := version{owner: none, mark: none, to: none, tenure: none, renewer: none}
		w.rows[i].now = empty
		if made {
			w.write(i, empty)
			w.rows[i].past = [3]version{w.rows[i].now, w.rows[i].now, w.rows[i].now}
		}
	}
	w.m = measures{}
	return w
}

func scatter(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (w *world) at(at time.Duration, run func()) {
	w.sequence++
	heap.Push(&w.queue, event{max(at, w.now), w.sequence, run})
}

func (w *world) after(d time.Duration, run func()) { w.at(w.now+d, run) }

// run lets time pass.
func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.run()
	}
	w.now = until
}

func (w *world) uniform(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(d)))
}

// spread gives all rows to the first n workers, as if they had been running for a while, and starts those.
func (w *world) spread(n int) {
	for i, k := range w.random.Perm(len(w.rows)) {
		x := w.workers[i%n]
		v := version{owner: x.index, mark: none, to: none, tenure: none, renewer: x.index, counter: 1}
		if !x.java {
			w.tenures++
			v.tenure, v.nonce = x.index, w.tenures
		}
		w.write(k, v)
		w.rows[k].past = [3]version{w.rows[k].now, w.rows[k].now, w.rows[k].now}
	}
	for _, x := range w.workers[:n] {
		x.start(w.uniform(w.cfg.LeaseTakerInterval))
	}
	w.m.moves = 0
}
