package sim

import (
	"fmt"
	"slices"
	"time"
)

// Limits are what the fleet is given once everything is mended.
type Limits struct {
	Deliver time.Duration // until every record was handled (L1, O1, O5)
	Settle  time.Duration // until leases are shared and rows of finished shards are gone (L2, L4)
	Quiet   time.Duration // without a move, then (L3)
	Stop    time.Duration // until Run has returned
}

// limits of a schedule. What they allow for: a lease that nobody renews is taken after FailoverTime and half a look; a
// hand-off under way ends by GracefulHandoffTimeout; a shard reader that failed for long has grown its pauses to 10 s, and
// a look for children or the audit of shards to 5 s and 20 s; rows of finished shards stay for keepFinished.
func (s Schedule) limits() Limits {
	var garbage time.Duration
	if s.trims() {
		// Rows whose shard is gone and whose children nobody can name wait for a listing, once in 20 s; when others go, whoever owned them
		// may have led, and the next leader waits for keepFinished anew.
		garbage = keepFinished + 25*time.Second
	}
	return Limits{
		Deliver: 3*s.longest() + s.Handoff + 30*time.Second + s.Reading.slowest(),
		Settle:  6*s.longest() + s.Handoff + keepFinished + 40*time.Second + garbage,
		Quiet:   4 * s.longest(),
		Stop:    s.Grace + 5*time.Second,
	}
}

