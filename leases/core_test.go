package leases_test

import (
	"flag"
	"testing"
	"time"
)

// The core of the protocol is pure, or does what its inputs say: View, Plan, the times of a lease, the conditions of the table with what
// a failed one means, the consumer's state machine and the tracker of its checkpoints, EndShard, ParentsEnded and DetermineNewLeases, and
// whether a row may go. So it can also run without a goroutine, under a scheduler that a seed drives: the same seed makes the
// same history, bit for bit, and a second of real time holds hours. What surrounds the core here, loops and messages, is written anew
// and small; package internal/sim runs the real ones.

var (
	coreSchedules = flag.Int("core-schedules", 300, "schedules of TestCore")
	coreSeed      = flag.Uint64("core-seed", 1, "first seed of TestCore")
)

// corePrograms are the table's expressions, taken apart: they are the same in all schedules of a goroutine.
var corePrograms = map[string]*coreProgram{}

func TestCore_keepsEveryPromiseUnderEverySchedule(t *testing.T) { //nolint:paralleltest // it measures, and shares corePrograms
	n := *coreSchedules
	if testing.Short() {
		n = min(n, 50)
	}
	var virtual time.Duration
	writes, began := 0, time.Now()
	for seed := *coreSeed; seed < *coreSeed+uint64(n); seed++ {
		c := newCore(seed, coreWhole, false)
		c.run()
		if c.broken != "" {
			c = newCore(seed, coreWhole, true) // the same again, in writing
			c.run()
			t.Fatalf("seed %d at %v: %s\nreplay: go test ./leases -run TestCore_keeps -core-seed %d -core-schedules 1\n%s",
				seed, c.now, c.broken, seed, c.timeline())
		}
		virtual += c.now
		writes += c.writes
	}
	t.Logf("schedules %d virtual_hours %.1f writes %d real %v", n, virtual.Hours(), writes, time.Since(began).Round(time.Millisecond))
}

func TestCore_repeatsItselfBitForBit(t *testing.T) { //nolint:paralleltest // it shares corePrograms
	seen := map[uint64]uint64{}
	for seed := range uint64(20) {
		var first *core
		for i := range 2 {
			c := newCore(seed, coreWhole, i == 1) // whether it is written down changes nothing
			c.run()
			if first == nil {
				first = c
			}
			if c.hash != first.hash || c.now != first.now || c.writes != first.writes || c.writes == 0 {
				t.Errorf("seed %d: two runs differ: hashes %x and %x, %d and %d writes", seed, first.hash, c.hash, first.writes, c.writes)
			}
		}
		if other, there := seen[first.hash]; there {
			t.Errorf("seeds %d and %d have the same history", other, seed)
		}
		seen[first.hash] = seed
	}
}

// Without one of its guards the protocol breaks, and the core shows how.
func TestCore_findsWhatBreaksWithoutAGuard(t *testing.T) { //nolint:paralleltest // it shares corePrograms
	for _, v := range []struct {
		lacks coreGuard
		name  string
		want  []string // the first letters of what is found
	}{
		{withoutCounters, "writes are conditioned on the counter", []string{"S1", "S2"}},
		{withoutMargin, "an owner stops when its time is over", []string{"O4"}},
		{withoutWaiting, "a shard waits for its parents", []string{"S4"}},
		{withoutChildren, "SHARD_END is written after the children's rows exist", []string{"S5"}},
		{withoutKeeping, "a finished row stays for as long as a request to create it may be under way", []string{"S7"}},
		{withoutHandled, "a checkpoint covers what is handled only", []string{"S3"}},
	} {
		if v.lacks == withoutKeeping && testing.Short() {
			continue // it takes hundreds of schedules
		}
		found := ""
		const most = 3000
		for seed := uint64(1); seed <= most && found == ""; seed++ {
			c := newCore(seed, v.lacks, false)
			c.run()
			if found = c.broken; found != "" {
				t.Logf("without %q: seed %d, at %v: %s", v.name, seed, c.now.Round(time.Millisecond), found)
			}
		}
		ok := false
		for _, w := range v.want {
			ok = ok || len(found) > 2 && found[:2] == w
		}
		if !ok {
			t.Errorf("without %q %d schedules show %q, want one of %q", v.name, most, found, v.want)
		}
	}
}
