package row

var (
	a, b, c  = Slot{Kind: Go, ID: 1}, Slot{Kind: Go, ID: 2}, Slot{Kind: Go, ID: 3}
	twin     = Slot{Kind: Go, ID: 1, Down: true}
	j2, j35  = Slot{Kind: Java2, ID: 5}, Slot{Kind: Java35, ID: 6}
	anewA    = Slot{Kind: Go, ID: 1, NewID: 11}
	backTo2  = Slot{Kind: Go, ID: 1, Becomes: Java2}
	backTo35 = Slot{Kind: Go, ID: 1, Becomes: Java35}
	usual    = Model{Crashes: true, Losses: true, Repeats: true, Distinct: true}
)

// model is one with the usual faults, changed.
func model(name string, positions uint8, procs []Slot, change func(*Model)) *Model {
	m := usual
	m.Label, m.Positions, m.Procs = name, positions, procs
	if change != nil {
		change(&m)
	}
	return &m
}

// Models are the models of the protocol as built: nothing may be broken in them.
func Models() []*Model {
	ab, abc := []Slot{a, b}, []Slot{a, b, c}
	restarts := func(m *Model) { m.Restarts = true }
	calm := func(m *Model) { m.Losses, m.Repeats = false, false }
	back := func(m *Model) { m.Restarts, m.Distinct, m.Repeats = true, false, false }
	timed := func(f func(*Model)) func(*Model) {
		return func(m *Model) { m.Timed, m.Crashes = true, false; f(m) }
	}
	return []*Model{
		model("two workers, restarts, late requests", 1, ab, func(m *Model) { m.Restarts, m.Late = true, true }),
		model("two workers that leave", 0, ab, func(m *Model) { m.Leaves, m.Crashes = true, false }),
		model("two workers, three positions", 2, ab, func(m *Model) { m.Crashes = false }),
		model("two workers, one with a new id", 1, []Slot{anewA, b}, nil),
		model("the shard ends, the row is deleted", 1, ab, func(m *Model) { m.End, m.Cleans, m.Restarts = true, true, true }),
		model("the row is deleted and made anew", 0, ab, func(m *Model) { m.Recreate, m.Late, m.Crashes, m.Losses, m.Repeats = true, true, false, false, false }),
		model("two processes with one id", 1, []Slot{a, twin}, func(m *Model) { m.Restarts, m.Late, m.Twins = true, true, true }),
		model("two processes with one id, and a peer", 0, []Slot{a, b, twin}, func(m *Model) { calm(m); m.Twins = true }),
		model("three workers", 0, abc, calm),
		model("consumers that drain", 0, ab, func(m *Model) { m.Drain, m.Crashes = true, false }),
		model("KCL 2.7 and a worker", 1, []Slot{a, j2}, func(m *Model) { m.Restarts, m.Late = true, true }),
		model("KCL 3.5 and a worker", 1, []Slot{a, j35}, func(m *Model) { m.Restarts, m.Late = true, true }),
		model("KCL 2.7 and two workers", 0, []Slot{a, b, j2}, func(m *Model) { calm(m); m.Restarts = true }),
		model("KCL 3.5 and two workers", 0, []Slot{a, b, j35}, func(m *Model) { calm(m); m.Restarts = true }),
		model("an id that goes back to KCL 2.7", 1, []Slot{backTo2, b}, back),
		model("an id that goes back to KCL 3.5", 1, []Slot{backTo35, b}, back),
		model("time, crashes", 0, ab, timed(func(m *Model) { m.Crashes = true; restarts(m) })),
		model("time, late requests", 0, ab, timed(func(m *Model) { m.Late, m.Repeats = true, false })),
		model("time, suspends", 0, ab, timed(func(m *Model) { m.Suspends, m.Losses, m.Repeats = true, false, false })),
	}
}

// Small is one of them that takes a second or two.
func Small() *Model {
	return model("two workers", 1, []Slot{a, b}, func(m *Model) { m.Crashes, m.Repeats = false, false })
}

// Variant is a model without one guard.
type Variant struct {
	*Model
	// Spare says why nothing breaks without it, as far as the model sees; empty if something does.
	Spare string
}

// Guard is what the variant lacks.
func (v Variant) Guard() string { return v.without.String() }

// Why is Spare.
func (v Variant) Why() string { return v.Spare }

// Variants are the models of the protocol with one guard missing each.
func Variants() []Variant {
	ab := []Slot{a, b}
	free := func(m *Model) {}
	late := func(m *Model) { m.Late, m.Restarts, m.Repeats = true, true, false }
	leaves := func(m *Model) { m.Leaves = true }
	twins := func(m *Model) { m.Twins, m.Restarts = true, true }
	ends := func(m *Model) { m.End, m.Cleans, m.Restarts = true, true, true }
	timed := func(m *Model) { m.Timed, m.Crashes, m.Repeats = true, false, false }
	suspends := func(m *Model) { timed(m); m.Suspends, m.Losses = true, false }
	calm := func(m *Model) { m.Losses, m.Repeats = false, false }
	var all []Variant
	add := func(g guard, positions uint8, procs []Slot, change func(*Model), spare string) {
		m := model("", positions, procs, change)
		m.without = g
		all = append(all, Variant{m, spare})
	}
	add(checkpointsByCounter, 1, []Slot{a, twin}, twins, "")
	add(renewsByCounter, 0, []Slot{a, twin}, twins, "")
	add(releasesByCounter, 0, []Slot{a, twin}, func(m *Model) { twins(m); m.Leaves = true }, "")
	add(completesByCounter, 0, ab, late, "")
	add(takesByCounter, 0, ab, timed, "")
	add(deletesByCounter, 1, ab, func(m *Model) { ends(m); m.Recreate = true }, "")
	add(asksByNonce, 0, ab, late, "")
	add(asksSpeaking, 0, []Slot{a, b, j2}, calm, "")
	add(asksUnended, 1, ab, ends, "")
	add(releasesUnmarked, 0, ab, leaves, "the row is unowned then, and the worker that has asked takes it at its next look")
	add(namesIncarnation, 1, ab, func(m *Model) { m.Recreate, m.Late = true, true }, "")
	add(knowsByNonce, 0, []Slot{a, twin}, twins, "")
	add(knowsOwner, 0, ab, late, "a tenure that has handed over makes no call any more that could take the row for its own")
	add(knowsLaterWrites, 1, ab, free, "")
	add(keepsPosition, 2, ab, free, "")
	add(markNeedsTenure, 0, []Slot{a, b, j2}, func(m *Model) { calm(m); m.Restarts = true }, "a dead mark would only keep others from asking for the row, or taking it, before it is stale")
	add(keepsHandoffTo, 0, ab, free, "")
	add(regainsActual, 0, ab, func(m *Model) { timed(m); m.Crashes, m.Restarts = true, true }, "")
	add(firstRenewal, 0, ab, late, "")
	add(waitsAtFirstSight, 0, ab, timed, "")
	add(watchesCounter, 0, ab, timed, "")
	add(stampsBeforeSending, 0, ab, timed, "")
	add(stampsEarliest, 0, ab, timed, "")
	add(remembersRepetitions, 0, ab, timed, "")
	add(renewsAfterSuspend, 0, ab, suspends, "")
	add(distrustsOldReplies, 0, ab, suspends, "")
	add(drainsBeforeStart, 0, ab, func(m *Model) { m.Drain = true }, "")
	add(handledOnly, 1, ab, free, "")
	return all
}