// until waits until ok, looking now and then, or something is broken; it reports whether it became so within the limit.
func (w *world) until(limit time.Duration, ok func() bool) (took time.Duration, within bool) {
	began := time.Now()
	for !ok() {
		if took = time.Since(began); took >= limit || w.j.isBroken() {
			return took, false
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(began), true
}

// settle judges how a fleet recovers: it is called when everything is mended.
func (w *world) settle() (r recovery) {
	limits := w.s.limits()
	if w.deleted.Load() {
		w.settleWithoutStream()
		return r
	}
	var within bool
	if r.deliver, within = w.until(limits.Deliver, w.allHandled); !within {
		w.miss("L1", limits.Deliver)
		return r
	}
	shards := w.putEverywhere()
	if _, within = w.until(limits.Deliver, w.allHandled); !within {
		w.miss("O1", limits.Deliver)
		return r
	}
	// A shard that is gone may be opened last: nobody waits for it.
	if _, within = w.until(limits.Deliver, func() bool { _, found := w.j.untold(); return !found }); !within {
		p, _ := w.j.untold()
		w.violateUnlessBroken("O8", "%s (number %s in %s) has left the stream unread, and %v after everything else was read nobody has told that", p, p.number, p.lease, limits.Deliver)
		return r
	}
	if r.settle, within = w.until(limits.Settle, func() bool { return w.shared(shards) == "" }); !within {
		w.violateUnlessBroken("L2", "%v after everything was delivered %s", limits.Settle, w.shared(shards))
		return r
	}
	// Strategies that look at more than counts may still have something to move when these are even.
	moves, since, calls, rows, rested := w.j.countMoves(), time.Now(), w.calls.Load(), w.j.countRows(), false
	took, within := w.until(limits.Settle+limits.Quiet, func() bool {
		if now := w.j.countMoves(); now != moves {
			moves, since, calls, rows = now, time.Now(), w.calls.Load(), 0
		}
		rows = max(rows, w.j.countRows()) // those of finished shards may go at the end only
		rested = time.Since(since) >= limits.Quiet
		return rested && w.shared(shards) == ""
	})
	switch r.settle += max(0, took-limits.Quiet); {
	case within:
		w.frugal(w.calls.Load()-calls, rows, time.Since(since))
	case rested:
		w.violateUnlessBroken("L2", "no lease has changed hands for %v, and %s", time.Since(since), w.shared(shards))
	case !w.movesMakeLoad():
		w.violateUnlessBroken("L3", "%v after everything was shared leases still change hands, for the last time %v ago", took, time.Since(since))
	}
	return r
}

// movesMakeLoad reports whether shards are shared by load while a processor never checkpoints: each move makes it read its shard from the
// beginning, which is load, so that another move follows. Such a fleet comes to no rest, and is promised none.
func (w *world) movesMakeLoad() bool {
	return w.strategy() == "ThroughputVariance" && slices.ContainsFunc(w.alive(), func(x *process) bool {
		return w.s.Handling[x.place.n%len(w.s.Handling)] == Never
	})
}

// frugal judges what a fleet at rest asks of the services (O6). Each row is renewed three times in a FailoverTime and its shard is
// polled, or subscribed to anew now and then, each worker looks at the table twice in a FailoverTime; half as much again is for what is rare, as audits.
func (w *world) frugal(calls int64, rows int, took time.Duration) {
	workers := float64(len(w.alive()))
	second := float64(rows)*(3/w.s.Failover.Seconds()+w.s.reads()) + workers*2/w.s.Failover.Seconds()
	if budget := 20 + 1.5*second*took.Seconds(); float64(calls) > budget {
		w.violateUnlessBroken("O6", "at rest %v workers with %v rows made %d calls in %v, want at most %.0f", workers, rows, calls, took, budget)
	}
}

func (w *world) allHandled() bool {
	n, _ := w.j.missing()
	return n == 0
}

func (w *world) miss(promise string, limit time.Duration) {
	n, some := w.j.missing()
	w.violateUnlessBroken(promise, "%v after everything was mended %d of %d records were handled by nobody: %v", limit, n, w.j.total, some)
}

func (w *world) violateUnlessBroken(promise, format string, args ...any) {
	if !w.j.isBroken() {
		w.j.violate(promise, "", "", "%s", fmt.Sprintf(format, args...))
	}
}

// shared says what is still to be done before the fleet is at rest; empty if nothing is.
func (w *world) shared(shards int) string {
	owner, moving, removable := w.j.owners()
	if len(moving) > 0 {
		return fmt.Sprintf("leases are being handed over: %v", moving)
	}
	if len(owner) != shards {
		return fmt.Sprintf("%d rows are not ended, with %d open shards", len(owner), shards)
	}
	if len(removable) > 0 {
		return fmt.Sprintf("the rows of ended shards are still there: %v", removable)
	}
	counts := map[string]int{}
	for _, x := range w.alive() {
		counts[x.id] = 0
	}
	for key, id := range owner {
		if _, ok := counts[id]; !ok {
			return fmt.Sprintf("lease %s belongs to %q, which does not run", key, id)
		}
		counts[id]++
	}
	var n []int
	for _, c := range counts {
		n = append(n, c)
	}
	// The other strategies promise other things: see leases.Plan's own tests.
	if slices.Sort(n); w.strategy() == "LeaseCount" && len(n) > 0 && n[len(n)-1]-n[0] > 1 {
		return fmt.Sprintf("the leases are shared %v", n)
	}
	return ""
}

// settleWithoutStream judges what becomes of workers whose stream is gone: each ends, by itself, with an error.
func (w *world) settleWithoutStream() {
	if _, within := w.until(90*time.Second, func() bool { return len(w.alive()) == 0 }); !within {
		w.violateUnlessBroken("L0", "%d workers still run 90s after their stream was deleted", len(w.alive()))
	}
}

// end stops what runs, judges that, and lets the bubble come to its end.
func (w *world) end() (stop time.Duration) {
	broken := w.j.isBroken()
	began := time.Now()
	alive := w.alive()
	for _, x := range alive {
		x.asked.Store(true)
		x.stop()
	}
	limit := time.NewTimer(w.s.limits().Stop)
	defer limit.Stop()
	for _, x := range alive {
		select {
		case <-x.done:
			if x.err != nil && !broken {
				w.j.violate("L0", x.name, "", "it was asked to stop, and nothing was wrong, but Run returned: %v", x.err)
			}
		case <-limit.C:
			if !broken {
				w.j.violate("L0", x.name, "", "it has not stopped after %v", w.s.limits().Stop)
			}
			limit.Reset(0)
		}
	}
	stop = time.Since(began)
	if owned := w.j.stillOwned(); len(owned) > 0 && !w.deleted.Load() && !w.j.isBroken() {
		w.j.violate("L1", "", "", "all workers have stopped, and rows have owners: %v", owned)
	}
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, x := range all {
		x.asked.Store(true)
		if x.dead.Load() {
			x.bury()
		} else if x.stop != nil {
			x.stop()
		}
	}
	for _, x := range all {
		<-x.done
		x.background.Wait()
	}
	w.late.Wait()
	w.hands.end()
	return stop
}
