package cleanup

import (
	"slices"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// Reason is why a row may go or has to stay.
type Reason int

// The reasons. With the first group a row stays, with Completed and Garbage it may go.
const (
	Unfinished      Reason = iota // its shard was not read to its end
	ParentRemains                 // a parent's row is still there, and goes first
	ChildrenUnknown               // neither the row nor anything else tells which shards follow
	ChildMissing                  // a child has no row
	ChildNotBegun                 // a child has a row but no checkpoint yet
	Uncovered                     // the shard is gone, but some of its hash keys are in no unfinished lease
	JustFinished                  // a request to create the row may still be under way

	Completed // all children have begun
	Garbage   // the shard is gone, and unfinished leases cover its hash keys
)

var reasonNames = [...]string{
	"not read to its end", "a parent's lease remains", "its children are not known", "a child has no lease",
	"a child has not begun", "its shard is gone, and not all of its hash keys have a lease",
	"it was finished a moment ago",
	"all children have begun", "its shard is gone, and leaves no hash keys without a lease",
}

func (r Reason) String() string { return reasonNames[r] }

// Verdict is what [Decide] says of a row.
type Verdict struct {
	Delete bool
	Reason Reason
	About  string // the shard that the reason is about, if it is one of several parents or children
}

// Known is what is known of a finished shard from elsewhere than its own row and those of its parents and children.
type Known struct {
	// ChildIDs are the ids of all children; empty if not known. They count only if the row itself names none, as a row that
	// an early KCL finished.
	ChildIDs []string
	Gone     bool // the service lists the stream's shards without this one
	Covered  bool // unfinished leases cover its hash keys
	// JustFinished means that the row was not seen finished for as long yet as a request to create it may be under way: if such
	// a one found no row, it would make it again, and the shard would be read twice.
	JustFinished bool
}

// Decide says whether the row l may be deleted, and why. parents and children are those rows of its parents and children
// that exist. It is pure; what it is given may be old, as long as it was true at some time since l was finished (see the
// package comment). (KCL: LeaseCleanupManager.cleanupLease, which deletes rows whose children it could not find, too)
func Decide(l leases.Lease, parents, children []leases.Lease, known Known) Verdict {
	switch {
	case !l.Finished():
		return Verdict{Reason: Unfinished}
	case len(parents) > 0:
		return Verdict{Reason: ParentRemains, About: parents[0].Shard()}
	}
	v := decideCompleted(childIDs(l, known), children)
	switch {
	case v.Delete:
	case !known.Gone:
		return v
	case !known.Covered:
		return Verdict{Reason: Uncovered}
	default:
		v = Verdict{Delete: true, Reason: Garbage}
	}
	if known.JustFinished {
		return Verdict{Reason: JustFinished}
	}
	return v
}

func decideCompleted(ids []string, children []leases.Lease) Verdict {
	if len(ids) == 0 {
		return Verdict{Reason: ChildrenUnknown}
	}
	for _, id := range ids {
		i := slices.IndexFunc(children, func(c leases.Lease) bool { return c.Shard() == id })
		if i < 0 {
			return Verdict{Reason: ChildMissing, About: id}
		}
		if !begun(children[i]) {
			return Verdict{Reason: ChildNotBegun, About: id}
		}
	}
	return Verdict{Delete: true, Reason: Completed}
}

// childIDs are the ids of a shard's children. Those in its row were written after rows of all of them existed.
func childIDs(l leases.Lease, known Known) []string {
	if len(l.ChildShardIDs) > 0 {
		return l.ChildShardIDs
	}
	return known.ChildIDs
}

// begun reports whether a shard's lease does not need those of its parents any more. At TRIM_HORIZON and AT_TIMESTAMP it may
// still wait for them. At LATEST it never waits, but its place is settled only if the row says which time that means.
// (KCL: LATEST counts in any case)
func begun(l leases.Lease) bool {
	if l.Checkpoint == checkpoint.Latest {
		return l.StartAtMillis != 0
	}
	return l.Finished() || !l.Checkpoint.IsSentinel() && !l.Checkpoint.IsZero()
}
