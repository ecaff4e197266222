package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
)

// Schedule is one simulation: a fleet and what happens to it.
type Schedule struct {
	Seed     uint64
	Lasts    time.Duration // until everything is mended
	Workers  int           // places of the fleet at the start
	Shards   int
	Streams  int // if there are several, each has so many shards and keys
	Keys     int
	Failover time.Duration
	Longer   []bool // places whose processes have twice that FailoverTime
	Strategy string
	Put      time.Duration // between two batches of records
	Handling []Handling    // how the processors of the places checkpoint
	// ControlDelay and IteratorTTL are the services'; see package emulator.
	ControlDelay time.Duration
	IteratorTTL  time.Duration
	Grace        time.Duration // of processes that stop
	Handoff      time.Duration // GracefulHandoffTimeout
	From         From
	// Reading is who reads by fan-out, SubscriptionTTL when subscriptions end; zero if nobody does.
	Reading         Reading
	SubscriptionTTL time.Duration
	// Table: the stream is a DynamoDB table's, which keeps records for Retention; zero: a day.
	Table     bool
	Retention time.Duration
	Faults    []Fault // by time
}

// From is where the application starts in the stream.
type From int

// The positions that config.Config.InitialPosition may have.
const (
	TrimHorizon From = iota
	Latest           // when the first row is made; what was put before may be left out
	AtTimestamp      // shortly before the fleet starts
)

var fromNames = [...]string{"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"}

func (f From) String() string { return fromNames[f] }

// Handling is how a processor checkpoints. Each handles every record.
type Handling int

// The ways in which the API lets a processor checkpoint.
const (
	EachBatch    Handling = iota // Checkpoint at the end of ProcessRecords
	EveryFew                     // CheckpointAt every third record
	TwoPhases                    // Prepare before, Commit after the effects of a batch; Pending is committed by Initialize
	Elsewhere                    // by another goroutine, some time later
	OnlyAtTheEnd                 // in ShutdownRequested and ShardEnded
	Never                        // in ShardEnded alone
	handlings
)

var handlingNames = [handlings]string{"each-batch", "every-few", "two-phases", "elsewhere", "at-the-end", "never"}

func (h Handling) String() string { return handlingNames[h] }

// weight is how often a kind is drawn.
func (k Kind) weight() int {
	switch k {
	case Crash, CrashSameID, Stop, Suspend, Split, Merge:
		return 4
	case CutTable, HangTable, LostReplies, LateRequests, LateReplies, LateThenCut, ScaleOut, ScaleIn, Deploy:
		return 3
	case Drift, Replace, CutStream, HangStream, Outage, ThrottleTable, TableErrors, StaleShards, StaleScans, SlowUser,
		FailingUser, PanickingUser:
		return 2
	case Slow, CutReplies, ThrottleStream, StreamErrors, Strategy:
		return 1
	case CutEvents, SilentEvents, TakenEvents, LostConsumer, Roll, Night, DeleteStream: // placed by hand, see Draw
		return 0
	}
	return 0
}

// Draw makes the schedule of a seed. It lasts for that long before everything is mended; the same arguments make the same one.
func Draw(seed uint64, lasts time.Duration) Schedule {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	pick := func(d ...time.Duration) time.Duration { return d[r.IntN(len(d))] }
	s := Schedule{
		Seed: seed, Lasts: lasts, Streams: 1, Workers: 2 + r.IntN(3), Shards: 2 + r.IntN(3), Keys: 6 + r.IntN(10),
		Failover: pick(2*time.Second, 3*time.Second, 5*time.Second), Strategy: config.LeaseCount,
		Put:          pick(700*time.Millisecond, 1300*time.Millisecond, 2100*time.Millisecond),
		ControlDelay: pick(0, 0, 500*time.Millisecond), IteratorTTL: pick(0, 0, 4*time.Second),
	}
	s.Grace = pick(s.Failover, 3*s.Failover, 8*time.Second)
	s.Handoff = pick(s.Failover*3/2, 4*s.Failover)
	if r.IntN(4) == 0 {
		all := config.AssignmentStrategies()
		s.Strategy = all[r.IntN(len(all))]
	}
	mixed := r.IntN(8) == 0
	for range 8 { // the places that ScaleOut may add included
		s.Longer = append(s.Longer, mixed && r.IntN(2) == 0)
		h := EachBatch
		if r.IntN(2) == 0 {
			h = Handling(r.IntN(int(handlings)))
		}
		s.Handling = append(s.Handling, h)
	}
	var bag []Kind
	for k := range kinds {
		for range Kind(k).weight() {
			bag = append(bag, Kind(k))
		}
	}
	n := max(4, int(lasts/(7*time.Second))) + r.IntN(5)
	for range n {
		s.Faults = append(s.Faults, s.draw(r, bag[r.IntN(len(bag))]))
	}
	switch r.IntN(40) {
	case 0:
		s.Faults = append(s.Faults, Fault{Kind: DeleteStream, At: lasts * 9 / 10, Worker: -1})
	case 1:
		s.Faults = append(s.Faults, Fault{Kind: Night, At: lasts / 2, Worker: -1, Lasts: 25 * time.Hour})
	}
	if several := rand.New(rand.NewPCG(seed, 0x5712ea)); several.IntN(5) == 0 && !s.has(DeleteStream) { // which ends no worker then
		s.Streams = 2 + several.IntN(2)
	}
	// From a source of its own: schedules that are written down somewhere stay as they are. Several streams have a LATEST each.
	if from := rand.New(rand.NewPCG(seed, 0xf503)).IntN(6); from < 2 && s.Streams <= 1 {
		s.From = Latest + From(from)
	}
	s.pushing()
	s.overTable()
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return s
}

