package leases

import (
	"container/heap"
	"time"
)

// agenda is what is to be done about held leases, and when: each has to be renewed when that is due and ended when its time is
// over, and only so many are renewed at once. It reads no clock. Whoever changes the term of a lease calls reschedule.
type agenda struct {
	queue   schedule
	ready   urgency // due, waiting for a goroutine
	running int     // renewals under way
	most    int     // of them at once
}

// idle is how long to wait when nothing is scheduled. Whatever is scheduled later wakes whoever waits.
const idle = time.Hour

// step takes out what has to be done by now: leases whose time is over, and leases to renew, as many as may run at
// once, those first whose time is over first. Those that wait have their end scheduled meanwhile. next is when to come again.
func (a *agenda) step(now time.Time) (lost, due []*Held, next time.Duration) {
	for len(a.queue) > 0 && !a.queue[0].at.After(now) {
		h := a.queue[0]
		if h.over(now) {
			lost = append(lost, h)
			a.unschedule(h)
			continue
		}
		h.renewing = true
		heap.Push(&a.ready, urgent{h, h.until})
		a.reschedule(h)
	}
	for len(a.ready) > 0 && a.running < a.most {
		u, _ := heap.Pop(&a.ready).(urgent)
		if !u.held.gone {
			a.running++
			due = append(due, u.held)
		}
	}
	next = idle
	if len(a.queue) > 0 {
		next = a.queue[0].at.Sub(now)
	}
	return lost, due, next
}

// reschedule puts h where it belongs.
func (a *agenda) reschedule(h *Held) {
	if h.gone {
		return
	}
	h.at = h.until
	if !h.renewing && h.due.Before(h.until) {
		h.at = h.due
	}
	if h.index < 0 {
		heap.Push(&a.queue, h)
	} else {
		heap.Fix(&a.queue, h.index)
	}
}

// unschedule takes h out.
func (a *agenda) unschedule(h *Held) {
	if h.index >= 0 {
		heap.Remove(&a.queue, h.index)
	}
}

// done makes room for the next renewal after one of h, which is not renewed again before notBefore.
func (a *agenda) done(h *Held, notBefore time.Time) {
	a.running--
	h.renewing = false
	if h.due.Before(notBefore) {
		h.due = notBefore
	}
	a.reschedule(h)
}

// schedule is a heap of held leases by when they have to be looked at.
type schedule []*Held

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	h, _ := x.(*Held)
	h.index = len(*s)
	*s = append(*s, h)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	h.index = -1
	return h
}

// urgent is a lease that waits for its renewal, and when it ends without. A checkpoint meanwhile puts that off: then it comes
// too early, which harms nobody.
type urgent struct {
	held  *Held
	until time.Time
}

// urgency is a heap of leases by when they end.
type urgency []urgent

func (u urgency) Len() int           { return len(u) }
func (u urgency) Less(i, j int) bool { return u[i].until.Before(u[j].until) }
func (u urgency) Swap(i, j int)      { u[i], u[j] = u[j], u[i] }

// Push implements heap.Interface.
func (u *urgency) Push(x any) {
	e, _ := x.(urgent)
	*u = append(*u, e)
}

// Pop implements heap.Interface.
func (u *urgency) Pop() any {
	old := *u
	e := old[len(old)-1]
	old[len(old)-1] = urgent{}
	*u = old[:len(old)-1]
	return e
}
