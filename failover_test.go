package shardlease_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/coordinator"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
)

var (
	failoverSeeds = flag.Int("failover-seeds", 5, "fleets of TestFailover, in virtual time")
	failoverSeed  = flag.Uint64("failover-seed", 0, "the first of their seeds")
)

// Bounds of the time from a worker's death to the takes of its leases, over its FailoverTime.
const (
	failoverP99 = 1.5
	failoverMax = 1.6
)

// deaths are those of one kind.
type deaths struct {
	mu      sync.Mutex
	each    []float64 // death to take of each lease, over FailoverTime
	last    []float64 // of the last lease of each worker
	leaders []float64 // of the leases of those who had been the leader
}

func (d *deaths) add(took []float64, leader bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.each, d.last = append(d.each, took...), append(d.last, slices.Max(took))
	if leader {
		d.leaders = append(d.leaders, took...)
	}
}

func (d *deaths) judge(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s; death to take over FailoverTime, each lease: %s", what, spread(d.each))
	t.Logf("%s; the last lease of each death: %s", what, spread(d.last))
	t.Logf("%s; leases of those who had been the leader: %s", what, spread(d.leaders))
	p99, worst := quantile(d.each, 0.99), quantile(d.each, 1)
	if few := len(d.each) < 1000; p99 > failoverP99 && !few || worst > failoverMax { // of a few, 99 of 100 is the worst
		t.Errorf("%s: death to take is %.3f at p99 and %.3f at most, over FailoverTime; want %v and %v", what, p99, worst, failoverP99, failoverMax)
	}
}

// Of four workers with default settings two come to an end, one after the other, at random moments: the first crashes, so that it
// sends nothing any more and gives nothing up; the second loses its way to the table alone, and must have stopped before others
// begin. Which of them leads makes no difference.
func TestFailover_takesWhatDeadAndSeveredWorkersHeldInTime(t *testing.T) { //nolint:tparallel // what the group adds up is judged after it
	t.Parallel()
	seeds := *failoverSeeds
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	var dead, severed deaths
	t.Run("fleets", func(t *testing.T) {
		const lanes = 2
		for lane := range lanes {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				for i := lane; i < seeds; i += lanes {
					synctest.Test(t, func(t *testing.T) { //nolint:paralleltest // the lane is
						f := startDoomed(t, *failoverSeed+uint64(i))
						dead.add(f.end((*fleettest.Worker).Kill))
						f.pause(5 * time.Second)
						severed.add(f.end((*fleettest.Worker).Sever))
					})
				}
			})
		}
	})
	t.Logf("%d fleets", seeds)
	dead.judge(t, "crashed")
	severed.judge(t, "severed from the table")
}

// doomed is a fleet whose workers come to an end.
type doomed struct {
	*fleettest.Fleet
	random *rand.Rand
	seed   uint64
	alive  map[string]*fleettest.Worker

	mu     sync.Mutex
	victim *fleettest.Worker    // who comes to an end
	taken  map[string]time.Time // when another worker took a lease of the victim's
	story  []string             // looks, takes and failures, for a report
}

// startDoomed starts a fleet and returns when it is at rest.
func startDoomed(t *testing.T, seed uint64) *doomed {
	t.Helper()
	const workers, shards = 4, 40
	d := &doomed{
		Fleet: fleettest.New(t, shards), random: rand.New(rand.NewPCG(seed, 0)), seed: seed, alive: map[string]*fleettest.Worker{},
	}
	d.Server.Inject(emulator.Rule{Effect: emulator.Delay(5 * time.Millisecond)}) // the way to the service
	for i := range workers {
		id := fmt.Sprint("w", i)
		d.alive[id] = d.Start(id, func(c *config.Config) {
			c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = 30*time.Second, time.Minute // records are not the point here
			c.Hooks = &config.Hooks{
				LeaseTaken:   func(e config.LeaseEvent) { d.tell("%+v", e); d.note(e) },
				WorkerLooked: func(e config.LookEvent) { d.tell("%+v", e) },
				Retried:      func(e config.RetryEvent) { d.tell("%+v", e) },
			}
		})
		d.pause(2 * time.Second)
	}
	time.Sleep(10 * time.Second)
	d.pause(5 * time.Second)
	return d
}

