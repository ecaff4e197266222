package shards

// guard is something that the design needs; see the package row.
type guard uint8

const (
	nothing guard = iota
	childrenFirst
	createsIfAbsent
	otherParentFirst
	waitsForBoth
	absentIsNotEnded
	keepsUntilChildrenBegin
	keepsUntilAllBegin
	keepsUntilParentsGo
	deletesUnchanged
	decisionsSpoil
	endsWithLease
	finishesFenced
	keepsFinished
)

var guardNames = [...]string{
	nothing:                 "",
	childrenFirst:           "SHARD_END is written after the children's rows exist",
	createsIfAbsent:         "a row is created only if there is none",
	otherParentFirst:        "after a merge a row of the other parent exists before the child's",
	waitsForBoth:            "a shard waits for both parents",
	absentIsNotEnded:        "a parent without a row has not ended by that alone",
	keepsUntilChildrenBegin: "a row stays until its children have begun",
	keepsUntilAllBegin:      "a row stays until all of its children have begun",
	keepsUntilParentsGo:     "a row stays until those of its parents are gone",
	deletesUnchanged:        "a deletion is conditioned on the row as it was read",
	decisionsSpoil:          "a decision to create rows is good for some seconds",
	endsWithLease:           "what a consumer does ends with its lease",
	keepsFinished:           "a finished row stays for as long as a late request to create it may come",
	finishesFenced:          "SHARD_END is written under the tenure that has read the shard",
}
