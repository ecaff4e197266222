package shardlease_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

var (
	stuckSeeds = flag.Int("stuck-seeds", 1, "fleets for each state of TestHandoff_resolvesEveryStateInWhichItCouldHang")
	stuckFirst = flag.Uint64("stuck-first", 1, "seed of the first of them")
)

// The settings of these fleets are the defaults.
const (
	stuckFailover = 10 * time.Second
	stuckHandoff  = 30 * time.Second // GracefulHandoffTimeout
	// nobodyDelivers is how long a shard may stand still when no worker is left that would deliver.
	nobodyDelivers = stuckFailover * 3 / 2
	// asAnyCrash is that where nobody is left who reads the row more often than each look shows it: up to 1.1 LeaseTakerInterval
	// pass before others see a dead owner's last write, from which its time counts; and then the new owner's first batch.
	asAnyCrash = stuckFailover + stuckFailover*55/100 + stuckFailover/20
	// oneTake is what comes after GracefulHandoffTimeout: the asker's next reading, its take, and the first batch.
	oneTake = 2 * time.Second
)

// handoffState is something that befalls a hand-off, and for how long nobody may deliver records of the shard then.
type handoffState struct {
	name    string
	workers int                // before the one who asks
	before  func(s *inHandoff) // what is so from the start; nil: nothing
	late    float64            // at most, from the ask to what befalls the hand-off, in hand-offs
	befall  func(s *inHandoff)
	within  time.Duration
	fenced  bool // the owner lives, and the lease is taken by its counter: it may be given a batch more until its next write
}

// KCL's hand-offs were seen to hang for ever: the new owner skips the lease, the old one renews it, the shard is silent
// (amazon-kinesis-client #1718, #1729, #1743, #1765). Here each state in which one could hang is brought about at a random
// moment, and the longest time is measured for which nobody delivers records of the shard.
func TestHandoff_resolvesEveryStateInWhichItCouldHang(t *testing.T) {
	t.Parallel()
	for i, c := range slices.Concat(whatBecomesOfTheTwo, whatTheProcessorDoes, whatJavaWrites) {
		if testing.Short() && i%5 != 0 { // under the race detector
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var all []float64
			for i := range *stuckSeeds {
				seed := *stuckFirst + uint64(i)
				synctest.Test(t, func(t *testing.T) { //nolint:paralleltest // the state is
					s := startHandoff(t, seed, c)
					began := time.Since(s.asked)
					c.befall(s)
					s.settled(c)
					d, by := s.silence.Longest()
					limit := c.within
					if s.over {
						limit = max(limit, asAnyCrash)
					}
					if all = append(all, d.Seconds()); d > limit {
						t.Errorf("seed %d: for %v nobody delivered records of the shard, then %s did; %s %v after the ask; want at most %v",
							seed, d, by, c.name, began, limit)
					}
				})
			}
			t.Logf("%s: seconds without a delivery, at most %v: %s", c.name, c.within, spread(all))
		})
	}
}

