package main

import "time"

// javaTaker is the state of a KCL 2.x LeaseTaker between its runs, at its defaults.
type javaTaker struct {
	seen  []bool
	last  []int64         // counter as last seen
	moved []time.Duration // lastCounterIncrementNanos
}

const neverMoved = -1000 * time.Hour

func newJavaTaker(rows int) javaTaker {
	return javaTaker{make([]bool, rows), make([]int64, rows), make([]time.Duration, rows)}
}

// scanAsJava begins a run: the whole table, page after page.
func (x *worker) scanAsJava() {
	w := x.w
	if !x.alive() {
		return
	}
	w.scan(w.made, 1, func(lag time.Duration) {
		if !x.alive() {
			return
		}
		rows := make([]version, len(w.rows))
		for k := range rows {
			rows[k] = w.replica(k, lag)
		}
		x.takeAsJava(rows)
	})
}

// takeAsJava is one run after its scan.
func (x *worker) takeAsJava(rows []version) {
	w, t := x.w, &x.taker
	failover := w.cfg.FailoverTime
	if !rows[0].exists {
		x.createAsJava() // everybody is leader while no row has an owner
	}
	all, counts, workers := 0, make([]int, len(w.workers)), 1
	var available, veryOld []int
	for k, v := range rows {
		if !v.exists {
			continue
		}
		all++
		switch {
		case t.seen[k] && t.last[k] == v.counter:
		case !t.seen[k] && v.owner == none:
			t.moved[k] = neverMoved
		default:
			t.moved[k] = w.now
		}
		t.seen[k], t.last[k] = true, v.counter
		if v.owner == none || w.now-t.moved[k] > failover {
			available = append(available, k)
		} else {
			if counts[v.owner]++; counts[v.owner] == 1 && v.owner != x.index {
				workers++
			}
		}
		if w.now-3*failover > t.moved[k] {
			veryOld = append(veryOld, k)
		}
	}
	target := 1
	if all > workers {
		target = (all + workers - 1) / workers
	}
	needed := target - counts[x.index]
	var take []int
	switch {
	case len(veryOld) > 0:
		take = x.shuffled(veryOld, len(veryOld))
	case needed <= 0:
	case len(available) > 0:
		take = x.shuffled(available, needed)
	default:
		take = x.steal(rows, counts, target, needed)
	}
	x.takeOneByOne(take, rows)
}

// steal is one lease of the most loaded worker, the first maximum in the arbitrary order of a map.
func (x *worker) steal(rows []version, counts []int, target, needed int) []int {
	w := x.w
	most := none
	for i, off := 0, w.random.IntN(len(w.workers)); i < len(w.workers); i++ {
		o := int16((i + off) % len(w.workers))
		if n := counts[o]; (n > 0 || o == x.index) && (most == none || n > counts[most]) {
			most = o
		}
	}
	n := min(needed, counts[most]-target)
	if counts[most] < target {
		return nil
	}
	if needed > 1 && n == 0 {
		n = 1
	}
	var candidates []int
	for k, v := range rows {
		if v.exists && v.owner == most {
			candidates = append(candidates, k)
		}
	}
	return x.shuffled(candidates, min(n, 1))
}

func (x *worker) shuffled(rows []int, n int) []int {
	x.w.random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows[:max(0, min(n, len(rows)))]
}

// takeOneByOne takes leases, each conditioned on the counter as scanned, and plans the next run.
func (x *worker) takeOneByOne(take []int, rows []version) {
	w := x.w
	w.after(w.latency(), func() {
		if !x.alive() {
			return
		}
		if len(take) == 0 {
			w.after(2*(w.cfg.FailoverTime+25*time.Millisecond), x.scanAsJava)
			return
		}
		k := take[0]
		v := w.fresh(k)
		w.m.writes++
		if v.counter != rows[k].counter {
			w.m.failed++
		} else {
			v.counter++
			v.owner, v.renewer = x.index, x.index // checkpointOwner, handoffTo and tenure stay behind
			w.write(k, v)
			x.taker.moved[k], x.taker.last[k] = w.now, v.counter
		}
		x.takeOneByOne(take[1:], rows)
	})
}

// createAsJava creates the rows one after the other; a failed condition does not stop it.
func (x *worker) createAsJava() {
	if x.creating {
		return
	}
	x.creating = true
	var one func(k int)
	one = func(k int) {
		x.w.after(x.w.latency(), func() {
			if !x.alive() || k == len(x.w.rows) {
				return
			}
			x.w.m.writes++
			if x.w.rows[k].now.exists {
				x.w.m.failed++
			} else {
				x.w.write(k, version{owner: none, mark: none, to: none, tenure: none, renewer: none})
			}
			one(k + 1)
		})
	}
	one(0)
}
