package leases

import (
	"fmt"
	"time"
)

// namesake is a process that has our worker id and wrote a row that we do not hold.
type namesake struct {
	process string
	since   time.Time // when it was first seen
	counter int64     // of the row, when last read
	read    time.Time // when that was
}

// findNamesake looks in a listing for rows that another process owns in our name. A *[DuplicateWorkerError] says that it lives; then
// one of the two must stop. A renewer finds out by its next write, but only if it still holds something:
//
//  1. A process is frozen, longer than its leases last.
//  2. Its replacement starts with the same worker id and takes everything back.
//  3. The old one wakes up, and its leases are over. It writes nothing that could fail, takes its replacement's leases for its own
//     when it plans, and sooner or later takes others.
//
// It is certain where the row was last ours. A row that was never ours may be of a process that has just stopped, so it has to move
// for a FailoverTime: to have moved after a look that came so long after the first. Between two looks lies an outage, at times, and a
// move before it is none after it. Of Run's goroutine.
func (t *LeaseTaker) findNamesake(listed []Lease, at time.Time) error {
	mine := t.renewer.nonces.process
	view := t.View()
	for i := range listed {
		l := &listed[i]
		if !l.TenureSpeaks() || l.ActualOwner() != t.opts.Worker || l.Tenure.Worker != t.opts.Worker || l.Tenure.Process() == mine {
			delete(t.namesakes, l.Key)
			continue
		}
		if _, held := t.renewer.Get(l.Key); held { // a late listing, or the next renewal tells
			continue
		}
		known := view.Get(l.Key).Lease
		ousted := known.Tenure != nil && known.Tenure.Process() == mine && l.Counter > known.Counter
		other, seen := t.namesakes[l.Key]
		if !seen || other.process != l.Tenure.Process() {
			other = namesake{process: l.Tenure.Process(), since: at, counter: l.Counter, read: at}
		}
		lives := l.Counter > other.counter && other.read.Sub(other.since) >= t.cfg.FailoverTime
		other.counter, other.read = max(other.counter, l.Counter), at
		t.namesakes[l.Key] = other
		if ousted || lives {
			return fmt.Errorf("this worker must stop: %w", t.renewer.tenure(mine+"/0").duplicate(*l))
		}
	}
	return nil
}
