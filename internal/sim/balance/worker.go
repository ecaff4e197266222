package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardlease/shardlease/leases"
)

// worker is one process: a Go worker, which is the shell of LeaseTaker and LeaseRenewer round the real View, Reader and
// Plan; or a Java-shaped one (see java.go).
type worker struct {
	w     *world
	index int16
	id    string
	java  bool

	began   time.Duration // negative before the start
	ended   time.Duration // of a crash, or when the last lease was given up; 0 while it lives
	phase   time.Duration // when renewals begin
	leaving bool
	crashed bool

	rows map[int]struct{} // that it is the actual owner of
	owns int

	view   leases.View
	reader leases.Reader
	asked  map[int]*asking
	lanes  []time.Duration // when each of the parallel requests is free again
	look   int             // number of the next look; an older one that is still planned does nothing
	expiry int             // likewise of the timer for stale rows

	creating, waits bool

	taker javaTaker
}

func (w *world) add(java bool) *worker {
	i := len(w.workers)
	x := &worker{
		w: w, index: int16(i), id: fmt.Sprintf("host-%d/%d/%08x", i, 100+i, w.random.Uint32()), java: java,
		began: -1, rows: map[int]struct{}{}, asked: map[int]*asking{}, lanes: make([]time.Duration, w.cfg.MaxLeaseRenewalThreads),
	}
	w.workers = append(w.workers, x)
	return x
}

func (x *worker) alive() bool { return x.began >= 0 && x.ended == 0 }

// start starts the process at a time. Its renewals have a phase of their own.
func (x *worker) start(at time.Duration) {
	x.phase = at - x.w.uniform(x.w.cfg.RenewInterval)
	x.w.at(at, func() {
		x.began = x.w.now
		if x.java {
			x.taker = newJavaTaker(len(x.w.rows))
			x.scanAsJava()
			return
		}
		x.view = leases.NewView(x.id, x.w.cfg)
		x.next(0)
	})
}

func (x *worker) crash() { x.ended, x.crashed = x.w.now, true }

// renewals is how many renewals fall in (from, to].
func (x *worker) renewals(from, to time.Duration) int64 {
	if x.ended > 0 {
		to = min(to, x.ended)
	}
	if to <= from {
		return 0
	}
	every := x.w.cfg.RenewInterval
	floor := func(d time.Duration) int64 { return int64((d - x.phase + 1000*every) / every) }
	return floor(to) - floor(from)
}

// renewsAt is the next renewal after a time.
func (x *worker) renewsAt(after time.Duration) time.Duration {
	every := x.w.cfg.RenewInterval
	return after + every - (after-x.phase+1000*every)%every
}

// lane is when a request ends that is sent as soon as fewer than MaxLeaseRenewalThreads are under way.
func (x *worker) lane() time.Duration {
	i := 0
	for j := range x.lanes {
		if x.lanes[j] < x.lanes[i] {
			i = j
		}
	}
	x.lanes[i] = max(x.lanes[i], x.w.now) + x.w.latency()
	return x.lanes[i]
}

// next plans the next look.
func (x *worker) next(in time.Duration) {
	x.look++
	n := x.look
	x.w.after(in, func() {
		if x.look == n && x.alive() && !x.leaving {
			x.lookAround()
		}
	})
}

func (x *worker) time() time.Time { return epoch.Add(x.w.now) }

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// lookAround is LeaseTaker.look.
func (x *worker) lookAround() {
	w := x.w
	scope := x.reader.Scope()
	keys := w.scope(scope)
	rows := 0
	for _, k := range keys {
		if w.rows[k].now.exists {
			rows++
		}
	}
	w.scan(rows, max(1, len(scope.Segments)), func(lag time.Duration) {
		if !x.alive() || x.leaving {
			return
		}
		listed := w.listed[:0] // what a view keeps it copies
		tenures := make([]leases.Tenure, 0, rows+16)
		for _, k := range keys {
			v := w.replica(k, lag)
			if _, mine := x.rows[k]; mine || x.asked[k] != nil { // what we know of these is newer
				v = w.fresh(k)
			}
			if v.exists {
				if len(tenures) == cap(tenures) {
					tenures = make([]leases.Tenure, 0, cap(tenures))
				}
				tenures = tenures[:len(tenures)+1]
				listed = append(listed, w.lease(k, v, &tenures[len(tenures)-1]))
			}
		}
		w.listed = listed
		units := scanUnits(rows) + 0.25*float64(max(1, len(scope.Segments))-1)
		if len(listed) == 0 && scope.Whole() {
			x.create()
			x.next(w.cfg.FailoverTime / 20)
			return
		}
		x.reader, x.view = x.reader.Look(x.view, scope, listed, units, x.time(), w.cfg)
		var moves leases.Moves
		var wait time.Duration
		x.reader, moves, wait = x.reader.Plan(x.id, x.view, w.cfg, leases.LeaseCount{})
		if wait == w.cfg.LeaseTakerInterval { // LeaseTaker.spread
			wait += wait / 10
		}
		wait = max(0, wait-time.Duration(w.random.Float64()*0.1*float64(wait)))
		x.execute(moves, wait)
		x.arm()
	})
}