// note is told each take. Whoever held the lease before must have stopped by then: its contexts have ended.
func (d *doomed) note(e config.LeaseEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.victim == nil || e.From != d.victim.ID || e.Worker == e.From {
		return
	}
	d.taken[e.LeaseKey] = time.Now()
	if slices.ContainsFunc(d.victim.Assignments(), func(a shardlease.Assignment) bool { return a.LeaseKey == e.LeaseKey }) {
		d.T.Errorf("seed %d: worker %s took lease %s while worker %s was still using it", d.seed, e.Worker, e.LeaseKey, e.From)
	}
}

// tell adds to the story.
func (d *doomed) tell(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.story = append(d.story, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// pause waits for a random part of at most.
func (d *doomed) pause(at time.Duration) { time.Sleep(time.Duration(d.random.Float64() * float64(at))) }

// end ends a random worker in the way given. It returns how long each of its leases was then without an owner that lives, over
// FailoverTime, and whether it was the leader.
func (d *doomed) end(how func(*fleettest.Worker)) (took []float64, leader bool) {
	d.T.Helper()
	ids := slices.Sorted(maps.Keys(d.alive))
	id := ids[d.random.IntN(len(ids))]
	chosen, _ := coordinator.LeaderOf(ids)
	victim := d.alive[id]
	delete(d.alive, id)
	held := victim.Assignments()
	if len(held) == 0 {
		d.T.Fatalf("seed %d: worker %s holds nothing", d.seed, id)
	}
	d.mu.Lock()
	d.victim, d.taken = victim, map[string]time.Time{}
	d.mu.Unlock()
	const failoverTime = 10 * time.Second
	died := time.Now()
	how(victim)
	for !d.hasTaken(held) && time.Since(died) < 3*failoverTime {
		time.Sleep(50 * time.Millisecond)
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range held {
		at, ok := d.taken[a.LeaseKey]
		if !ok {
			row, _ := json.Marshal(d.Rows()[a.LeaseKey]) // it is shown to people
			d.T.Errorf("seed %d: lease %s of worker %s, which died at %v, was not taken in %v; its row %s; what happened:\n%s", d.seed, a.LeaseKey,
				id, died.Format("04:05.000"), 3*failoverTime, row, strings.Join(d.story, "\n"))
			at = time.Now()
		}
		took = append(took, at.Sub(died).Seconds()/failoverTime.Seconds())
	}
	if worst := slices.Max(took); worst > failoverP99 {
		d.T.Logf("seed %d: the last of %d leases of worker %s was taken after %.3f FailoverTimes", d.seed, len(held), id, worst)
	}
	return took, id == chosen
}

// hasTaken reports whether others have all of these leases. One more may have come to them: the victim had handed it over and its new
// owner had not renewed it yet.
func (d *doomed) hasTaken(held []shardlease.Assignment) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range held {
		if _, ok := d.taken[a.LeaseKey]; !ok {
			return false
		}
	}
	return true
}

// When the leader is dead and nobody has noticed, a shard ends, its children start, and what the leader held is taken: nothing waits
// for the next leader.
func TestFailover_waitsForNoLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 6)
		ids := []string{"a", "b", "c"}
		fleet := map[string]*fleettest.Worker{}
		for _, id := range ids {
			fleet[id] = f.Start(id)
		}
		time.Sleep(30 * time.Second)
		f.PutEverywhere()
		f.WaitDelivered(5 * time.Second)
		leader, _ := coordinator.LeaderOf(ids)
		follower := ids[(slices.Index(ids, leader)+1)%len(ids)]
		parent := fleet[follower].Assignments()[0].ShardID
		before := f.Open()
		fleet[leader].Kill()
		died := time.Now()
		f.Split(parent)
		f.PutEverywhere()
		for _, child := range f.Open() {
			if slices.Contains(before, child) {
				continue
			}
			for time.Since(died) < 10*time.Second {
				if _, ok := f.Audit.FirstOf(child); ok {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Logf("child %s read %v after the leader's death and its parent's end", child, time.Since(died))
			if took := time.Since(died); took > 3*time.Second {
				t.Errorf("shard %s was read %v after it began, with the leader dead, want at most 3s", child, took)
			}
		}
		f.WaitDelivered(20 * time.Second)
		if took := time.Since(died); took > 16*time.Second {
			t.Errorf("the dead leader's shards were read after %v, want at most 16s", took)
		}
		f.Check()
	})
}

// quantile returns the smallest of some numbers that at least a share q of them does not exceed. It sorts them.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
}

func spread(all []float64) string {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return fmt.Sprintf("n %d, min %.3f, mean %.3f, p50 %.3f, p99 %.3f, max %.3f",
		len(all), quantile(all, 0), sum/float64(max(1, len(all))), quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1))
}
