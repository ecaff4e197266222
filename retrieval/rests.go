package retrieval

import (
	"container/heap"
	"sync"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// rests has the sources of one worker go on when their rests are over. One timer serves them all: one each is 170 bytes an idle shard.
// All of them live by the same clock.
type rests struct {
	mu    sync.Mutex
	queue resting
	stop  func() bool // the timer; nil if none is set
	at    time.Time   // when that fires
}

// rest is a source's place. index is -1 while it has none.
type rest struct {
	until time.Time
	index int
}

// add has s.due called after d, on any goroutine.
func (r *rests) add(s *source, clock *loop.Clock, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.rest.until = clock.Now().Add(d)
	heap.Push(&r.queue, s)
	r.arm(clock)
}

// remove keeps s.due from being called, and reports whether it was in time.
func (r *rests) remove(s *source) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.rest.index < 0 {
		return false
	}
	heap.Remove(&r.queue, s.rest.index)
	return true
}

// arm sets the timer, unless it fires in time. The caller holds mu.
func (r *rests) arm(clock *loop.Clock) {
	if len(r.queue) == 0 {
		return // a timer that finds nothing does no harm
	}
	next := r.queue[0].rest.until
	if r.stop != nil {
		if !next.Before(r.at) {
			return
		}
		r.stop()
	}
	r.at = next
	r.stop = clock.AfterFunc(next.Sub(clock.Now()), func() { r.fire(clock) })
}

func (r *rests) fire(clock *loop.Clock) {
	var due []*source
	r.mu.Lock()
	now := clock.Now()
	for len(r.queue) > 0 && !r.queue[0].rest.until.After(now) {
		s, _ := heap.Pop(&r.queue).(*source)
		due = append(due, s)
	}
	if r.stop != nil {
		r.stop() // another one, if this timer was too late to be stopped
	}
	r.stop = nil
	r.arm(clock)
	r.mu.Unlock()
	for _, s := range due {
		s.due()
	}
}

// resting is a heap, by until.
type resting []*source

func (q resting) Len() int           { return len(q) }
func (q resting) Less(i, j int) bool { return q[i].rest.until.Before(q[j].rest.until) }
func (q resting) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].rest.index, q[j].rest.index = i, j
}

func (q *resting) Push(x any) {
	s, _ := x.(*source)
	s.rest.index = len(*q)
	*q = append(*q, s)
}

func (q *resting) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	s.rest.index = -1
	return s
}
