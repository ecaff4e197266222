package sim

import (
	"context"
	"sync"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// machine is where one worker's process runs: it has the clocks and can stop them. While it is stopped nothing of the
// process goes on that waits for a timer, for the network or in user code; in a bubble everything else is over in no time.
type machine struct {
	mu     sync.Mutex
	at     time.Time // in the bubble's time, when the values below were taken
	mono   time.Time // the monotonic clock then
	ahead  time.Duration
	rate   float64 // of both clocks
	halted halt
	doomed bool          // it stands still until revive
	resume chan struct{} // closed when it goes on; nil while it runs
	timers map[*timer]struct{}
}

// halt is how a machine stands still.
type halt int

const (
	running   halt = iota
	stopped        // as by SIGSTOP: both clocks go on
	suspended      // as a laptop or a virtual machine: the monotonic clock stands, the wall clock goes on
)

func newMachine() *machine {
	now := time.Now()
	return &machine{at: now, mono: now, rate: 1, timers: map[*timer]struct{}{}}
}

func (m *machine) clock() *loop.Clock {
	return loop.NewClock(m.now, m.wall, m.newTimer).Calling(m.call)
}

// now may be asked while the machine stands still: by goroutines that have not come to a wait yet.
func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nowLocked()
}

func (m *machine) nowLocked() time.Time {
	if m.halted == suspended {
		return m.mono
	}
	return m.mono.Add(time.Duration(float64(time.Since(m.at)) * m.rate))
}

func (m *machine) wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	wall := m.nowLocked().Add(m.ahead)
	if m.halted == suspended {
		wall = wall.Add(time.Since(m.at))
	}
	return wall.Round(0)
}

// settle makes now the moment from which the clocks count.
func (m *machine) settle() {
	mono, now := m.nowLocked(), time.Now()
	if m.halted == suspended {
		m.ahead += now.Sub(m.at)
	}
	m.at, m.mono = now, mono
}

// setRate lets the clocks run at this rate of the bubble's.
func (m *machine) setRate(rate float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	m.rate = rate
	m.rearm()
}

// pause stops the machine; it does nothing if it stands still already.
func (m *machine) pause(how halt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.halted != running {
		return
	}
	m.settle()
	m.halted, m.resume = how, make(chan struct{})
	m.rearm()
}

// doom stops the machine for good: goOn does nothing any more.
func (m *machine) doom() {
	m.pause(stopped)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doomed = true
}

// revive lets a doomed machine go on.
func (m *machine) revive() {
	m.mu.Lock()
	m.doomed = false
	m.mu.Unlock()
	m.goOn()
}

func (m *machine) goOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.halted == running || m.doomed {
		return
	}
	m.settle()
	m.halted = running
	close(m.resume)
	m.resume = nil
	m.rearm()
}

// gate returns when the machine runs, or with ctx's error.
func (m *machine) gate(ctx context.Context) error {
	for {
		m.mu.Lock()
		resume := m.resume
		m.mu.Unlock()
		if resume == nil {
			return nil
		}
		select {
		case <-resume:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// timer is a timer of a machine. Its fields are guarded by the machine's mutex.
type timer struct {
	m      *machine
	c      chan time.Time // nil if it calls
	calls  func()
	due    time.Time // on the monotonic clock
	armed  bool
	bubble *time.Timer
}

func (m *machine) newTimer(d time.Duration) *loop.Timer {
	t := &timer{m: m, c: make(chan time.Time, 1)}
	t.reset(d)
	return loop.NewTimerOf(t.c, t.stop, t.reset)
}

// call calls f after d.
func (m *machine) call(d time.Duration, f func()) (stop func() bool) {
	t := &timer{m: m, calls: f}
	t.reset(d)
	return t.stop
}

func (t *timer) reset(d time.Duration) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.disarm()
	t.due, t.armed = t.m.nowLocked().Add(d), true
	t.m.timers[t] = struct{}{}
	t.start()
}

func (t *timer) stop() bool {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.disarm()
}

// disarm also takes back a value that nobody has received: see loop.Timer.
func (t *timer) disarm() bool {
	was := t.armed
	t.armed = false
	delete(t.m.timers, t)
	if t.bubble != nil {
		t.bubble.Stop()
	}
	select {
	case <-t.c:
	default:
	}
	return was
}

// rearm sets all timers by clocks that have just changed.
func (m *machine) rearm() {
	for t := range m.timers {
		t.start()
	}
}

// start sets the bubble's timer, unless the machine stands still.
func (t *timer) start() {
	if t.bubble != nil {
		t.bubble.Stop()
	}
	if t.m.halted != running {
		return
	}
	wait := time.Duration(float64(t.due.Sub(t.m.nowLocked()))/t.m.rate + 0.999)
	if t.bubble == nil {
		t.bubble = time.AfterFunc(max(0, wait), t.fire)
	} else {
		t.bubble.Reset(max(0, wait))
	}
}

func (t *timer) fire() {
	if t.ring() && t.calls != nil {
		t.calls()
	}
}

// ring reports whether the time has come.
func (t *timer) ring() bool {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if !t.armed || t.m.halted != running {
		return false
	}
	now := t.m.nowLocked()
	if now.Before(t.due) { // it was reset while this one was about to fire
		t.start()
		return false
	}
	t.armed = false
	delete(t.m.timers, t)
	if t.c != nil {
		t.c <- now // there is room: disarm emptied it
	}
	return true
}
