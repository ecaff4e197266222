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

// rowMoves is the drawing: what each write makes of each state. A write that is not listed cannot land on that state: it
// fails its condition, or is never sent.
var rowMoves = map[RowState]map[rowWrite]RowState{
	RowAbsent:  {writeCreate: RowUnowned},
	RowUnowned: {writeTake: RowOwned, writeDelete: RowAbsent},
	RowOwned: {
		writeTake: RowOwned, writeRenew: RowOwned, writeCheckpoint: RowOwned, writeEnd: RowEnded,
		writeAsk: RowHandingOver, writeRelease: RowUnowned, writeDelete: RowAbsent,
	},
	RowHandingOver: {
		writeRenew: RowHandingOver, writeCheckpoint: RowHandingOver, writeEnd: RowEnded,
		writeTake:     RowOwned, // removes the mark
		writeComplete: RowInTransit, writeDelete: RowAbsent,
	},
	RowInTransit: {
		writeTake: RowOwned, writeRenew: RowOwned, // the first renewal removes handoffTo
		writeRelease: RowUnowned, writeDelete: RowAbsent,
	},
	RowEnded: {writeTake: RowEnded, writeRenew: RowEnded, writeComplete: RowEnded, writeRelease: RowEnded, writeDelete: RowAbsent},
}

// nextRow is the state that a write leaves behind, and whether the write can land at all.
func nextRow(s RowState, w rowWrite) (RowState, bool) {
	if next, ok := rowMoves[s][w]; ok {
		return next, true
	}
	return s, false
}
