package sim

import (
	"fmt"
	"strings"
	"time"
)

// Kind is what may happen to a fleet.
type Kind int

// The kinds of faults, and of things that happen in a fleet's ordinary life.
const (
	Crash          Kind = iota // the process is gone; after Lasts a new one starts with a new id
	CrashSameID                // the same, and the new one has the id of the old
	Replace                    // the process stops as in Stop, a new one starts with its id, and then the old one goes on
	Stop                       // the process stands still as by SIGSTOP, for Lasts
	Suspend                    // the machine stands still, and so does its monotonic clock, for Lasts
	Drift                      // its clock runs at Rate, within what is promised to be safe, for Lasts
	Slow                       // its clock runs at Rate, much too slow: only fencing can help
	CutTable                   // its requests to the table are refused for Lasts
	HangTable                  // its requests to the table hang for Lasts
	CutStream                  // its requests to the stream are refused for Lasts
	HangStream                 // its requests to the stream hang for Lasts
	Outage                     // nobody's requests to the table are served for Lasts
	LostReplies                // a part of the replies of the table is lost, after the request was served, for Lasts
	LateReplies                // a part of the replies of the table comes after Delay
	LateRequests               // a part of the requests to the table is served after Delay, whether or not the client waits
	LateThenCut                // the replies of the table come after Delay, and then nothing reaches it for Lasts
	CutReplies                 // a part of the replies of both services ends in the middle
	ThrottleTable              // a part of the requests to the table is throttled
	ThrottleStream             // a part of the requests to the stream is throttled
	TableErrors                // a part of the requests to the table fails with status 500
	StreamErrors               // a part of the requests to the stream fails with status 500
	StaleShards                // ListShards, or DescribeStream of a table's stream, answers as it did before, for Lasts
	StaleScans                 // listings of the table answer as they did before, for Lasts
	Split                      // a shard is split
	Merge                      // two shards are merged
	Deploy                     // every process is stopped and replaced, one after another
	Strategy                   // the same, and the new ones share leases by another strategy
	ScaleOut                   // a process more
	ScaleIn                    // a process less
	SlowUser                   // ProcessRecords takes Delay, for Lasts
	FailingUser                // a part of the calls of user code fails half way, for Lasts
	PanickingUser              // a part of the calls of user code panics half way, for Lasts
	CutEvents                  // a part of the subscriptions of fan-out is cut within an event
	SilentEvents               // a part of them brings nothing any more
	TakenEvents                // a part of them is refused, or ends, with ResourceInUse
	LostConsumer               // the registration of the fleet's consumer is removed
	Roll                       // all shards of a table's stream end, and one follows each
	Night                      // everybody crashes, and a day and an hour later others start: what was not read is trimmed
	DeleteStream               // the stream is deleted, for good
)

const kinds = int(DeleteStream) + 1

var kindNames = [kinds]string{
	"crash", "crash-same-id", "replace", "stop", "suspend", "drift", "slow", "cut-table", "hang-table", "cut-stream",
	"hang-stream", "outage", "lost-replies", "late-replies", "late-requests", "late-then-cut", "cut-replies", "throttle-table",
	"throttle-stream", "table-errors", "stream-errors", "stale-shards", "stale-scans", "split", "merge", "deploy",
	"strategy", "scale-out", "scale-in", "slow-user", "failing-user", "panicking-user", "cut-events", "silent-events",
	"taken-events", "lost-consumer", "roll", "night", "delete-stream",
}

func (k Kind) String() string { return kindNames[k] }

// Fault is one thing that happens.
type Fault struct {
	Kind   Kind
	At     time.Duration // since the start
	Worker int           // which of the fleet's places it happens to, where that matters; -1: to all
	Lasts  time.Duration
	Delay  time.Duration
	Part   float64 // of requests or calls
	Rate   float64 // of a clock
	Pick   uint64  // decides what else there is to decide, as which shard is split
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8.3fs %-15s", f.At.Seconds(), f.Kind)
	if f.Worker >= 0 {
		fmt.Fprintf(&b, " place %d", f.Worker)
	}
	if f.Lasts > 0 {
		fmt.Fprintf(&b, " for %v", f.Lasts.Round(time.Millisecond))
	}
	if f.Delay > 0 {
		fmt.Fprintf(&b, " by %v", f.Delay.Round(time.Millisecond))
	}
	if f.Part > 0 {
		fmt.Fprintf(&b, " part %.2f", f.Part)
	}
	if f.Rate > 0 {
		fmt.Fprintf(&b, " rate %.3f", f.Rate)
	}
	return b.String()
}
