package leases

import (
	"container/heap"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlease/shardlease/config"
)

var (
	renewalLeases = flag.Int("renewal-leases", 200, "leases of the worker that TestRenewal simulates")
	renewalHours  = flag.Float64("renewal-hours", 0.5, "hours that it simulates")
	renewalSeed   = flag.Uint64("renewal-seed", 1, "seed of its errors")
)

// renewing is one worker that does nothing but keep its leases, on a table that fails: by the agenda, the rules about terms and
// attempts, and the budget that run in production, but with one goroutine and a clock of its own.
type renewing struct {
	timing
	agenda agenda
	budget budget
	op     operation
	random *rand.Rand
	mutant bool // one try for each interval

	now    time.Time
	events events
	seq    int

	outage      time.Time // when the next one begins, or began
	outageLasts time.Duration
	hangs       bool // requests get no answer in the outage; else they are refused

	renewals, errors, outages, losses int
	wrong                             int // leases that counted from later than their row had last changed
}

// row is what the table has of a lease.
type row struct {
	counter int64
	changed time.Time
}

// renewal is one call to renew a lease.
type renewal struct {
	held     *Held
	row      *row
	asked    stamp
	deadline time.Time
	pause    func() time.Duration
	sent     stamp
	adopted  bool
}

func newRenewing(seed uint64, leases int, mutant bool) *renewing {
	cfg := config.Default("app", "orders").Complete().LeaseManagement
	row, _ := attempts(cfg)
	s := &renewing{
		timing: timingOf(cfg), random: rand.New(rand.NewPCG(seed, 7)), mutant: mutant, now: time.Unix(0, 0),
		op: operation{limit: row, rank: rankKeep}, budget: budget{urgent: urgentOf(cfg)},
	}
	s.agenda.most = cfg.MaxLeaseRenewalThreads
	s.outageLasts = 3 * cfg.FailoverTime / 10
	s.plan()
	for range leases {
		s.hold()
	}
	return s
}

// plan says when the next outage begins: some minutes from now.
func (s *renewing) plan() {
	s.outage = s.now.Add(2*time.Minute + time.Duration(s.random.Float64()*float64(6*time.Minute)))
	s.hangs = s.random.IntN(2) == 0
}

// hold takes a lease.
func (s *renewing) hold() {
	h := &Held{index: -1, term: s.begin(s.stamp(), time.Duration(s.random.Float64()*float64(s.interval)))}
	s.agenda.reschedule(h)
}

func (s *renewing) stamp() stamp { return stamp{mono: s.now, wall: s.now} }

func (s *renewing) at(t time.Time, f func()) {
	s.seq++
	heap.Push(&s.events, event{t, s.seq, f})
}

// run lives through so much time.
func (s *renewing) run(lasts time.Duration, rows map[*Held]*row) {
	end := s.now.Add(lasts)
	for s.now.Before(end) {
		lost, due, next := s.agenda.step(s.now)
		for _, h := range lost {
			s.losses++
			h.gone = true
			delete(rows, h)
			s.hold()
		}
		for _, h := range due {
			if rows[h] == nil {
				rows[h] = &row{changed: h.from.mono}
			}
			s.begins(h, rows[h])
		}
		if len(lost)+len(due) > 0 {
			continue
		}
		wake := s.now.Add(next)
		for len(s.events) > 0 && !s.events[0].at.After(wake) {
			e, _ := heap.Pop(&s.events).(event)
			s.now = e.at
			e.f()
			wake = s.now // the agenda may have changed
		}
		s.now = wake
		if s.now.After(s.outage.Add(s.outageLasts)) {
			s.outages++
			s.plan()
		}
	}
}

func (s *renewing) begins(h *Held, r *row) {
	if !s.toRenew(h.term, s.stamp()) {
		s.agenda.done(h, time.Time{})
		return
	}
	pauses := s.op.pauses()
	pauses.Random = s.random
	c := &renewal{held: h, row: r, asked: s.stamp(), deadline: s.now.Add(s.patience(h.term, s.now)), pause: pauses.Next}
	s.admit(c, &waiter{rank: rankKeep, by: h.until, poke: make(chan struct{}, 1)}, true)
}

// admit is budget.admit.
func (s *renewing) admit(c *renewal, w *waiter, arrives bool) {
	if !s.now.Before(c.deadline) {
		s.budget.leave(w)
		s.failed(c, false)
		return
	}
	if wait, ok := s.budget.try(s.now, w, arrives); !ok {
		next := s.now.Add(min(wait, 20*time.Millisecond))
		if next.After(c.deadline) {
			next = c.deadline
		}
		s.at(next, func() { s.admit(c, w, false) })
		return
	}
	s.attempt(c)
}

