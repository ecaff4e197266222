package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// none stands for no worker.
const none = int16(-1)

// version is one state of a row. Renewals are not written one by one: while renewer lives, the counter follows from the
// time (see counter).
type version struct {
	at      time.Duration // when it was written
	exists  bool
	counter int64
	owner   int16 // leaseOwner
	mark    int16 // checkpointOwner
	to      int16 // handoffTo
	tenure  int16 // tenure.worker; none if no Go worker ever wrote the row
	wrote   int64 // tenure.at, where a Java worker has written since
	nonce   int32 // tenure.nonce
	leaving bool  // tenure.leaving
	renewer int16 // who renews it
}

// row is a row of the table, with enough of its past for replicas that lag.
type row struct {
	key string
	// place is DynamoDB's own hash of the key: it decides the segment of a scan.
	place uint64
	now   version
	past  [3]version
	// still is since when nobody acts on the shard, as far as the row shows it: since it was handed over or given up.
	still time.Duration
}

// actualOwner is the worker that may act on the shard.
func (w *world) actualOwner(v version) int16 {
	if w.marked(v) {
		return v.mark
	}
	return v.owner
}

// marked reports whether a hand-off mark is live.
func (w *world) marked(v version) bool {
	return v.mark != none && v.to != none && v.to == v.owner && v.tenure == v.mark && w.speaks(v)
}

// speaks reports whether a Go worker wrote last.
func (w *world) speaks(v version) bool {
	return v.tenure != none && (v.renewer == none && v.counter == v.wrote || v.renewer != none && !w.workers[v.renewer].java)
}

// counter is the row's counter at a time: what was written, and the renewals since.
func (w *world) counter(v version, at time.Duration) int64 {
	if v.renewer == none {
		return v.counter
	}
	return v.counter + w.workers[v.renewer].renewals(v.at, at)
}

// write installs a version. Its counter is the one that it has from now on.
func (w *world) write(k int, v version) {
	r := &w.rows[k]
	before := none
	if r.now.exists {
		before = w.actualOwner(r.now)
	}
	r.past[2], r.past[1], r.past[0] = r.past[1], r.past[0], r.now
	v.at = w.now
	if !r.now.exists {
		w.made++
	}
	v.exists = true
	r.now = v
	after := w.actualOwner(v)
	if before != none {
		w.workers[before].owns--
		delete(w.workers[before].rows, k)
	}
	if after != none {
		w.workers[after].owns++
		w.workers[after].rows[k] = struct{}{}
	}
	if before != after && after != none {
		w.m.moves++
	}
	w.note(r, v, before)
}

// note measures for how long nobody acted on a shard, once somebody does again: its new owner, whose write this is.
func (w *world) note(r *row, v version, before int16) {
	crashed := before != none && v.renewer != before && w.workers[before].crashed
	switch {
	case v.renewer == none: // handed over or given up
		if r.past[0].renewer != none {
			r.still = w.now
		}
	case crashed:
		w.m.crashGaps = append(w.m.crashGaps, w.now-w.workers[before].ended)
	case r.past[0].exists && r.past[0].renewer == none && r.still > 0:
		w.m.gaps = append(w.m.gaps, w.now-r.still)
		r.still = 0
	}
}

// fresh is the row as the leader has it, for a consistent reading or a condition.
func (w *world) fresh(k int) version {
	v := w.rows[k].now
	v.counter = w.counter(v, w.now)
	if v.renewer != none && !w.workers[v.renewer].java {
		v.wrote = v.counter
	}
	return v
}

// replica is the row as a replica shows it that is so far behind.
func (w *world) replica(k int, lag time.Duration) version {
	r := &w.rows[k]
	at := w.now - lag
	v := r.now
	for i := 0; v.at > at && i < len(r.past); i++ {
		v = r.past[i]
	}
	v.counter = w.counter(v, max(at, v.at))
	if v.renewer != none && !w.workers[v.renewer].java {
		v.wrote = v.counter
	}
	return v
}

// lease is a version as package leases knows it. tenure is where its tenure may be put.
func (w *world) lease(k int, v version, tenure *leases.Tenure) leases.Lease {
	l := leases.Lease{
		Key: w.rows[k].key, Counter: v.counter, Checkpoint: checkpoint.TrimHorizon, EntityType: "LEASE",
		Owner: w.id(v.owner), CheckpointOwner: w.id(v.mark), HandoffTo: w.id(v.to),
	}
	if v.tenure != none {
		*tenure = leases.Tenure{Worker: w.id(v.tenure), Nonce: w.nonce(v.nonce), At: v.wrote, Failover: w.cfg.FailoverTime, Leaving: v.leaving}
		l.Tenure = tenure
	}
	return l
}

func (w *world) id(worker int16) string {
	if worker == none {
		return ""
	}
	return w.workers[worker].id
}

// nonce is the text of a tenure's number; equal numbers share one string.
func (w *world) nonce(n int32) string {
	for int(n) >= len(w.nonces) {
		w.nonces = append(w.nonces, fmt.Sprintf("host/1/sim/%d", len(w.nonces)))
	}
	return w.nonces[n]
}

const (
	rowBytes  = 420
	pageBytes = 1 << 20
	// served is how many read units a second the table serves: a new on-demand one.
	served = 12000
)

// scanUnits is what an eventually consistent scan of so many rows costs.
func scanUnits(rows int) float64 { return max(0.5, float64((rows*rowBytes+4095)/4096)*0.5) }

// charge accounts for a reading and returns how long the table makes it wait.
func (w *world) charge(units float64) time.Duration {
	w.m.units += units
	i := int((w.now - w.measured) / time.Minute)
	for i >= len(w.m.minutes) {
		w.m.minutes = append(w.m.minutes, 0)
	}
	w.m.minutes[i] += units
	w.readTill = max(w.readTill, w.now) + time.Duration(units/served*float64(time.Second))
	return max(0, w.readTill-w.now-time.Second)
}

// scan reads rows that keep lets through and gives them to got when the answer is there.
func (w *world) scan(rows int, requests int, got func(lag time.Duration)) {
	units := scanUnits(rows) + 0.25*float64(requests-1)
	wait := w.charge(units) + 20*time.Millisecond + time.Duration(rows*rowBytes/pageBytes)*30*time.Millisecond
	w.after(wait, func() { got(w.lag()) })
}

// lag is by how much a replica is behind.
func (w *world) lag() time.Duration {
	if w.random.IntN(50) == 0 {
		return w.uniform(800 * time.Millisecond)
	}
	return w.uniform(60 * time.Millisecond)
}

// latency is that of a request for one row.
func (w *world) latency() time.Duration {
	if w.random.IntN(200) == 0 {
		return 40 * time.Millisecond
	}
	return 3*time.Millisecond + w.uniform(4*time.Millisecond)
}

// scope are the rows of a part of the table, in the order of their keys.
func (w *world) scope(s leases.Scope) []int {
	of := max(1, s.Of)
	parts, ok := w.segments[of]
	if !ok {
		parts = make([][]int, of)
		for k := range w.rows {
			i := int((w.rows[k].place >> 32) * uint64(of) >> 32)
			parts[i] = append(parts[i], k)
		}
		w.segments[of] = parts
	}
	if s.Whole() {
		return parts[0]
	}
	var rows []int
	for _, i := range s.Segments {
		rows = append(rows, parts[i]...)
	}
	slices.Sort(rows)
	return rows
}
