package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/loop"
)

// board is what the parent knows. It is safe for concurrent use.
type board struct {
	clock *loop.Clock
	zero  time.Time
	total int // records to come

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	produced map[string]int64
	seen     map[string][]bool // by key, at number-1
	arrivals []audit.Arrival
	fates    []audit.Fate
	shards   map[string]*shardState
	workers  []*workerState
	timeline []entry
	stored   int // records
	arrived  int // different records
}

// shardState is one line of the screen's upper half.
type shardState struct {
	id        string
	stored    int
	delivered int // different records
	owner     string
	ended     bool
}

// workerState is one process.
type workerState struct {
	id    string
	phase phase
	err   string
}

type phase string

const (
	starting phase = "starting"
	running  phase = "running"
	dying    phase = "dying" // of kill -9
	stopping phase = "stopping"
	gone     phase = "gone"
)

// wrong says what is wrong with the end of a process that was in a phase and said something last.
func wrong(p phase, said string) string {
	switch {
	case p == dying:
		return "" // whatever it says
	case p != stopping && said == "":
		return "ended without being asked to"
	}
	return said
}

// entry is one line of the timeline.
type entry struct {
	at   time.Duration
	text string
}

func newBoard(clock *loop.Clock, total int) *board {
	return &board{
		clock: clock, zero: clock.Now(), total: total,
		changed:  make(chan struct{}),
		produced: map[string]int64{}, seen: map[string][]bool{}, shards: map[string]*shardState{},
	}
}

// now is the time since the start of the demo.
func (b *board) now() time.Duration { return b.clock.Since(b.zero) }

// change runs f under the lock and wakes whoever waits.
func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// look runs f, which only reads, under the lock.
func (b *board) look(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// wait returns when done, called under the lock, holds; or when ctx has ended, its cause.
func (b *board) wait(ctx context.Context, done func() bool) error {
	for {
		b.mu.Lock()
		ok, changed := done(), b.changed
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reach waits until this share of all records is stored.
func (b *board) reach(ctx context.Context, share float64) error {
	at := int(share * float64(b.total))
	return b.wait(ctx, func() bool { return b.stored >= at })
}

// say adds to the timeline.
func (b *board) say(format string, args ...any) {
	at := b.now()
	b.change(func() { b.note(at, format, args...) })
}

func (b *board) note(at time.Duration, format string, args ...any) {
	b.timeline = append(b.timeline, entry{at, fmt.Sprintf(format, args...)})
}

// store counts a record that the stream has taken.
func (b *board) store(key string, shard string) {
	b.change(func() {
		b.produced[key]++
		b.stored++
		b.shard(shard).stored++
	})
}

func (b *board) shard(id string) *shardState {
	s := b.shards[id]
	if s == nil {
		s = &shardState{id: id}
		b.shards[id] = s
	}
	return s
}

// join adds a worker's process.
func (b *board) join(id string) {
	b.change(func() { b.workers = append(b.workers, &workerState{id: id, phase: starting}) })
}

func (b *board) worker(id string) *workerState {
	i := slices.IndexFunc(b.workers, func(w *workerState) bool { return w.id == id })
	return b.workers[i]
}

// doom records what is about to be done to a worker, and returns the shards that it reads.
func (b *board) doom(worker, what string) (held []string) {
	at := b.now()
	b.change(func() {
		held = b.held(worker)
		if b.worker(worker).phase = stopping; what == audit.Killed {
			b.worker(worker).phase = dying
		}
		b.fates = append(b.fates, audit.Fate{Worker: worker, What: what, At: at, Held: held})
		b.note(at, "%s of %s, which reads %s", what, worker, list(held))
	})
	return held
}

func (b *board) held(worker string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(b.shards)) {
		if s := b.shards[id]; s.owner == worker && !s.ended {
			ids = append(ids, id)
		}
	}
	return ids
}

// take takes a report in.
func (b *board) take(a audit.Arrival) {
	b.change(func() {
		if a.Kind != audit.Exited {
			b.arrivals = append(b.arrivals, a)
		}
		switch a.Kind {
		case audit.Ready:
			if w := b.worker(a.Worker); w.phase == starting {
				w.phase = running
			}
		case audit.Taken:
			finished := ""
			if b.shard(a.Shard).ended {
				finished = ", which is finished,"
			}
			b.note(a.At, "%s took %s%s%s", a.Worker, audit.Short(a.Shard), finished, b.since(a))
		case audit.Started:
			b.shard(a.Shard).owner = a.Worker
		case audit.Batch:
			b.deliver(a)
		case audit.Lost, audit.Released:
			if s := b.shard(a.Shard); s.owner == a.Worker {
				s.owner = ""
			}
			finished := ""
			if b.shard(a.Shard).ended {
				finished = ", which is finished"
			}
			b.note(a.At, "%s %s %s%s", a.Worker, a.Kind, audit.Short(a.Shard), finished)
		case audit.Ended:
			b.shard(a.Shard).ended = true
			b.note(a.At, "%s read %s to its end", a.Worker, audit.Short(a.Shard))
		case audit.Refused:
			b.note(a.At, "%s could not checkpoint %s", a.Worker, audit.Short(a.Shard))
		case audit.Exited:
			w := b.worker(a.Worker)
			if w.err = wrong(w.phase, a.Err); w.err != "" {
				b.note(a.At, "%s %s", a.Worker, w.err)
			} else {
				b.note(a.At, "%s is gone", a.Worker)
			}
			w.phase = gone
			for _, s := range b.shards {
				if s.owner == a.Worker {
					s.owner = ""
				}
			}
		}
	})
}

// since says from whom a lease came and how long ago that worker met its fate.
func (b *board) since(a audit.Arrival) string {
	if a.From == "" || a.From == a.Worker {
		return ""
	}
	for _, f := range b.fates {
		if f.Worker == a.From && f.At <= a.At {
			return fmt.Sprintf(" from %s, %s after its %s", a.From, audit.Seconds(a.At-f.At), f.What)
		}
	}
	return " from " + a.From
}

func (b *board) deliver(a audit.Arrival) {
	s := b.shard(a.Shard)
	for i, key := range a.Keys {
		n := int(a.Numbers[i])
		seen := b.seen[key]
		if n < 1 || n > b.total {
			continue // the audit tells
		}
		for len(seen) < n {
			seen = append(seen, false)
		}
		b.seen[key] = seen
		if !seen[n-1] {
			seen[n-1] = true
			s.delivered++
			b.arrived++
		}
	}
}

// evidence is everything for the audit.
func (b *board) evidence() audit.Evidence {
	b.mu.Lock()
	defer b.mu.Unlock()
	return audit.Evidence{Produced: maps.Clone(b.produced), Arrivals: slices.Clone(b.arrivals), Fates: slices.Clone(b.fates)}
}

// faults are the workers that ended without being asked to.
func (b *board) faults() (texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.workers {
		if w.err != "" {
			texts = append(texts, w.id+" "+w.err)
		}
	}
	return texts
}

func list(shards []string) string {
	names := make([]string, len(shards))
	for i, s := range shards {
		names[i] = strings.TrimPrefix(audit.Short(s), "shard ")
	}
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return "shard " + names[0]
	}
	return "shards " + strings.Join(names, ", ")
}

// quit marks a worker that is asked to stop because the demo is over; it is called under the board's lock.
func (w *workerState) quit() {
	if w.phase != gone {
		w.phase = stopping
	}
}
