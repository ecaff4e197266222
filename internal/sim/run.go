package sim

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

// recovery is how fast a fleet recovered.
type recovery struct{ deliver, settle time.Duration }

// Result is what one run of a schedule showed.
type Result struct {
	Schedule   Schedule
	Violations []Violation
	Virtual    time.Duration // how long it lasted in the bubble
	Faults     int           // that happened
	Records    int           // put
	Twice      int           // records handled again
	Gaps       int           // that Trimmed hooks told
	Lost       int           // records that nobody handled, in such gaps
	Calls      int64         // of the SDK
	Writes     int           // of the lease table
	Deliver    time.Duration // from the mending to the last record
	Settle     time.Duration // from then until all was shared and cleaned up
	Stop       time.Duration // of the whole fleet
	Took       time.Duration // of real time
	Unchecked  bool          // the checker of the register ran out of time

	events []event
	order  *porcupine.LinearizationInfo // of a history that is not linearizable
}

// checkLimit is how long the checker may look for an order.
const checkLimit = 5 * time.Second

// Run lives through a schedule once, in a bubble. It fails no test: what it found is in the result.
func Run(t *testing.T, s Schedule) (r Result) {
	t.Helper()
	began := time.Now()
	r.Schedule = s
	var w *world
	func() {
		defer func() {
			if fault := recover(); fault != nil { // of the bubble: goroutines that are left
				r.Violations = append(r.Violations, Violation{Promise: "O7", Text: fmt.Sprint(fault)})
			}
		}()
		synctest.Test(t, func(t *testing.T) {
			w = newWorld(t.Context(), s)
			w.live(&r)
		})
	}()
	if w == nil {
		return r
	}
	r.Violations = append(w.j.violations, r.Violations...)
	r.events, r.Calls, r.Faults, r.Records, r.Twice = w.j.events, w.calls.Load(), w.applied, w.j.total, w.j.twice
	r.Gaps, r.Lost = w.j.lost()
	result, info := w.register.check(checkLimit)
	r.Writes = len(w.register.ops)
	switch result {
	case porcupine.Illegal:
		r.order = &info
		for _, v := range w.register.unexplained(info) {
			if v.event < len(r.events) {
				v.At = r.events[v.event].at
			}
			r.Violations = append(r.Violations, v)
		}
	case porcupine.Unknown:
		r.Unchecked = true
	case porcupine.Ok:
	}
	r.Took = time.Since(began)
	return r
}

// live is a schedule from its begin to the end of its last process.
func (w *world) live(r *Result) {
	put := make(chan struct{})
	go func() {
		defer close(put)
		w.produce()
	}()
	watch := make(chan struct{})
	go func() { // nothing is to be learnt from what follows a violation
		defer close(watch)
		select {
		case <-w.j.broken:
			w.mend()
		case <-w.running.Done():
		}
	}()
	w.befall()
	w.restore()
	<-put
	<-watch
	w.j.note("", "", "everything is MENDED")
	if !w.j.isBroken() {
		rec := w.settle()
		r.Deliver, r.Settle = rec.deliver, rec.settle
	}
	r.Stop = w.end()
	r.Virtual = time.Since(w.j.began)
}
