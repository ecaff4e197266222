package shardlease_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

var (
	chaosSeeds = flag.Int("chaos-seeds", 1, "fleets that TestFleet_losesNothingInChaos plays")
	chaosFirst = flag.Uint64("chaos-first", 1, "seed of the first of them")
	chaosTell  = flag.Duration("chaos-tell", 0, "tell what happened while nobody delivered records of a shard for longer than this; 0: nothing")
)

// chaos is a fleet to which everything happens that can happen to processes and their network, at random.
type chaos struct {
	*fleettest.Fleet
	random  *rand.Rand
	workers []*fleettest.Worker // not yet stopped or killed
	n       int
	handoff time.Duration // GracefulHandoffTimeout of all
	leaving sync.WaitGroup

	mu   sync.Mutex
	last map[string]time.Time // delivery by lease
	gap  time.Duration        // the largest between two deliveries of a lease
	note string               // when and where that was
	log  []happening
	long []pause
}

// happening is something that happened, to one lease or to none in particular.
type happening struct {
	at    time.Time
	lease string
	what  string
}

// pause is a time without a delivery of a lease.
type pause struct {
	lease       string
	from, until time.Time
	by          string // who ended it
}

// slow is the fleet's processor that takes its time.
type slow struct {
	processor.RecordProcessor
	c      *chaos
	worker string
	lease  string
	takes  time.Duration
}

func (s *slow) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	s.c.mu.Lock()
	now := time.Now()
	last, ok := s.c.last[s.lease]
	if ok && now.Sub(last) > s.c.gap {
		s.c.gap, s.c.note = now.Sub(last), fmt.Sprintf("%s until %v by %s", s.lease, now.Format("04:05.000"), s.worker)
	}
	if ok && *chaosTell > 0 && now.Sub(last) > *chaosTell {
		s.c.long = append(s.c.long, pause{s.lease, last, now, s.worker})
	}
	s.c.last[s.lease] = now
	s.c.mu.Unlock()
	if s.takes > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.takes):
		}
	}
	return s.RecordProcessor.ProcessRecords(ctx, in)
}

func (c *chaos) say(format string, args ...any) {
	c.happened("", fmt.Sprintf(format, args...))
}

func (c *chaos) happened(lease, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, happening{time.Now(), lease, what})
}

// observe notes what is written to the rows.
func (c *chaos) observe() {
	c.Server.ObserveItems(func(i emulator.ItemChange) {
		row := i.New
		c.happened(row.Text("leaseKey"), fmt.Sprintf("%s writes %s: %s owner %q, checkpointOwner %q, handoffTo %q, leaving %q",
			i.Client, row.Text("leaseKey"), row.Text("leaseCounter"), row.Text("leaseOwner"), row.Text("checkpointOwner"), row.Text("handoffTo"),
			row.Text("tenure", "leaving")))
	})
}

// tell tells what happened around each long pause.
func (c *chaos) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.long {
		c.T.Logf("for %v nobody delivered records of %s, until %v, by %s:", p.until.Sub(p.from), p.lease, p.until.Format("04:05.000"), p.by)
		for _, h := range c.log {
			if (h.lease == "" || h.lease == p.lease) && h.at.After(p.from.Add(-20*time.Second)) && h.at.Before(p.until.Add(time.Second)) {
				c.T.Log("   ", h.at.Format("04:05.000"), h.what)
			}
		}
	}
}

func (c *chaos) start() {
	id := fmt.Sprint("w", c.n)
	c.n++
	takes := []time.Duration{0, 0, 100 * time.Millisecond, time.Second}[c.random.IntN(4)]
	c.say("start %s: takes %v", id, takes)
	of := c.Audit.Processor(id)
	c.workers = append(c.workers, c.StartWith(id, func(s processor.Shard) processor.RecordProcessor {
		return &slow{RecordProcessor: of(s), c: c, worker: id, lease: s.LeaseKey, takes: takes}
	}, func(cfg *config.Config) {
		cfg.LeaseManagement.GracefulHandoffTimeout = c.handoff
		if *chaosTell > 0 {
			cfg.Hooks = &config.Hooks{WorkerLooked: func(e config.LookEvent) {
				c.say("%s looked: %d workers, holds %d of %d, err %v", e.Worker, e.Workers, e.Held, e.Target, e.Err)
			}}
		}
	}))
}

