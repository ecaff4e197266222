package processor

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
func reachable() []phase {
	all := []phase{{}}
	for i := 0; i < len(all); i++ {
		for e := range event(events) {
			if p, _ := next(all[i], e); !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// The phases by what they mean. Those of ShuttingDown and Done, in which nothing is decided any more, are made below.
var (
	waiting   = phase{}
	starting  = phase{State: Initializing}
	retrying  = phase{State: Initializing, began: true}
	running   = phase{State: Processing, began: true}
	notifying = phase{State: ShutdownRequested, Reason: Requested, began: true, stopping: true}

	recording         = phase{State: ShuttingDown, Reason: ShardEnd, began: true, last: recordEnd}
	recordingOnce     = phase{State: ShuttingDown, Reason: ShardEnd, began: true, last: recordEnd, stopping: true}
	notifyingEndless  = phase{State: ShutdownRequested, Reason: ShardEnd, began: true, stopping: true}
	ending            = phase{State: ShuttingDown, Reason: ShardEnd, began: true, last: callShardEnded}
	endingOnce        = phase{State: ShuttingDown, Reason: ShardEnd, began: true, last: callShardEnded, stopping: true}
	ended             = phase{State: Done, Reason: ShardEnd, began: true, last: callShardEnded}
	endedWhenStopping = phase{State: Done, Reason: ShardEnd, began: true, last: callShardEnded, stopping: true}
)

func leavingBy(why Reason, last action, began, stopping bool) phase {
	return phase{State: ShuttingDown, Reason: why, last: last, began: began, stopping: stopping}
}

type pair struct {
	from phase
	e    event
}

// changes lists every (phase, event) that changes something; all others must leave the phase as it is.
var changes = map[pair]phase{
	{waiting, alreadyEnded}:  leavingBy(ShardEnd, leave, false, false),
	{waiting, parentsEnded}:  starting,
	{waiting, stopRequested}: leavingBy(Requested, leave, false, true),
	{waiting, aborted}:       leavingBy(Requested, leave, false, true),
	{waiting, leaseLost}:     leavingBy(LeaseLost, leave, false, false),

	{starting, initializeFailed}: retrying,
	{starting, initialized}:      running,
	{starting, stopRequested}:    leavingBy(Requested, leave, false, true),
	{starting, aborted}:          leavingBy(Requested, leave, false, true),
	{starting, leaseLost}:        leavingBy(LeaseLost, leave, false, false),

	{retrying, initialized}:   running,
	{retrying, stopRequested}: leavingBy(Requested, leave, true, true),
	{retrying, aborted}:       leavingBy(Requested, leave, true, true),
	{retrying, leaseLost}:     leavingBy(LeaseLost, callLeaseLost, true, false),

	{running, lastBatchDone}: recording,
	{running, sourceFailed}:  notifying,
	{running, stopRequested}: notifying,
	{running, aborted}:       leavingBy(Requested, callLeaseLost, true, true),
	{running, leaseLost}:     leavingBy(LeaseLost, callLeaseLost, true, false),

	{notifying, notified}:  leavingBy(Requested, leave, true, true),
	{notifying, aborted}:   leavingBy(Requested, callLeaseLost, true, true),
	{notifying, leaseLost}: leavingBy(LeaseLost, callLeaseLost, true, true),

	{recording, endRecorded}:   ending,
	{recording, stopRequested}: recordingOnce,
	{recording, aborted}:       leavingBy(ShardEnd, callLeaseLost, true, true),
	{recording, leaseLost}:     leavingBy(LeaseLost, callLeaseLost, true, false),

	{recordingOnce, endRecorded}: endingOnce,
	{recordingOnce, endFailed}:   notifyingEndless,
	{recordingOnce, aborted}:     leavingBy(ShardEnd, callLeaseLost, true, true),
	{recordingOnce, leaseLost}:   leavingBy(LeaseLost, callLeaseLost, true, true),

	{notifyingEndless, notified}:  leavingBy(ShardEnd, leave, true, true),
	{notifyingEndless, aborted}:   leavingBy(ShardEnd, callLeaseLost, true, true),
	{notifyingEndless, leaseLost}: leavingBy(LeaseLost, callLeaseLost, true, true),

	{ending, shardEnded}:    ended,
	{ending, stopRequested}: endingOnce,
	{ending, aborted}:       leavingBy(ShardEnd, callLeaseLost, true, true),
	{ending, leaseLost}:     leavingBy(LeaseLost, callLeaseLost, true, false),

	{endingOnce, shardEnded}: endedWhenStopping,
	{endingOnce, endFailed}:  leavingBy(ShardEnd, callLeaseLost, true, true),
	{endingOnce, aborted}:    leavingBy(ShardEnd, callLeaseLost, true, true),
	{endingOnce, leaseLost}:  leavingBy(LeaseLost, callLeaseLost, true, true),
}

func TestNext_overAllPhasesAndEvents(t *testing.T) {
	t.Parallel()
	matched := 0
	for _, p := range reachable() {
		for e := range event(events) {
			want, ok := changes[pair{p, e}]
			switch {
			case ok:
				matched++
			case p.leaving() && p.State != Done && e == left:
				want = p
				want.State = Done
			default:
				want = p
			}
			got, do := next(p, e)
			if got != want {
				t.Errorf("next(%+v, %v) = %+v, want %+v", p, e, got, want)
			}
			if do != want.action() {
				t.Errorf("next(%+v, %v) does %v, want %v", p, e, do, want.action())
			}
		}
	}
	if matched != len(changes) {
		t.Errorf("%d of the %d pairs in the table are reachable", matched, len(changes))
	}
}

func TestNext_honoursAStopInEveryPhase(t *testing.T) {
	t.Parallel()
	worst := map[action]event{notify: notified, recordEnd: endFailed, callShardEnded: endFailed, callLeaseLost: left, leave: left}
	for _, p := range reachable() {
		if got, _ := next(p, leaseLost); !got.leaving() {
			t.Errorf("lease lost in %+v leads to %+v, which does not leave", p, got)
		}
		if got, _ := next(p, aborted); !got.leaving() {
			t.Errorf("aborted in %+v leads to %+v, which does not leave", p, got)
		}
		// After a requested stop every step is tried once more at most: whatever it returns, the end comes in four steps.
		asked, do := next(p, stopRequested)
		for range 4 {
			asked, do = next(asked, worst[do])
		}
		if asked.State != Done {
			t.Errorf("stop requested in %+v: still %+v after four steps", p, asked)
		}
	}
}

func TestNext_neverLowersTheReason(t *testing.T) {
	t.Parallel()
	for _, p := range reachable() {
		for e := range event(events) {
			if got, _ := next(p, e); got.Reason < p.Reason {
				t.Errorf("%v turns %+v into %+v: reason %v was replaced by %v", e, p, got, p.Reason, got.Reason)
			}
		}
	}
}

func TestNext_isWhatTheDrawingShows(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for _, p := range reachable() {
		for e := range event(events) {
			if got, _ := next(p, e); got.State != p.State {
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
	for e := range event(events) {
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
	for a := none; a <= leave; a++ {
		if a.String() == "" {
			t.Errorf("action %d has no name", int(a))
		}
	}
}
