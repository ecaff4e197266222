package states

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/internal/mermaid"
)

// reachable returns every phase that some sequence of events leads to.
func reachable() []Phase {
	all := []Phase{{}}
	for i := 0; i < len(all); i++ {
		for e := range Event(Events) {
			if p, _ := Next(all[i], e); !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// The phases by what they mean. Those of ShuttingDown and Done, in which nothing is decided any more, are made below.
var (
	waiting   = Phase{}
	starting  = Phase{State: Initializing}
	retrying  = Phase{State: Initializing, Began: true}
	running   = Phase{State: Processing, Began: true}
	notifying = Phase{State: ShutdownRequested, Reason: Requested, Began: true, Stopping: true}

	recording         = Phase{State: ShuttingDown, Reason: ShardEnd, Began: true, last: RecordEnd}
	recordingOnce     = Phase{State: ShuttingDown, Reason: ShardEnd, Began: true, last: RecordEnd, Stopping: true}
	notifyingEndless  = Phase{State: ShutdownRequested, Reason: ShardEnd, Began: true, Stopping: true}
	ending            = Phase{State: ShuttingDown, Reason: ShardEnd, Began: true, last: CallShardEnded}
	endingOnce        = Phase{State: ShuttingDown, Reason: ShardEnd, Began: true, last: CallShardEnded, Stopping: true}
	ended             = Phase{State: Done, Reason: ShardEnd, Began: true, last: CallShardEnded}
	endedWhenStopping = Phase{State: Done, Reason: ShardEnd, Began: true, last: CallShardEnded, Stopping: true}
)

func leavingBy(why Reason, last Action, began, stopping bool) Phase {
	return Phase{State: ShuttingDown, Reason: why, last: last, Began: began, Stopping: stopping}
}

type pair struct {
	from Phase
	e    Event
}

// changes lists every (phase, event) that changes something; all others must leave the phase as it is.
var changes = map[pair]Phase{
	{waiting, AlreadyEnded}:  leavingBy(ShardEnd, Leave, false, false),
	{waiting, ParentsEnded}:  starting,
	{waiting, StopRequested}: leavingBy(Requested, Leave, false, true),
	{waiting, Aborted}:       leavingBy(Requested, Leave, false, true),
	{waiting, LeaseIsLost}:   leavingBy(LeaseLost, Leave, false, false),

	{starting, InitializeFailed}: retrying,
	{starting, Initialized}:      running,
	{starting, StopRequested}:    leavingBy(Requested, Leave, false, true),
	{starting, Aborted}:          leavingBy(Requested, Leave, false, true),
	{starting, LeaseIsLost}:      leavingBy(LeaseLost, Leave, false, false),

	{retrying, Initialized}:   running,
	{retrying, StopRequested}: leavingBy(Requested, Leave, true, true),
	{retrying, Aborted}:       leavingBy(Requested, Leave, true, true),
	{retrying, LeaseIsLost}:   leavingBy(LeaseLost, CallLeaseLost, true, false),

	{running, LastBatchDone}: recording,
	{running, SourceFailed}:  notifying,
	{running, StopRequested}: notifying,
	{running, Aborted}:       leavingBy(Requested, CallLeaseLost, true, true),
	{running, LeaseIsLost}:   leavingBy(LeaseLost, CallLeaseLost, true, false),

	{notifying, Notified}:    leavingBy(Requested, Leave, true, true),
	{notifying, Aborted}:     leavingBy(Requested, CallLeaseLost, true, true),
	{notifying, LeaseIsLost}: leavingBy(LeaseLost, CallLeaseLost, true, true),

	{recording, EndRecorded}:   ending,
	{recording, StopRequested}: recordingOnce,
	{recording, Aborted}:       leavingBy(ShardEnd, CallLeaseLost, true, true),
	{recording, LeaseIsLost}:   leavingBy(LeaseLost, CallLeaseLost, true, false),

	{recordingOnce, EndRecorded}: endingOnce,
	{recordingOnce, EndFailed}:   notifyingEndless,
	{recordingOnce, Aborted}:     leavingBy(ShardEnd, CallLeaseLost, true, true),
	{recordingOnce, LeaseIsLost}: leavingBy(LeaseLost, CallLeaseLost, true, true),

	{notifyingEndless, Notified}:    leavingBy(ShardEnd, Leave, true, true),
	{notifyingEndless, Aborted}:     leavingBy(ShardEnd, CallLeaseLost, true, true),
	{notifyingEndless, LeaseIsLost}: leavingBy(LeaseLost, CallLeaseLost, true, true),

	{ending, ShardEnded}:    ended,
	{ending, StopRequested}: endingOnce,
	{ending, Aborted}:       leavingBy(ShardEnd, CallLeaseLost, true, true),
	{ending, LeaseIsLost}:   leavingBy(LeaseLost, CallLeaseLost, true, false),

	{endingOnce, ShardEnded}:  endedWhenStopping,
	{endingOnce, EndFailed}:   leavingBy(ShardEnd, CallLeaseLost, true, true),
	{endingOnce, Aborted}:     leavingBy(ShardEnd, CallLeaseLost, true, true),
	{endingOnce, LeaseIsLost}: leavingBy(LeaseLost, CallLeaseLost, true, true),
}

func TestNext_overAllPhasesAndEvents(t *testing.T) {
	t.Parallel()
	matched := 0
	for _, p := range reachable() {
		for e := range Event(Events) {
			want, ok := changes[pair{p, e}]
			switch {
			case ok:
				matched++
			case p.Leaving() && p.State != Done && e == Left:
				want = p
				want.State = Done
			default:
				want = p
			}
			got, do := Next(p, e)
			if got != want {
				t.Errorf("next(%+v, %v) = %+v, want %+v", p, e, got, want)
			}
			if do != want.Action() {
				t.Errorf("next(%+v, %v) does %v, want %v", p, e, do, want.Action())
			}
		}
	}
	if matched != len(changes) {
		t.Errorf("%d of the %d pairs in the table are reachable", matched, len(changes))
	}
}

func TestNext_honoursAStopInEveryPhase(t *testing.T) {
	t.Parallel()
	worst := map[Action]Event{Notify: Notified, RecordEnd: EndFailed, CallShardEnded: EndFailed, CallLeaseLost: Left, Leave: Left}
	for _, p := range reachable() {
		if got, _ := Next(p, LeaseIsLost); !got.Leaving() {
			t.Errorf("lease lost in %+v leads to %+v, which does not leave", p, got)
		}
		if got, _ := Next(p, Aborted); !got.Leaving() {
			t.Errorf("aborted in %+v leads to %+v, which does not leave", p, got)
		}
		// After a requested stop every step is tried once more at most: whatever it returns, the end comes in four steps.
		asked, do := Next(p, StopRequested)
		for range 4 {
			asked, do = Next(asked, worst[do])
		}
		if asked.State != Done {
			t.Errorf("stop requested in %+v: still %+v after four steps", p, asked)
		}
	}
}

func TestNext_neverLowersTheReason(t *testing.T) {
	t.Parallel()
	for _, p := range reachable() {
		for e := range Event(Events) {
			if got, _ := Next(p, e); got.Reason < p.Reason {
				t.Errorf("%v turns %+v into %+v: reason %v was replaced by %v", e, p, got, p.Reason, got.Reason)
			}
		}
	}
}

func TestNext_isWhatTheDrawingShows(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../processor/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for _, p := range reachable() {
		for e := range Event(Events) {
			if got, _ := Next(p, e); got.State != p.State {
				code = append(code, fmt.Sprintf("%v --> %v: %v", p.State, got.State, e))
			}
		}
	}
	var drawn []string
	for _, e := range mermaid.Edges(string(doc), "shard consumer") {
		drawn = append(drawn, fmt.Sprintf("%s --> %s: %s", e.From, e.To, e.Label))
	}
	slices.Sort(code)
	slices.Sort(drawn)
	if d := cmp.Diff(slices.Compact(code), drawn); d != "" {
		t.Errorf("doc.go and next differ (-code +drawing):\n%s", d)
	}
}

func TestNames_existForEveryValue(t *testing.T) {
	t.Parallel()
	for e := range Event(Events) {
		if e.String() == "" {
			t.Errorf("event %d has no name", int(e))
		}
	}
	for s := WaitingOnParents; s <= Done; s++ {
		if strings.HasPrefix(s.String(), "State(") {
			t.Errorf("state %d has no name", int(s))
		}
	}
	if got, want := State(17).String()+" "+Reason(9).String()+" "+Reason(0).String(), "State(17) Reason(9) none"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for a := None; a <= Leave; a++ {
		if a.String() == "" {
			t.Errorf("action %d has no name", int(a))
		}
	}
}
