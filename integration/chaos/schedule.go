//go:build unix

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// kind is something that happens.
type kind string

const (
	killed      kind = "kill -9"
	frozen      kind = "freeze"                       // SIGSTOP past the lease, then SIGCONT
	restarted   kind = "graceful stop, same id again" // SIGTERM
	replaced    kind = "graceful stop, new id"        // SIGTERM
	partitioned kind = "partition"                    // nothing comes through, either way
	slow        kind = "latency"                      // of each reply
	late        kind = "late requests"                // they arrive when their lease has ended
	narrow      kind = "bandwidth"                    // of requests and replies
	reset       kind = "connection resets"            // of all connections, time and again
	lossy       kind = "lost replies"                 // requests are done and not answered
	tableDown   kind = "table restart (kill -9)"      // dynalite
	streamDown  kind = "stream restart (SIGTERM)"     // kinesis-local
	split       kind = "split"
	merge       kind = "merge"
	jump        kind = "clock jump" // of one process's wall clock, and back
)

var everyKind = []kind{
	killed, frozen, restarted, replaced, partitioned, slow, late, narrow, reset, lossy, tableDown, streamDown, split, merge, jump,
}

// replyDelay is what a slow link adds to each reply.
const replyDelay = 2 * time.Second

// everywhere is the place of a fault that befalls all places.
const everywhere = -1

// fault is one thing that happens, from At until At+For, when it is undone.
type fault struct {
	Kind    kind
	At, For time.Duration
	Place   int           // of the fleet; everywhere for all, and for what befalls servers and shards
	Servers []service     // that a network fault is between
	SameID  bool          // a killed worker comes back under its own id
	Early   bool          // a replacement is started before its predecessor is stopped
	Part    float64       // of the replies that are lost
	Hang    bool          // a lost reply is silence; else its connection is closed
	Rate    int64         // KB/s
	Delay   time.Duration // of late requests
	Rank    float64       // which shard, among the open ones
	Shift   time.Duration
}

func (f fault) until() time.Duration { return f.At + f.For }

// away tells whether the fault takes its place out of the fleet.
func (f fault) away() bool {
	switch f.Kind {
	case killed, frozen, restarted, replaced, partitioned:
		return true
	case slow, late, narrow, reset, lossy, tableDown, streamDown, split, merge, jump:
	}
	return false
}

func (f fault) servers() string {
	if len(f.Servers) == 1 {
		return string(f.Servers[0])
	}
	return "both servers"
}

// String is a line of the schedule.
func (f fault) String() string {
	where := fmt.Sprintf("place %d", f.Place)
	if f.Place == everywhere {
		where = "all places"
	}
	text := fmt.Sprintf("%8.2fs  %s", f.At.Seconds(), f.Kind)
	lasts := fmt.Sprintf("for %.2fs", f.For.Seconds())
	switch f.Kind {
	case killed:
		return fmt.Sprintf("%s of %s, back after %.2fs %s", text, where, f.For.Seconds(), map[bool]string{true: "with its id", false: "with a new id"}[f.SameID])
	case frozen:
		return fmt.Sprintf("%s of %s %s", text, where, lasts)
	case restarted, replaced:
		if f.Early {
			return fmt.Sprintf("%s of %s, %.2fs after the next was started", text, where, f.For.Seconds())
		}
		return fmt.Sprintf("%s of %s, the next is started %.2fs later", text, where, f.For.Seconds())
	case partitioned, reset:
		return fmt.Sprintf("%s between %s and %s %s", text, where, f.servers(), lasts)
	case slow:
		return fmt.Sprintf("%s of %v between %s and %s %s", text, replyDelay, where, f.servers(), lasts)
	case late:
		return fmt.Sprintf("%s, by %.2fs, between %s and %s %s", text, f.Delay.Seconds(), where, f.servers(), lasts)
	case narrow:
		return fmt.Sprintf("%s of %d KB/s between %s and %s %s", text, f.Rate, where, f.servers(), lasts)
	case lossy:
		return fmt.Sprintf("%s, %.0f %% (%s), between %s and %s %s", text, 100*f.Part, map[bool]string{true: "silence", false: "closed"}[f.Hang], where, f.servers(), lasts)
	case tableDown, streamDown:
		return fmt.Sprintf("%s, down %s", text, lasts)
	case split, merge:
		return fmt.Sprintf("%s, shard at %.2f of the open ones", text, f.Rank)
	case jump:
		return fmt.Sprintf("%s of %s by %+v %s", text, where, f.Shift, lasts)
	}
	return text
}

// restartsOutOf: the stream is restarted in each third round of faults. On a busy machine kinesis-local needs a long time for it,
// in which no record is put or read.
const restartsOutOf = 3

