package shards

const (
	never  = 9
	middle = 1<<63 - 1
	end    = 1<<64 - 1
)

var (
	split = []Shard{
		{From: 0, To: end, Closed: 1, Gone: never},
		{Parents: []uint8{0}, From: 0, To: middle, Born: 1, Closed: never, Gone: never},
		{Parents: []uint8{0}, From: middle + 1, To: end, Born: 1, Closed: never, Gone: never},
	}
	merge = []Shard{
		{From: 0, To: middle, Closed: 1, Gone: never},
		{From: middle + 1, To: end, Closed: 1, Gone: never},
		{Parents: []uint8{0, 1}, From: 0, To: end, Born: 1, Closed: never, Gone: never},
	}
	both = []Shard{
		{From: 0, To: end, Closed: 1, Gone: never},
		{Parents: []uint8{0}, From: 0, To: middle, Born: 1, Closed: 2, Gone: never},
		{Parents: []uint8{0}, From: middle + 1, To: end, Born: 1, Closed: 2, Gone: never},
		{Parents: []uint8{1, 2}, From: 0, To: end, Born: 2, Closed: never, Gone: never},
	}
	forgotten = []Shard{
		{From: 0, To: end, Closed: 1, Gone: 2},
		{Parents: []uint8{0}, From: 0, To: middle, Born: 1, Closed: never, Gone: never},
		{Parents: []uint8{0}, From: middle + 1, To: end, Born: 1, Closed: never, Gone: never},
	}
)

// Models are the models of the code as built: nothing may be broken in them.
func Models() []*Model {
	return []*Model{
		{Label: "a split; two consumers, leaders and cleaners", Stream: split, Stages: 1, Consumers: 2, Leaders: 2, Cleaners: 2, Named: true},
		{Label: "a split; old listings", Stream: split, Stages: 1, Consumers: 2, Leaders: 2, Cleaners: 1, Named: true, StaleListings: true},
		{Label: "a merge; two consumers and leaders", Stream: merge, Stages: 1, Consumers: 2, Leaders: 2, Cleaners: 1, Named: true},
		{Label: "a merge; two consumers and cleaners, old listings", Stream: merge, Stages: 1, Consumers: 2, Leaders: 1, Cleaners: 2, Named: true, StaleListings: true},
		{Label: "a split and a merge; two consumers and leaders, old listings", Stream: both, Stages: 2, Consumers: 2, Leaders: 2, Cleaners: 1, Named: true, StaleListings: true},
		{Label: "a split and a merge; two cleaners", Stream: both, Stages: 2, Consumers: 2, Leaders: 1, Cleaners: 2, Named: true},
		{Label: "a split, whose parent the service forgets", Stream: forgotten, Stages: 2, Consumers: 2, Leaders: 1, Cleaners: 1, Named: true},
		{Label: "a split and a merge; processes are stopped and go on", Stream: both, Stages: 2, Consumers: 2, Leaders: 1, Cleaners: 1, Named: true, Stopped: true},
		{Label: "a split; two leaders, late requests", Stream: split, Stages: 1, Consumers: 2, Leaders: 2, Cleaners: 1, Named: true, Late: true},
		{Label: "a split and a merge; late requests", Stream: both, Stages: 2, Consumers: 2, Leaders: 1, Cleaners: 1, Named: true, Late: true},
	}
}

// Variant is a model without one guard.
type Variant struct {
	*Model
	Spare string // why nothing breaks without it, as far as the model sees
}

// Guard is what the variant lacks.
func (v Variant) Guard() string { return v.without.String() }

// Why is Spare.
func (v Variant) Why() string { return v.Spare }

func (g guard) String() string { return guardNames[g] }

// Variants are the models with one guard missing each.
func Variants() []Variant {
	without := func(g guard, stream []Shard, stages uint8, leaders int, spare string) Variant {
		return Variant{&Model{Stream: stream, Stages: stages, Consumers: 2, Leaders: leaders, Cleaners: 1, Named: true, without: g}, spare}
	}
	late := without(keepsFinished, split, 1, 1, "")
	late.Late = true
	return []Variant{
		late,
		without(childrenFirst, split, 1, 1, ""),
		without(createsIfAbsent, split, 1, 2, ""),
		without(otherParentFirst, merge, 1, 1, ""),
		without(waitsForBoth, merge, 1, 1, ""),
		without(absentIsNotEnded, merge, 1, 1, "a child's row is made after those of its parents, so a parent without one has been cleaned up"),
		without(keepsUntilChildrenBegin, split, 1, 1, ""),
		without(keepsUntilAllBegin, split, 1, 1, ""),
		without(keepsUntilParentsGo, both, 2, 1, ""),
		without(deletesUnchanged, both, 2, 1, "a row that says SHARD_END is never anything else again, unless it was deleted and made anew"),
		without(decisionsSpoil, both, 2, 2, ""),
		without(endsWithLease, both, 2, 1, ""),
		without(finishesFenced, split, 1, 1, "who writes SHARD_END has read the shard, whether it still holds the lease or not; fencing is the row's model's"),
	}
}
