package shardsync

import (
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// confidence is how sure the audit is that a part of the ring of hash keys lacks a lease. The package's documentation draws
// it.
type confidence int

const (
	ok confidence = iota
	suspected
	confirmed
)

func (c confidence) String() string { return [...]string{"ok", "suspected", "confirmed"}[c] }

// finding is what one audit found.
type finding int

const (
	ringWhole   finding = iota // unfinished leases cover all of it
	noLeases                   // the table is empty, which no half-read listing explains
	anotherHole                // a hole, and not the one of the audit before
	sameHole                   // the same as in the audit before, but not often enough in a row yet
	enough                     // the same in ShardSyncConfidence audits in a row
)

func (f finding) String() string {
	return [...]string{"ring whole", "no leases", "another hole", "same hole", "same hole often enough"}[f]
}

// nextConfidence is the audit's state machine. A finding that cannot be made in a state leaves it as it is.
func nextConfidence(c confidence, f finding) confidence {
	switch f {
	case ringWhole:
		return ok
	case noLeases, enough:
		return confirmed
	case anotherHole:
		return suspected
	case sameHole:
		return c
	}
	return c
}

// audit is what the audits so far have shown. It is a value; the zero audit has seen nothing.
type audit struct {
	state confidence
	hole  [2]hashkey.Range // around the last hole
	seen  int              // in how many audits in a row
}

// look is one more audit. A hole is confirmed in as many as needed in a row, a table without any lease at once. A listing of
// a table that is written meanwhile may show a hole where none is: the children's rows were passed before they were created,
// the parent's after it was finished. It would have to be the same one each time.
func (a audit) look(have []leases.Lease, needed int) audit {
	f := ringWhole
	around, hole := FindHole(have)
	switch {
	case len(have) == 0:
		f = noLeases
		a.seen = 0
	case !hole:
		a.seen = 0
	case a.seen > 0 && a.hole == around:
		f = sameHole
		a.seen++
	default:
		f = anotherHole
		a.seen = 1
	}
	a.hole = around
	if a.seen > 0 && a.seen >= needed {
		f = enough
	}
	a.state = nextConfidence(a.state, f)
	return a
}