// plan draws the faults of a run from its seed, in the order of time. They begin every so often, and all are over when the
// run is. Every kind comes once before any comes again (but for
// the stream's restart). One place at least is always there, so that there is somebody to take over.
func plan(seed uint64, lasts, failover time.Duration, places int) []fault {
	const often = 3 * time.Second // between two faults, on average
	random := rand.New(rand.NewPCG(seed, 1))
	between := func(low, high time.Duration) time.Duration { return low + rand64(random, high-low) }
	var all []fault
	var bag []kind
	bags := 0
	for at := between(0, often); ; at += between(often/2, often*3/2) {
		if len(bag) == 0 {
			bag = slices.Clone(everyKind)
			if bags%restartsOutOf != 0 {
				bag = slices.DeleteFunc(bag, func(k kind) bool { return k == streamDown })
			}
			bags++
			random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		if lasts-at < shortest {
			break
		}
		// What has no room now, beside what is planned, or before the end, waits for the next time.
		f, fits := find(random, bag[0], at, all, lasts, failover, places)
		if !fits {
			bag = append(bag[1:], bag[0])
			continue
		}
		bag = bag[1:]
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.At, b.At) })
	return all
}

// find draws a fault of that kind at that time until one fits.
func find(random *rand.Rand, k kind, at time.Duration, planned []fault, lasts, failover time.Duration, places int) (f fault, fits bool) {
	for range 8 {
		f = draw(random, k, failover)
		f.At, f.For = at, min(f.For, lasts-at)
		f.Place = f.choose(random, planned, places)
		if f.For >= leastFor(k, failover) && f.Place != nowhere && !slices.ContainsFunc(planned, f.clashes) {
			return f, true
		}
	}
	return fault{}, false
}

// shortest is what the shortest fault needs.
const shortest = time.Second

// leastFor is below what a fault of that kind is none.
func leastFor(k kind, failover time.Duration) time.Duration {
	switch k {
	case frozen:
		return failover * 6 / 5 // past the lease
	case partitioned, slow, late, narrow, reset, lossy, jump:
		return shortest
	case killed, restarted, replaced, tableDown, streamDown, split, merge:
	}
	return 0
}

// draw draws everything but time and place.
func draw(random *rand.Rand, k kind, failover time.Duration) fault {
	f := fault{Kind: k, Servers: []service{table, stream}, Rank: random.Float64(), SameID: random.IntN(2) == 0, Early: random.IntN(2) == 0, Hang: random.IntN(3) == 0}
	between := func(low, high time.Duration) time.Duration { return low + rand64(random, high-low) }
	if n := random.IntN(4); n < len(f.Servers) {
		f.Servers = f.Servers[n : n+1]
	}
	f.Part = 0.1 + 0.5*random.Float64()
	f.Delay = between(failover, failover*3/2)
	f.Rate = 2 + random.Int64N(30)
	f.Shift = []time.Duration{time.Hour, -time.Hour, 5 * time.Minute, -time.Minute}[random.IntN(4)]
	switch k {
	case killed:
		f.For = between(failover/10, failover*3/2)
	case frozen:
		f.For = between(failover*5/4, failover*2)
	case restarted:
		f.For, f.Early = between(0, failover/2), false
	case replaced:
		f.For = between(0, failover)
	case tableDown, streamDown:
		f.For = between(shortest/5, 2*shortest)
	case partitioned, slow, late, narrow, lossy, jump:
		f.For = between(failover/2, failover*2)
	case reset:
		f.For = between(shortest, failover)
	case split, merge:
	}
	return f
}

// nowhere is no place.
const nowhere = -2

// choose finds a place for a fault, beside those that are planned already.
func (f fault) choose(random *rand.Rand, planned []fault, places int) int {
	switch f.Kind {
	case tableDown, streamDown, split, merge:
		return everywhere
	case slow, late, narrow, reset, lossy:
		if random.IntN(4) == 0 {
			return everywhere
		}
		return random.IntN(places)
	case jump:
		return random.IntN(places)
	case killed, frozen, restarted, replaced, partitioned:
	}
	busy := map[int]bool{}
	for _, other := range planned {
		// A place gets time to start again before it is the next one's turn.
		if other.away() && f.At < other.until()+shortest && other.At < f.until()+shortest {
			busy[other.Place] = true
		}
	}
	if len(busy)+1 >= places {
		return nowhere
	}
	place := random.IntN(places - len(busy))
	for p := range places {
		if busy[p] {
			continue
		}
		if place == 0 {
			return p
		}
		place--
	}
	return nowhere
}

// clashes tells whether f would be laid over another fault of the same link that is no better for it: toxiproxy keeps count of the
// toxics of a connection only if they come one after the other, and a part of replies replaces another.
func (f fault) clashes(other fault) bool {
	toxic := func(f fault) bool { return len(toxics(f)) > 0 }
	if (!toxic(f) || !toxic(other)) && (f.Kind != lossy || other.Kind != lossy) && (f.Kind != jump || other.Kind != jump) {
		return false
	}
	if f.Place != other.Place && f.Place != everywhere && other.Place != everywhere {
		return false
	}
	if f.Kind != jump && !slices.ContainsFunc(f.Servers, func(s service) bool { return slices.Contains(other.Servers, s) }) {
		return false
	}
	return f.At < other.until()+shortest && other.At < f.until()+shortest
}

// rand64 draws evenly from [0, d), 0 if d is not positive.
func rand64(random *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(random.Int64N(int64(d)))
}