// attempt sends one request, to a table that fails in one of twenty, and always in an outage.
func (s *renewing) attempt(c *renewal) {
	first := c.sent.mono.IsZero()
	if first {
		c.sent = s.stamp()
	}
	limit := s.op.attempt(c.held.until.Sub(s.now))
	took := 4*time.Millisecond + time.Duration(s.random.ExpFloat64()*float64(8*time.Millisecond))
	applied, v := true, tableAnswered
	fault := s.random.IntN(80)
	switch down := !s.now.Before(s.outage) && s.now.Before(s.outage.Add(s.outageLasts)); {
	case down && s.hangs, !down && fault == 0: // no answer
		applied, took, v = !down && s.random.IntN(2) == 0, limit, tableSlow
	case down, fault == 1: // refused, or an error of the server's
		applied, v = false, noVerdict
	case fault == 2: // a reply that is lost
		v = noVerdict
	case fault == 3:
		applied, v = false, tableThrottled
	}
	took = min(took, limit)
	landed := false
	if applied {
		landed = c.held.lease.Counter == c.row.counter
		if landed {
			c.row.counter++
			c.row.changed = s.now
		}
	}
	if end := s.now.Add(took); end.After(c.deadline) {
		s.at(c.deadline, func() { s.failed(c, true) })
		return
	}
	s.at(s.now.Add(took), func() {
		s.budget.judge(s.now, rankKeep, v)
		switch {
		case v == tableAnswered && landed:
			s.landed(c)
			return
		case v == tableAnswered: // an earlier one has landed: go on from there
			c.held.lease.Counter, c.adopted = c.row.counter, true
			s.admit(c, &waiter{rank: rankKeep, by: c.held.until, poke: make(chan struct{}, 1)}, true)
			return
		case first && v == tableThrottled:
			c.sent = stamp{}
		}
		if s.mutant {
			s.failed(c, true)
			return
		}
		s.errors++
		wait := hasten(c.pause(), c.held.until.Sub(s.now))
		if next := s.now.Add(wait); next.Before(c.deadline) {
			s.at(next, func() {
				s.admit(c, &waiter{rank: rankKeep, by: c.held.until, poke: make(chan struct{}, 1)}, true)
			})
			return
		}
		s.at(c.deadline, func() { s.failed(c, false) })
	})
}

func (s *renewing) landed(c *renewal) {
	h := c.held
	h.lease.Counter = c.row.counter
	if !h.gone && !h.over(s.now) {
		r := NotRecovered
		if c.adopted {
			r = ByThisCall
		}
		h.term = s.timing.landed(h.term, c.sent, s.stamp(), r)
		s.check(c)
		s.renewals++
	}
	s.agenda.done(h, time.Time{})
}

func (s *renewing) failed(c *renewal, attempted bool) {
	h, wait := c.held, time.Duration(0)
	if attempted {
		s.errors++
	}
	asked := c.asked
	if !c.sent.mono.IsZero() {
		asked = c.sent
	}
	switch {
	case h.gone || h.over(s.now):
	case c.adopted:
		h.term = s.timing.landed(h.term, asked, s.stamp(), ByEarlierCall)
		s.check(c)
	default:
		h.term, wait = s.timing.failed(h.term, asked, s.stamp())
	}
	if s.mutant {
		h.due, wait = c.asked.mono.Add(s.interval), 0
	}
	s.agenda.done(h, s.now.Add(wait))
}

// check holds against each other what we believe and what others may have seen.
func (s *renewing) check(c *renewal) {
	if c.held.from.mono.After(c.row.changed) {
		s.wrong++
	}
}

type event struct {
	at  time.Time
	seq int
	f   func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if c := e[i].at.Compare(e[j].at); c != 0 {
		return c < 0
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { v, _ := x.(event); *e = append(*e, v) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	v := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return v
}

// One worker keeps its leases for hours on a table of which 5 % of the requests fail, and that is away for 0.3 × FailoverTime every
// few minutes. With one try for each interval it does not, so there is something to be lost.
func TestRenewal_losesNothingInHoursOfErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	lasts := time.Duration(*renewalHours * float64(time.Hour))
	s := newRenewing(*renewalSeed, *renewalLeases, false)
	s.run(lasts, map[*Held]*row{})
	t.Logf("leases %d virtual_hours %g renewals %d errors %d outages %d false_losses %d", *renewalLeases, *renewalHours, s.renewals, s.errors, s.outages, s.losses)
	if s.losses > 0 {
		t.Errorf("seed %d: %d leases were lost that nobody took", *renewalSeed, s.losses)
	}
	if want := lasts / s.interval * time.Duration(*renewalLeases) * 9 / 10; time.Duration(s.renewals) < want || s.outages == 0 {
		t.Errorf("%d renewals and %d outages, want at least %d and 1", s.renewals, s.outages, want)
	}
	if s.wrong > 0 {
		t.Errorf("%d times a lease counted from later than peers could have seen", s.wrong)
	}
	m := newRenewing(*renewalSeed, *renewalLeases, true)
	m.run(min(lasts, time.Hour), map[*Held]*row{})
	t.Logf("with one try for each interval, in %v: errors %d outages %d false_losses %d", min(lasts, time.Hour), m.errors, m.outages, m.losses)
	if m.losses == 0 {
		t.Error("nothing was lost with one try for each interval: then this test shows nothing")
	}
}