// pick removes a random worker from those that go on.
func (c *chaos) pick() *fleettest.Worker {
	i := c.random.IntN(len(c.workers))
	w := c.workers[i]
	c.workers = append(c.workers[:i:i], c.workers[i+1:]...)
	return w
}

// step makes one thing happen.
func (c *chaos) step() {
	some := func() time.Duration { return time.Duration(1 + c.random.Int64N(int64(5*time.Second))) }
	switch x := c.random.IntN(100); {
	case len(c.workers) < 2 || x < 25 && len(c.workers) < 6:
		c.start()
	case x < 45:
		w := c.pick()
		c.say("stop %s", w.ID)
		c.leaving.Go(func() { _ = w.Stop() })
		if c.random.IntN(4) == 0 {
			time.Sleep(some())
			c.say("kill %s", w.ID)
			w.Kill()
		}
	case x < 55:
		w := c.pick()
		c.say("kill %s", w.ID)
		w.Kill()
	case x < 70:
		w, d := c.workers[c.random.IntN(len(c.workers))], some()*time.Duration(1+c.random.IntN(3))
		c.say("cut %s off for %v", w.ID, d)
		w.CutOff()
		time.Sleep(d)
		w.Reconnect()
	default:
		operation := []string{"UpdateItem", "GetItem", "Scan", ""}[c.random.IntN(4)]
		effect, name := emulator.DropReply(), "drop replies"
		if c.random.IntN(2) == 0 {
			effect, name = emulator.DelayReply(some()), "delay replies"
		}
		d := some()
		c.say("%s of %s for %v", name, operation, d)
		stop := c.Server.Inject(emulator.Rule{
			Service: "dynamodb", Operation: operation, Probability: 0.3, Seed: c.random.Uint64(), Effect: effect,
		})
		time.Sleep(d)
		stop()
	}
}

func TestFleet_losesNothingInChaos(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	for i := range *chaosSeeds {
		seed := *chaosFirst + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &chaos{Fleet: fleettest.New(t, 6), random: rand.New(rand.NewPCG(seed, 0)), last: map[string]time.Time{}}
				c.handoff = []time.Duration{0, 5 * time.Second, 200 * time.Millisecond}[c.random.IntN(3)]
				if *chaosTell > 0 {
					c.observe()
				}
				c.start()
				c.start()
				stop := c.Load(200 * time.Millisecond)
				for began := time.Now(); time.Since(began) < 3*time.Minute; {
					time.Sleep(time.Duration(c.random.Int64N(int64(4 * time.Second))))
					c.step()
				}
				for len(c.workers) < 2 {
					c.start()
				}
				c.say("calm")
				time.Sleep(40 * time.Second)
				stop()
				c.WaitDelivered(20 * time.Second)
				duplicates := c.Check()
				for key, row := range c.Rows() {
					if row["checkpointOwner"] != nil || row["handoffTo"] != nil {
						t.Errorf("row %s is still being handed over: %v", key, row)
					}
				}
				overlaps := c.Audit.Overlaps()
				t.Logf("%d records, %d duplicates, %d overlaps, %d workers; longest pause of a shard %v: %s",
					c.Produced(), duplicates, overlaps, c.n, c.gap, c.note)
				// The pause is for people: in these fleets one worker after the other may die with the same lease.
				if overlaps > 0 || t.Failed() {
					t.Errorf("%d batches were given to a worker after its successor had begun, want 0", overlaps)
					for _, h := range c.log {
						t.Log(h.at.Format("04:05.000"), h.what)
					}
				}
				c.tell()
				for len(c.workers) > 0 {
					w := c.pick()
					c.leaving.Go(func() {
						if err := w.Stop(); err != nil {
							t.Errorf("stop worker %s: %v", w.ID, err)
						}
					})
				}
				c.leaving.Wait()
			})
		})
	}
}
