package retrieval

import (
	"testing"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// alarms are the timers of a clock that is set by hand.
type alarms struct {
	now time.Time
	set []*alarm
}

type alarm struct {
	at   time.Time
	ring func()
	gone bool
}

func (a *alarms) clock(now func() time.Time) *loop.Clock {
	return loop.NewClock(now, now, nil).Calling(func(d time.Duration, f func()) func() bool {
		x := &alarm{at: a.now.Add(d), ring: f}
		a.set = append(a.set, x)
		return func() bool {
			stopped := !x.gone && x.at.After(a.now)
			x.gone = x.gone || stopped
			return stopped
		}
	})
}

func (a *alarms) ring() {
	for _, x := range append([]*alarm(nil), a.set...) {
		if !x.gone && !x.at.After(a.now) {
			x.gone = true
			x.ring()
		}
	}
}

func (a *alarms) pending() (n int) {
	for _, x := range a.set {
		if !x.gone {
			n++
		}
	}
	return n
}

// A timer that could not be stopped any more must not live on beside the one that took its place:
//
//  1. A shorter rest is added an instant before the timer fires.
//  2. It fires, and waits for the lock, while another timer is set.
//  3. Its turn comes: it sets a third one. Each of the two would set another one whenever it fires, for ever.
func TestRests_haveOneTimerHoweverTheyMeet(t *testing.T) {
	t.Parallel()
	a := &alarms{now: time.Unix(1000, 0)}
	clock := a.clock(func() time.Time { return a.now })
	var r rests
	ended := func() *source { return &source{rest: rest{index: -1}, stopped: true, reader: &reader{}} }
	r.add(ended(), clock, time.Hour)
	r.add(ended(), clock, 10*time.Millisecond)
	first := a.set[len(a.set)-1]
	a.now = first.at.Add(-2)
	r.add(ended(), a.clock(func() time.Time {
		before := a.now
		a.now = first.at // between the reading of the clock and the stop of the timer
		return before
	}), aMoment)
	a.now = first.at.Add(1)
	for range 20 {
		a.ring()
		r.add(ended(), clock, time.Second)
		a.now = a.now.Add(2 * time.Second)
	}
	if n := a.pending(); n != 1 {
		t.Errorf("%d timers are set for those that rest, want 1", n)
	}
}
