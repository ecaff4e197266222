package row

import (
	"fmt"
	"strings"

	"github.com/shardlease/shardlease/formal/internal/explore"
)

// Slot is one process of a model.
type Slot struct {
	Kind, ID uint8
	Down     bool  // it does not run at first
	NewID    uint8 // the id with which it may be started anew; 0 if only with the old one
	Becomes  uint8 // the kind that it has after a restart; 0 for the same
}

// Model is one row, some processes, and what may happen to them.
type Model struct {
	Label     string
	Procs     []Slot
	Positions uint8 // checkpoints are 0 to this
	End       bool  // the last of them is SHARD_END

	Crashes, Restarts bool
	Losses            bool // answers get lost
	Repeats           bool // a request without an answer is sent again by the same call
	Late              bool // a request that nobody waits for may land later
	Suspends          bool // machines stop with their clocks
	Leaves            bool // workers stop
	Drain             bool // user code may go on for a while after its lease was lost
	Cleans            bool // ended rows are deleted
	Recreate          bool // somebody deletes the row and somebody makes it anew
	Timed             bool // failover times are counted in ticks; else a row may look stale at any time
	Twins             bool // two Go processes have the same worker id
	Distinct          bool // no worker id is used by Go and Java

	without guard
	facts   *facts
	isGo    [16]bool
	met     func(before Row, request Op, after Row, answer Op)
}

// Initial implements [explore.System]: an unowned row, and processes that start.
func (m *Model) Initial() State {
	m.facts = new(facts)
	s := State{Row: Row{There: 1}}
	for i, slot := range m.Procs {
		s.P[i] = Proc{Kind: slot.Kind, ID: slot.ID}
		if !slot.Down {
			s.P[i].Alive, s.P[i].Starting = 1, 1
		}
		if slot.Kind == Go {
			m.isGo[slot.ID], m.isGo[slot.NewID] = true, true
		}
	}
	m.isGo[0] = false
	return s
}

var doNames = [...]string{
	doLand:            "the request reaches the row",
	doReply:           "gets its answer",
	doGiveUpWaiting:   "waits no more: the answer is lost, or the request still under way",
	doRetry:           "sends the same request again",
	doLandLate:        "an old request of it reaches the row",
	doLoseLate:        "an old request of it is lost",
	doCrash:           "crashes",
	doStart:           "starts with the same id",
	doStartAnew:       "starts with a new id",
	doLook:            "looks at the row",
	doStale:           "has seen the counter stand for the failover time",
	doRegain:          "takes the row of its id at start",
	doRegainComplete:  "completes the hand-off of its id at start",
	doTakeUnowned:     "takes the unowned row",
	doTakeStale:       "takes the stale row",
	doSteal:           "takes the row of an owner that cannot be asked",
	doAsk:             "asks the owner to hand over",
	doFirstRenewal:    "renews what was handed over to it",
	doTakeClaimed:     "takes again what an unanswered take has got",
	doCompleteClaimed: "hands over what it does not act under",
	doForgetClaim:     "forgets its unanswered take",
	doTakeMarked:      "takes the row that it had asked for: its mark is dead",
	doTakeOverdue:     "takes the row that it had asked for: the owner took too long",
	doReleaseGiven:    "releases what was handed over to it, for it is leaving",
	doRenew:           "renews",
	doHandle:          "handles a record",
	doCheckpoint:      "checkpoints",
	doDrain:           "lets its consumer finish",
	doHandOver:        "hands over",
	doLeave:           "begins to leave",
	doRelease:         "releases",
	doExit:            "exits",
	doExpire:          "holds no more: its time has passed",
	doSuspend:         "is suspended",
	doWake:            "wakes up",
	doWakeReread:      "wakes up, finds the row unchanged, and goes on",
	doActOnReading:    "acts because it has read that the row was handed over",
	doEndConsumer:     "the consumer of an earlier tenure ends",
	doJavaTake:        "takes (Java)",
	doJavaRegain:      "renews its own row at start (Java)",
	doJavaRenew:       "renews (Java)",
	doJavaCheckpoint:  "checkpoints (Java)",
	doTick:            "time passes",
	doDelete:          "cleanup sends a deletion",
	doVanish:          "somebody deletes the row",
	doCreate:          "somebody creates the row",
}

// Name says what the model is of.
func (m *Model) Name() string { return m.Label }

// Describe implements [explore.System].
func (m *Model) Describe(step explore.Step, s *State) string {
	who := "world"
	if step.Who != world {
		slot := m.Procs[step.Who]
		who = fmt.Sprintf("%s %c (w%d)", [...]string{"", "Go", "KCL 2.7", "KCL 3.5"}[s.P[step.Who].Kind], 'a'+step.Who, slot.ID)
	}
	what := doNames[step.What]
	if step.Who != world {
		if o := &s.P[step.Who].Op; step.What == doLand && o.State != 0 {
			what += ": " + opNames[o.Kind] + [...]string{"", ", lands", ", finds an earlier one of itself", ", finds the mark", ", fails", ", fails on a twin"}[o.Verdict]
		}
	}
	return fmt.Sprintf("%-14s %-70s %s", who, what, s.Row)
}

// String is the row for people.
func (r Row) String() string {
	if r.There == 0 {
		return "no row"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "owner %d, checkpoint %d", r.Owner, r.Pos)
	if r.TWorker != 0 {
		fmt.Fprintf(&b, ", tenure w%d/%d", r.TWorker, r.TNonce)
	}
	if r.TBehind != 0 {
		b.WriteString(" silent")
	}
	if r.TLeaving != 0 {
		b.WriteString(" leaving")
	}
	if r.CkptOwner != 0 || r.HandoffTo != 0 {
		fmt.Fprintf(&b, ", checkpointOwner %d, handoffTo %d", r.CkptOwner, r.HandoffTo)
	}
	return b.String()
}
