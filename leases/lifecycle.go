package leases

// RowState is where one row of the lease table stands between its creation and its deletion. docs/lease-lifecycle.md draws
// the states; [nextRow] is the drawing as a function.
type RowState int

// The states of a row.
const (
	RowAbsent      RowState = iota // there is no row
	RowUnowned                     // nobody reads the shard: created, released, or evicted
	RowOwned                       // leaseOwner owns
	RowHandingOver                 // a live mark: checkpointOwner owns, and is asked to hand over to leaseOwner
	RowInTransit                   // handed over; leaseOwner owns, and does nothing before its first renewal
	RowEnded                       // the shard was read to its end, whoever owns the row
)

var rowStateNames = [...]string{"absent", "unowned", "owned", "handing over", "in transit", "ended"}

func (s RowState) String() string { return rowStateNames[s] }

// State tells where the row stands. What a Java worker's take leaves behind of a hand-off does not count (see MarkIsLive).
func (l Lease) State() RowState {
	switch {
	case l.Key == "":
		return RowAbsent
	case l.Finished():
		return RowEnded
	case l.ActualOwner() == "":
		return RowUnowned
	case l.MarkIsLive():
		return RowHandingOver
	case l.InTransit():
		return RowInTransit
	}
	return RowOwned
}

// rowWrite is a kind of write on a row.
type rowWrite int

const (
	writeCreate     rowWrite = iota
	writeTake                // also a regain, and a take of a stale row
	writeRenew               // by the actual owner
	writeCheckpoint          // by the actual owner, at a place before the end
	writeEnd                 // by the actual owner: the checkpoint SHARD_END
	writeAsk                 // StartHandoff
	writeComplete            // CompleteHandoff, by the actual owner
	writeRelease             // Evict, by the actual owner
	writeDelete              // of an ended row, or of one whose shard is gone from the stream
)

var rowWriteNames = [...]string{"create", "take", "renew", "checkpoint", "end", "ask", "complete", "release", "delete"}

func (w rowWrite) String() string { return rowWriteNames[w] }

// nextRow is the state that a write leaves behind, and whether the write can land at all: one that cannot fails its
// condition, or is never sent.
func nextRow(s RowState, w rowWrite) (RowState, bool) {
	switch s {
	case RowAbsent:
		if w == writeCreate {
			return RowUnowned, true
		}
	case RowUnowned:
		switch w {
		case writeTake:
			return RowOwned, true
		case writeDelete:
			return RowAbsent, true
		}
	case RowOwned:
		switch w {
		case writeTake, writeRenew, writeCheckpoint:
			return RowOwned, true
		case writeEnd:
			return RowEnded, true
		case writeAsk:
			return RowHandingOver, true
		case writeRelease:
			return RowUnowned, true
		case writeDelete:
			return RowAbsent, true
		}
	case RowHandingOver:
		switch w {
		case writeTake: // removes the mark
			return RowOwned, true
		case writeRenew, writeCheckpoint:
			return RowHandingOver, true
		case writeEnd:
			return RowEnded, true
		case writeComplete:
			return RowInTransit, true
		case writeDelete:
			return RowAbsent, true
		}
	case RowInTransit:
		switch w {
		case writeTake, writeRenew: // the first renewal removes handoffTo
			return RowOwned, true
		case writeRelease:
			return RowUnowned, true
		case writeDelete:
			return RowAbsent, true
		}
	case RowEnded:
		switch w {
		case writeTake, writeRenew, writeComplete, writeRelease:
			return RowEnded, true
		case writeDelete:
			return RowAbsent, true
		}
	}
	return s, false
}
