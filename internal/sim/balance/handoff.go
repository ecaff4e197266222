package main

import (
	"time"

	"github.com/shardlease/shardlease/leases"
)

// asking is a lease that a worker has asked for.
type asking struct {
	counter int64 // when it asked
	noticed bool
}

const drain = 50 * time.Millisecond // what an owner needs to end its batch

// ask asks a live Go owner to hand a lease over, and follows it until that is done.
func (x *worker) ask(k int, seen leases.Lease) bool {
	w := x.w
	if !x.alive() || x.leaving {
		return true
	}
	v := w.fresh(k)
	w.m.writes++
	if w.id(v.owner) != seen.Owner || v.mark != none || !w.speaks(v) || w.nonce(v.nonce) != seen.Tenure.Nonce {
		w.m.failed++
		x.see(k)
		return false
	}
	owner := w.workers[v.owner]
	v.mark, v.owner, v.to = v.owner, x.index, x.index
	v.renewer = v.mark
	w.write(k, v)
	x.see(k)
	x.asked[k] = &asking{counter: v.counter}
	owner.noticeAt(k, owner.renewsAt(w.now))
	x.follow(k)
	return true
}

// noticeAt has the owner see the row at its renewal; if somebody has asked for it by then, it goes on until the other has
// noticed that, ends its batch and hands over.
func (x *worker) noticeAt(k int, at time.Duration) {
	w := x.w
	w.at(at, func() {
		if v := w.fresh(k); !x.alive() || !w.marked(v) || v.mark != x.index {
			return
		}
		w.after(leases.NoticeTime(w.cfg)+drain+w.latency(), func() { x.complete(k) })
	})
}

// complete is the owner's last write.
func (x *worker) complete(k int) {
	w := x.w
	v := w.fresh(k)
	if !x.alive() || !w.marked(v) || v.mark != x.index {
		return
	}
	w.m.writes++
	v.counter++
	v.mark, v.renewer, v.wrote = none, none, v.counter
	w.write(k, v)
}

// follow reads a row that was asked for until it has been handed over.
func (x *worker) follow(k int) {
	w, a := x.w, x.asked[k]
	pause := leases.NoticeTime(w.cfg)
	if a.noticed {
		pause = min(100*time.Millisecond, pause/2)
	}
	w.after(pause, func() {
		if !x.alive() {
			return
		}
		w.charge(1)
		v := w.fresh(k)
		a.noticed = a.noticed || v.counter != a.counter
		x.see(k)
		stuck := x.view.Get(w.rows[k].key).Knowledge == leases.Stale
		switch {
		case v.owner != x.index || v.to != x.index:
			delete(x.asked, k)
		case !w.marked(v) || stuck:
			w.at(x.lane(), func() {
				if x.take(k, v.counter, true) {
					delete(x.asked, k)
					if x.leaving {
						x.release(k)
					}
				} else {
					x.follow(k)
				}
			})
		default:
			x.follow(k)
		}
	})
}