// draw makes one fault of a kind.
func (s Schedule) draw(r *rand.Rand, k Kind) Fault {
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(r.Int64N(int64(max(1, high-low))))
	}
	f := Fault{Kind: k, Worker: r.IntN(s.Workers), Pick: r.Uint64()}
	d := s.Failover
	f.At = between(d, s.Lasts-2*d)
	switch k {
	case Crash, CrashSameID:
		f.Lasts = between(0, 3*d)
	case Replace, Stop, Suspend:
		f.Lasts = between(d/2, 4*d)
	case Drift:
		f.Lasts, f.Rate = between(2*d, 10*d), []float64{0.98, 1.02}[r.IntN(2)]
	case Slow:
		f.Lasts, f.Rate = between(2*d, 5*d), 0.3+r.Float64()/2
	case CutTable, HangTable, CutStream, HangStream:
		f.Lasts = between(d/4, 3*d)
	case Outage:
		f.Worker, f.Lasts = -1, between(d/4, 3*d)
	case LostReplies, CutReplies, ThrottleTable, ThrottleStream, TableErrors, StreamErrors, CutEvents, SilentEvents, TakenEvents:
		f.Lasts, f.Part = between(d, 5*d), 0.05+0.6*r.Float64()
	case LateReplies, LateRequests:
		f.Lasts, f.Part, f.Delay = between(d, 5*d), 0.05+0.5*r.Float64(), between(d/10, 2*d)
	case LateThenCut: // late, but not so late that the owner asks again
		f.Lasts, f.Delay = between(3*d/2, 3*d), between(d/16, d/7)
	case StaleShards, StaleScans:
		f.Lasts = between(d, 5*d)
	case SlowUser:
		f.Lasts, f.Delay = between(d, 5*d), between(d/4, 2*d)
	case FailingUser, PanickingUser:
		f.Lasts, f.Part = between(d, 5*d), 0.2+0.6*r.Float64()
	case Split, Merge, Deploy, Strategy, ScaleOut, ScaleIn, LostConsumer, Roll, Night, DeleteStream:
	}
	switch k {
	case LostReplies, CutReplies, ThrottleTable, TableErrors, LateReplies, LateRequests, StaleShards, StaleScans, SlowUser,
		FailingUser, PanickingUser, CutEvents, SilentEvents, TakenEvents:
		if r.IntN(2) == 0 {
			f.Worker = -1
		}
	case Split, Merge, Deploy, Strategy, ScaleOut, ScaleIn, StreamErrors, ThrottleStream, Outage, LostConsumer, Roll, Night, DeleteStream:
		f.Worker = -1
	case Crash, CrashSameID, Replace, Stop, Suspend, Drift, Slow, CutTable, HangTable, LateThenCut, CutStream, HangStream:
	}
	return f
}

// failover is the FailoverTime of processes at a place.
func (s Schedule) failover(place int) time.Duration {
	if s.Longer[place%len(s.Longer)] {
		return 2 * s.Failover
	}
	return s.Failover
}

// longest is the longest FailoverTime of the fleet.
func (s Schedule) longest() time.Duration {
	if slices.Contains(s.Longer, true) {
		return 2 * s.Failover
	}
	return s.Failover
}

// has reports whether a fault of that kind is among the schedule's.
func (s Schedule) has(k Kind) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.Kind == k })
}

// Is reports whether a schedule is of a kind of fleets: of those that read a table's stream ("table"), several streams ("streams"), by fan-out
// ("fan-out"), or that lose records to retention ("trims"). All are of kind "".
func (s Schedule) Is(kind string) bool {
	switch kind {
	case "table":
		return s.Table
	case "streams":
		return s.Streams > 1
	case "fan-out":
		return s.Reading != ByPolling
	case "trims":
		return s.trims()
	}
	return kind == ""
}

// Keep returns the schedule with those of its faults alone, by their index.
func (s Schedule) Keep(faults ...int) Schedule {
	var kept []Fault
	for i, f := range s.Faults {
		if slices.Contains(faults, i) {
			kept = append(kept, f)
		}
	}
	s.Faults = kept
	return s
}

// String is one line about the fleet, and one for each fault.
func (s Schedule) String() string {
	var b strings.Builder
	var how []string
	for i, h := range s.Handling[:s.Workers] {
		text := h.String()
		if s.Longer[i] {
			text += " with twice the FailoverTime"
		}
		how = append(how, text)
	}
	source := fmt.Sprintf("%d streams", s.Streams)
	if s.Table {
		source = "the stream of a table, kept for " + cmp.Or(s.Retention, day).String() + ","
	}
	fmt.Fprintf(&b, "seed %d: %d workers (%s), %s of %d shards, %d keys, records each %v, FailoverTime %v, GracefulHandoffTimeout %v, ShutdownGrace %v, %s, control delay %v, iterator TTL %v, from %s, read %s, subscription TTL %v, mended at %v",
		s.Seed, s.Workers, strings.Join(how, ", "), source, s.Shards, s.Keys, s.Put, s.Failover, s.Handoff, s.Grace, s.Strategy, s.ControlDelay, s.IteratorTTL, s.From, s.Reading, s.SubscriptionTTL, s.Lasts)
	for i, f := range s.Faults {
		fmt.Fprintf(&b, "\n  %2d %s", i, f)
	}
	return b.String()
}