// arm sets the timer for the next row that becomes stale.
func (x *worker) arm() {
	x.expiry++
	n := x.expiry
	at, ok := x.view.NextExpiry()
	if !ok {
		return
	}
	x.w.at(at.Sub(epoch), func() {
		if x.expiry != n || !x.alive() || x.leaving {
			return
		}
		// LeaseTaker.expire
		x.view = x.view.Own(nil, x.time())
		moves := leases.Plan(x.id, x.view, x.w.cfg, leases.LeaseCount{})
		stale := leases.Moves{}
		for _, l := range moves.Take {
			if l.Owner != "" {
				stale.Take = append(stale.Take, l)
			}
		}
		again := time.Duration(-1)
		if moves.Again > 0 {
			again = moves.Again
		}
		x.execute(stale, again)
		x.arm()
	})
}

// execute does what was planned and then plans the next look; with a negative wait, only if something failed.
func (x *worker) execute(moves leases.Moves, wait time.Duration) {
	w := x.w
	pending, failed := 1, false
	done := func(ok bool) {
		pending--
		failed = failed || !ok
		if pending > 0 || !x.alive() || x.leaving {
			return
		}
		if fast := w.cfg.FailoverTime / 20; failed && (wait < 0 || wait > fast) {
			wait = fast
		}
		if wait >= 0 {
			x.next(wait)
		}
	}
	for _, l := range moves.Take {
		k := w.number(l.Key)
		if x.asked[k] != nil {
			continue
		}
		pending++
		if l.Owner == "" {
			w.at(x.lane(), func() { done(x.take(k, l.Counter, false)) })
			continue
		}
		w.at(x.lane(), func() { // an owned one is read first
			w.charge(1)
			if now := w.fresh(k); now.counter != l.Counter {
				x.see(k)
				done(false)
				return
			}
			w.at(x.lane(), func() { done(x.take(k, l.Counter, false)) })
		})
	}
	for _, l := range moves.Ask {
		k := w.number(l.Key)
		if x.asked[k] != nil {
			continue
		}
		pending++
		if l.TenureSpeaks() {
			w.at(x.lane(), func() { done(x.ask(k, l)) })
			continue
		}
		w.at(x.lane(), func() { // a Java worker cannot be asked
			w.charge(1)
			now := w.fresh(k)
			x.see(k)
			if w.id(now.owner) != l.Owner || w.speaks(now) {
				done(false)
				return
			}
			w.at(x.lane(), func() { done(x.take(k, now.counter, false)) })
		})
	}
	done(true)
}

func (w *world) number(key string) int {
	k := 0
	for _, c := range key[len("shardId-"):] {
		k = 10*k + int(c-'0')
	}
	return k
}

// see notes a row as it is.
func (x *worker) see(k int) {
	x.view = x.view.Row(x.w.lease(k, x.w.fresh(k), new(leases.Tenure)), x.time())
}

// take takes a row at a counter. renewal says that it is the first renewal of a row that was handed over.
func (x *worker) take(k int, counter int64, renewal bool) bool {
	w := x.w
	if !x.alive() || x.leaving && !renewal {
		return true
	}
	v := w.fresh(k)
	if !renewal {
		w.m.writes++
	}
	if v.counter != counter {
		w.m.failed++
		return false
	}
	w.tenures++
	w.write(k, version{counter: counter + 1, owner: x.index, mark: none, to: none, tenure: x.index, nonce: w.tenures, renewer: x.index, leaving: x.leaving})
	x.see(k)
	return true
}

// create makes the rows, as the leader of an empty table does: whoever loses the first one waits for the others.
func (x *worker) create() {
	w := x.w
	if x.creating || x.waits {
		return
	}
	x.creating = true
	one := func(k int) {
		if !x.alive() || x.waits {
			return
		}
		w.m.writes++
		if w.rows[k].now.exists {
			w.m.failed++
			x.waits = true
			return
		}
		w.write(k, version{owner: none, mark: none, to: none, tenure: none, renewer: none})
	}
	w.at(x.lane(), func() {
		one(0)
		for k := 1; k < len(w.rows) && !x.waits; k++ {
			w.at(x.lane(), func() { one(k) })
		}
	})
}

// leave stops the worker: it says so on its rows, keeps reading, hands over what it is asked for, and releases the rest.
func (x *worker) leave() {
	w := x.w
	x.leaving = true
	for _, k := range x.sortedRows() {
		v := w.fresh(k)
		v.counter++
		v.leaving = true
		w.write(k, v)
		x.noticeAt(k, w.now)
	}
	w.after(w.cfg.FailoverTime*24/10, func() {
		for _, k := range x.sortedRows() {
			w.at(x.lane(), func() { x.release(k) })
		}
	})
	x.gone()
}

func (x *worker) release(k int) {
	w := x.w
	v := w.fresh(k)
	if w.actualOwner(v) != x.index || !x.alive() {
		return
	}
	w.m.writes++
	if w.marked(v) {
		x.complete(k)
		return
	}
	w.write(k, version{counter: v.counter + 1, wrote: v.counter + 1, owner: none, mark: none, to: none, tenure: x.index, nonce: v.nonce, renewer: none})
}

// gone ends the process once nothing is left to hand over.
func (x *worker) gone() {
	if x.owns == 0 && len(x.asked) == 0 {
		x.ended = x.w.now
		return
	}
	x.w.after(100*time.Millisecond, x.gone)
}

func (x *worker) sortedRows() []int { return slices.Sorted(maps.Keys(x.rows)) }