var whatBecomesOfTheTwo = []handoffState{
	{name: "the owner dies", workers: 1, late: 1, befall: func(s *inHandoff) { s.owner.Kill() }, within: nobodyDelivers},
	{name: "the owner dies and there are others", workers: 3, late: 1, befall: func(s *inHandoff) { s.owner.Kill() }, within: nobodyDelivers},
	{name: "the asker dies", workers: 1, late: 1, befall: func(s *inHandoff) { s.asker.Kill() }, within: nobodyDelivers},
	{name: "the asker dies and there are others", workers: 3, late: 1, befall: func(s *inHandoff) { s.asker.Kill() }, within: nobodyDelivers},
	{name: "both die", workers: 2, late: 1, befall: func(s *inHandoff) { s.owner.Kill(); s.asker.Kill() }, within: asAnyCrash},
	{name: "both die and there are others", workers: 4, late: 1, befall: func(s *inHandoff) { s.owner.Kill(); s.asker.Kill() }, within: asAnyCrash},
	{name: "the asker dies, and then the owner", workers: 2, late: 0.3, befall: func(s *inHandoff) {
		s.asker.Kill()
		s.pause(s.takes)
		s.owner.Kill()
		s.watch(s.key)
	}, within: asAnyCrash},
	{name: "the owner is restarted with its id", workers: 1, late: 1, befall: func(s *inHandoff) {
		s.owner.Kill()
		s.pause(stuckFailover / 2)
		s.StartAs("owner again", s.owner.ID)
	}, within: nobodyDelivers},
	{name: "the asker is restarted with its id", workers: 1, late: 1, befall: func(s *inHandoff) {
		s.asker.Kill()
		s.pause(stuckFailover / 2)
		s.StartAs("asker again", s.asker.ID)
	}, within: nobodyDelivers},
	{name: "both are restarted with their ids", workers: 1, late: 1, befall: func(s *inHandoff) {
		s.owner.Kill()
		s.asker.Kill()
		s.pause(stuckFailover / 2)
		s.StartAs("asker again", s.asker.ID)
		s.pause(stuckFailover / 5)
		s.StartAs("owner again", s.owner.ID)
	}, within: nobodyDelivers},
	{name: "the owner is cut off from the table", workers: 2, late: 1, befall: func(s *inHandoff) {
		s.owner.Sever()
		time.Sleep(2 * stuckFailover)
		s.owner.Reconnect()
	}, within: nobodyDelivers},
	{name: "the asker is cut off from the table", workers: 2, late: 1, befall: func(s *inHandoff) {
		s.asker.Sever()
		time.Sleep(2 * stuckFailover)
		s.asker.Reconnect()
	}, within: nobodyDelivers},
	{name: "the owner stops", workers: 2, late: 1, befall: func(s *inHandoff) { s.stop(s.owner) }, within: nobodyDelivers},
	{name: "the asker stops", workers: 2, late: 1, befall: func(s *inHandoff) { s.stop(s.asker) }, within: nobodyDelivers},
	{name: "both stop", workers: 3, late: 1, befall: func(s *inHandoff) {
		var group sync.WaitGroup
		group.Go(func() { s.stop(s.owner) })
		group.Go(func() { s.stop(s.asker) })
		group.Wait()
	}, within: nobodyDelivers},
	{name: "the shard ends", workers: 1, late: 1, befall: func(s *inHandoff) { s.watch(s.split()) }, within: nobodyDelivers},
	{name: "the shard ends and the owner dies", workers: 1, late: 1, befall: func(s *inHandoff) {
		s.watch(s.split())
		s.pause(time.Second)
		s.owner.Kill()
	}, within: asAnyCrash + oneTake}, // the parent's lease is taken, then read to its end, and then the child's
	{name: "the shard ends and the asker dies", workers: 1, late: 1, befall: func(s *inHandoff) {
		s.watch(s.split())
		s.pause(time.Second)
		s.asker.Kill()
	}, within: nobodyDelivers + oneTake},
}

// inHandoff is a fleet in which asker, which has just started, has asked owner for the lease key.
type inHandoff struct {
	*fleettest.Fleet
	random       *rand.Rand
	owner, asker *fleettest.Worker
	others       []*fleettest.Worker
	key          string
	takes        time.Duration // a hand-off in which nothing goes wrong
	asked        time.Time
	over         bool               // the hand-off was over before anything befell it
	silence      *fleettest.Silence // since it was asked for, or since watch
	manners      *manners
}

