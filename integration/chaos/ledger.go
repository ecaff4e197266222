//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
)

// ledger is what was put, what arrived and what happened. It is safe for concurrent use.
type ledger struct {
	zero time.Time

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every report
	timeline io.Writer     // of everything that is said
	produced map[string]int64
	doubtful map[string]map[int64]bool
	seen     map[record]bool
	waiting  map[record]bool // stored, not seen
	arrivals []audit.Arrival
	fates    []audit.Fate
	owners   map[string]string // by shard, as the workers report; "" for a finished one
	wrong    []string          // what must not be, apart from records
}

// record is one record that was put.
type record struct {
	key string
	n   int64
}

func newLedger(timeline io.Writer) *ledger {
	return &ledger{
		zero: time.Now(), changed: make(chan struct{}), timeline: timeline, produced: map[string]int64{}, doubtful: map[string]map[int64]bool{},
		seen: map[record]bool{}, waiting: map[record]bool{}, owners: map[string]string{},
	}
}

// now is the time since the ledger was opened.
func (l *ledger) now() time.Duration { return time.Since(l.zero) }

// say writes a line of the timeline.
func (l *ledger) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(format, args...)
}

func (l *ledger) note(format string, args ...any) {
	_, _ = fmt.Fprintf(l.timeline, "%8.2fs  %s\n", l.now().Seconds(), fmt.Sprintf(format, args...)) // the audit does not need it
}

// blame notes something that must not be.
func (l *ledger) blame(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	l.wrong = append(l.wrong, text)
	l.note("WRONG: %s", text)
}

// faults are what was blamed so far.
func (l *ledger) faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.wrong)
}

// next is the number of the next record of a key. It belongs to whoever puts.
func (l *ledger) next(key string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.produced[key] + 1
}

// store notes that the next record of a key is in the stream, or, if doubt, that it may be.
func (l *ledger) store(key string, doubt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.produced[key]++
	r := record{key, l.produced[key]}
	switch {
	case doubt:
		if l.doubtful[key] == nil {
			l.doubtful[key] = map[int64]bool{}
		}
		l.doubtful[key][r.n] = true
	case !l.seen[r]: // its report may have come before the answer to the put
		l.waiting[r] = true
	}
}

// take takes a report in.
func (l *ledger) take(a audit.Arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrivals = append(l.arrivals, a)
	switch a.Kind {
	case audit.Batch:
		for i, key := range a.Keys {
			r := record{key, a.Numbers[i]}
			l.seen[r] = true
			delete(l.waiting, r)
		}
	case audit.Started:
		if l.owners[a.Shard] = a.Worker; a.Token > 0 {
			l.note("%s reads %s, token %d", a.Worker, audit.Short(a.Shard), a.Token)
		}
	case audit.Ended:
		l.owners[a.Shard] = ""
		l.note("%s read %s to its end", a.Worker, audit.Short(a.Shard))
	case audit.Taken:
		l.note("%s took %s, of %q", a.Worker, audit.Short(a.Shard), a.From)
	case audit.Lost, audit.Released, audit.Refused:
		l.note("%s: %s %s %s", a.Worker, audit.Short(a.Shard), a.Kind, a.Err)
	case audit.Ready, audit.Exited, wall:
		l.note("%s: %s %s%s", a.Worker, a.Kind, a.From, a.Err)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// befall notes a fate.
func (l *ledger) befall(worker string, k kind) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates = append(l.fates, audit.Fate{Worker: worker, What: string(k), At: l.now()})
}

// missing is how many records are in the stream that nobody has reported.
func (l *ledger) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// reads are how many shards each worker reads, as far as it has reported.
func (l *ledger) reads() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int{}
	for _, worker := range l.owners {
		if worker != "" {
			n[worker]++
		}
	}
	return n
}

// count is how many reports of that kind have come since then.
func (l *ledger) count(k audit.Kind, since time.Duration) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.arrivals {
		if a.Kind == k && a.At >= since {
			n++
		}
	}
	return n
}

// wait returns when ok holds, or when ctx has ended, its cause. ok is asked at every report, and every quarter of a second.
func (l *ledger) wait(ctx context.Context, ok func() bool) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// evidence is everything for the audit.
func (l *ledger) evidence() audit.Evidence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return audit.Evidence{Produced: maps.Clone(l.produced), Doubtful: maps.Clone(l.doubtful), Arrivals: slices.Clone(l.arrivals), Fates: slices.Clone(l.fates)}
}
