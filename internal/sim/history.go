package sim

import (
	"fmt"
	"sync"
	"time"
)

// event is one thing that happened, in the order in which it did.
type event struct {
	at      time.Duration // since the start
	process string        // empty: to the fleet
	lease   string        // empty: to no lease in particular
	text    func() string // what happened; called when somebody wants to read it
}

// Violation is a promise that was seen broken.
type Violation struct {
	Promise string // S1 to S8, L1 to L5, O1 to O8 as docs name them, or "linearizable"
	At      time.Duration
	Process string
	Lease   string
	Text    string
	event   int // its index in the history
}

func (v Violation) String() string {
	s := fmt.Sprintf("%s broken at %.3fs", v.Promise, v.At.Seconds())
	if v.Process != "" {
		s += " by " + v.Process
	}
	if v.Lease != "" {
		s += " on " + v.Lease
	}
	return s + ": " + v.Text
}

// history is what happened in one bubble. Events come from all its goroutines.
type history struct {
	began time.Time

	mu         sync.Mutex
	events     []event
	violations []Violation
	broken     chan struct{} // closed with the first violation
}

func newHistory() *history {
	return &history{began: time.Now(), broken: make(chan struct{}), events: make([]event, 0, 4096)}
}

func (h *history) add(process, lease string, text func() string) {
	at := time.Since(h.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event{at, process, lease, text})
}

// note adds an event whose text is known.
func (h *history) note(process, lease, format string, args ...any) {
	h.add(process, lease, func() string { return fmt.Sprintf(format, args...) })
}

func (h *history) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// mostViolations is how many are kept: what follows the first is often its consequence.
const mostViolations = 10

func (h *history) violate(promise, process, lease, format string, args ...any) {
	v := Violation{Promise: promise, At: time.Since(h.began), Process: process, Lease: lease, Text: fmt.Sprintf(format, args...)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.violations) >= mostViolations {
		return
	}
	v.event = len(h.events)
	h.events = append(h.events, event{v.At, process, lease, func() string { return "BROKEN " + v.Promise + ": " + v.Text }})
	h.violations = append(h.violations, v)
	if len(h.violations) == 1 {
		close(h.broken)
	}
}

// isBroken reports whether a violation was seen: then there is no use in going on.
func (h *history) isBroken() bool {
	select {
	case <-h.broken:
		return true
	default:
		return false
	}
}