// startHandoff starts workers at a stream that has one shard more, and a further worker. It returns when that has asked one of the
// others for a lease, and up to c.late has passed.
func startHandoff(t *testing.T, seed uint64, c handoffState) *inHandoff {
	t.Helper()
	s := &inHandoff{
		Fleet: fleettest.New(t, c.workers+1), random: rand.New(rand.NewPCG(seed, 103)),
		manners: &manners{release: make(chan struct{})},
	}
	if s.takes = 1200 * time.Millisecond; s.random.IntN(2) == 0 {
		s.takes, s.manners.seldom = 4500*time.Millisecond, true
	}
	stop := s.Load(200 * time.Millisecond)
	t.Cleanup(func() { close(s.manners.release); stop() })
	for i := range c.workers {
		s.others = append(s.others, s.worker(fmt.Sprint("w", i)))
		s.pause(3 * time.Second)
	}
	time.Sleep(2 * stuckFailover)
	s.pause(stuckFailover)
	if c.before != nil {
		s.manners.mu.Lock()
		c.before(s)
		s.manners.mu.Unlock()
	}
	s.asker = s.worker("asker")
	for deadline := time.Now().Add(2 * stuckFailover); s.key == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("seed %d: the last worker has asked for nothing in %v", seed, 2*stuckFailover)
		}
		for key, row := range s.Rows() {
			if owner := textOf(row, "checkpointOwner"); owner != "" && textOf(row, "leaseOwner") == "asker" {
				i := slices.IndexFunc(s.others, func(w *fleettest.Worker) bool { return w.ID == owner })
				s.key, s.owner = key, s.others[i]
				s.others = slices.Delete(s.others, i, i+1)
			}
		}
	}
	s.asked = time.Now()
	s.watch(s.key)
	s.pause(time.Duration(c.late * float64(s.takes)))
	s.over = textOf(s.Rows()[s.key], "handoffTo") == ""
	return s
}

func textOf(row map[string]types.AttributeValue, name string) string {
	if v, ok := row[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

// worker starts a worker with the fleet's usual processor, and the fleet's manners.
func (s *inHandoff) worker(id string) *fleettest.Worker {
	usual := s.Audit.Processor(id)
	return s.StartWith(id, func(shard processor.Shard) processor.RecordProcessor {
		return &mannered{RecordProcessor: usual(shard), m: s.manners, f: s.Fleet, worker: id, asker: id == "asker"}
	})
}

// pause waits for a random part of at most.
func (s *inHandoff) pause(most time.Duration) {
	time.Sleep(time.Duration(s.random.Float64() * float64(most)))
}

// watch measures from now on, and that lease.
func (s *inHandoff) watch(lease string) { s.silence = s.Audit.Watch(lease) }

func (s *inHandoff) stop(w *fleettest.Worker) {
	s.T.Helper()
	if err := w.Stop(); err != nil {
		s.T.Errorf("stop worker %s: %v", w.ID, err)
	}
}

// split splits the shard, and returns the child into which the records go that would have gone into it.
func (s *inHandoff) split() (child string) {
	s.T.Helper()
	var start string
	for _, shard := range s.OpenShards() {
		if *shard.ShardId == s.key {
			start = *shard.HashKeyRange.StartingHashKey
		}
	}
	s.Split(s.key)
	for _, shard := range s.OpenShards() {
		if *shard.HashKeyRange.StartingHashKey == start {
			child = *shard.ShardId
		}
	}
	return child
}

// settled waits, and checks that everything is as it should be then.
func (s *inHandoff) settled(c handoffState) {
	s.T.Helper()
	time.Sleep(c.within + stuckFailover/2)
	var last string
	for range 15 { // another hand-off may be under way, for balance
		last = ""
		for key, row := range s.Rows() {
			if row["handoffTo"] != nil || row["checkpointOwner"] != nil || row["leaseOwner"] == nil {
				last = fmt.Sprintf("row %s is stuck: leaseOwner %q, checkpointOwner %q, handoffTo %q", key,
					textOf(row, "leaseOwner"), textOf(row, "checkpointOwner"), textOf(row, "handoffTo"))
			}
		}
		if last == "" {
			break
		}
		time.Sleep(stuckFailover / 10)
	}
	if last != "" {
		s.T.Error(last)
	}
	if n := s.Audit.Overlaps(); n != 0 && !c.fenced {
		s.T.Errorf("%d batches were given to a worker after its successor had begun, want 0", n)
	}
}

// manners is how the processors behave.
type manners struct {
	release chan struct{} // closed when the test ends
	// seldom says that batches are not checkpointed: then an owner learns that it is asked by its next renewal.
	seldom bool

	mu         sync.Mutex
	shutdown   func(ctx context.Context, release <-chan struct{}) // in ShutdownRequested, if not nil
	process    func(ctx context.Context, release <-chan struct{}) // in ProcessRecords
	initialise func(ctx context.Context, release <-chan struct{}) // in the asker's Initialize, which fails then
}
