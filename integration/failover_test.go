//go:build unix

package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator"
)

var (
	failoverKills = flag.Int("failover-kills", 2, "kills of TestFailover")
	failoverLimit = flag.Duration("failover-limit", 0, "how long a take may come after the kill; 0: only print it")
)

// TestFailover_takesWhatAKilledProcessHeld kills one process of a fleet of four with SIGKILL, time and again, and measures at the
// table how long after that each of its leases was taken: from before the signal is sent until the emulator has the take.
func TestFailover_takesWhatAKilledProcessHeld(t *testing.T) {
	t.Parallel()
	const shards, workers = 16, 4
	srv := emulator.New()
	url, stop, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := srv.CreateStream("orders", shards); err != nil {
		t.Fatal(err)
	}
	table := &owners{of: map[string]string{}, changed: make(chan struct{}, 1)}
	defer srv.Observe(table.observe)()
	stalls := watchStalls(t)

	fleet := map[string]*process{}
	var ids []string // in the order of their start
	start := func() {
		id := fmt.Sprint("w", len(ids))
		ids = append(ids, id)
		fleet[id] = startProcess(t, spec{Role: "mute", ID: id, App: "failover", Stream: "orders", Kinesis: url, DynamoDB: url, Failover: failoverTime})
	}
	for range workers {
		start()
	}
	table.await(t, patience, "share of every worker", func(of map[string]string) bool {
		return len(of) == shards && slices.Max(counts(of)) == shards/workers
	})

	var each, last []time.Duration
	for kill := range *failoverKills {
		victim := ids[kill]
		table.await(t, patience, "share of "+victim, func(of map[string]string) bool { return len(held(of, victim)) >= shards/workers })
		pause(t, rand.N(time.Second)) // anywhere between renewals and looks
		stalls.reset()
		lost := held(table.snapshot(), victim)
		at := time.Now()
		fleet[victim].kill()
		took := table.taken(t, victim, at)
		stalled := stalls.longest()
		for key, d := range took {
			switch {
			case *failoverLimit == 0 || d <= *failoverLimit:
			case d-stalled <= *failoverLimit:
				t.Logf("lease %s was taken %v after the kill of %s, but this process was itself not scheduled for %v meanwhile", key, d, victim, stalled)
			default:
				t.Errorf("lease %s was taken %v after the kill of %s, want at most %v; this process was not scheduled for %v at most", key, d, victim, *failoverLimit, stalled)
			}
		}
		all := slices.Sorted(maps.Values(took))
		each, last = append(each, all...), append(last, all[len(all)-1])
		t.Logf("kill %d: %s held %d, taken after %v … %v; longest stall of this process %v",
			kill+1, victim, len(lost), all[0].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), stalled.Round(time.Millisecond))
		start()
	}
	t.Logf("D = %v, %d kills; kill to durable take, each lease: %s", failoverTime, *failoverKills, distribution(each))
	t.Logf("kill to durable take, last lease of each kill: %s", distribution(last))
}

// distribution describes durations, which it sorts.
func distribution(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	sum := time.Duration(0)
	for _, d := range all {
		sum += d
	}
	at := func(q float64) time.Duration {
		return all[max(0, int(math.Ceil(q*float64(len(all))))-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("n %d, min %v, mean %v, p50 %v, p99 %v, max %v",
		len(all), at(0), (sum / time.Duration(len(all))).Round(time.Millisecond), at(0.5), at(0.99), at(1))
}

// owners is who owns each row of the lease table, as the writes that the emulator has accepted tell.
type owners struct {
	changed chan struct{}
	mu      sync.Mutex
	of      map[string]string // by lease key; an asked owner counts until it has handed over
	log     []change
}

// change is a row that got another owner.
type change struct {
	at            time.Time
	key, from, to string
}

// observe is told every request after it was done.
func (o *owners) observe(e emulator.Event) {
	if e.Operation != "UpdateItem" || e.Status != 200 {
		return
	}
	at := e.At.Add(e.Duration)
	var in struct {
		Key map[string]struct{ S string }
	}
	var out struct {
		Attributes map[string]struct{ S string }
	}
	if json.Unmarshal(e.Request, &in) != nil || json.Unmarshal(e.Response, &out) != nil || out.Attributes == nil {
		return
	}
	key, owner := in.Key["leaseKey"].S, out.Attributes["leaseOwner"].S
	if asked := out.Attributes["checkpointOwner"].S; asked != "" {
		owner = asked
	}
	o.mu.Lock()
	if before := o.of[key]; before != owner {
		o.log = append(o.log, change{at: at, key: key, from: before, to: owner})
		o.of[key] = owner
	}
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *owners) snapshot() map[string]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.of)
}

// await waits until the owners are as ok wants them.
func (o *owners) await(t *testing.T, limit time.Duration, what string, ok func(map[string]string) bool) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		of := o.snapshot()
		if ok(of) {
			return
		}
		select {
		case <-o.changed:
		case <-timer.C:
			t.Fatalf("no %s in %v; owners: %v", what, limit, of)
		}
	}
}

// taken waits until a worker that was killed at that time owns nothing, and returns when each of its leases was taken.
func (o *owners) taken(t *testing.T, victim string, killed time.Time) map[string]time.Duration {
	t.Helper()
	o.await(t, patience, "take of all leases of "+victim, func(of map[string]string) bool { return len(held(of, victim)) == 0 })
	o.mu.Lock()
	defer o.mu.Unlock()
	took := map[string]time.Duration{}
	for _, c := range o.log {
		if c.from == victim && c.at.After(killed) {
			took[c.key] = c.at.Sub(killed)
		}
	}
	return took
}

// held are the keys that a worker owns.
func held(of map[string]string, worker string) (keys []string) {
	for key, owner := range of {
		if owner == worker {
			keys = append(keys, key)
		}
	}
	return keys
}

// counts are the numbers of leases of those that own some.
func counts(of map[string]string) []int {
	n := map[string]int{}
	for _, owner := range of {
		n[owner]++
	}
	return slices.Collect(maps.Values(n))
}

// stalls is how late this process is when it wants to run: a machine that stands still for a while delays takes too.
type stalls struct {
	mu    sync.Mutex
	worst time.Duration
}

func watchStalls(t *testing.T) *stalls {
	t.Helper()
	const beat = 10 * time.Millisecond
	s := &stalls{}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			now := time.Now()
			s.mu.Lock()
			s.worst = max(s.worst, now.Sub(last)-beat)
			s.mu.Unlock()
			last = now
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return s
}

func (s *stalls) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worst = 0
}

func (s *stalls) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worst
}
