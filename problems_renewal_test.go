package shardlease_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// A table that refuses or does not answer some writes costs no lease, no restart of a processor, and no record that comes twice.
func TestFleet_losesNoLeaseOverATableThatFailsSomeWrites(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]emulator.Rule{
		"a fifth lands and is not answered": {Probability: 0.2, Seed: 1, Effect: emulator.DropReply()},
		"a fifth fails":                     {Probability: 0.2, Seed: 2, Effect: emulator.Fail(500, "InternalServerError", "no")},
		"a third is throttled":              {Probability: 0.33, Seed: 3, Effect: emulator.Throttle()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const shards = 10
				f := fleettest.New(t, shards)
				var lost, made atomic.Int64
				usual := f.Audit.Processor("w")
				f.StartWith("w", func(s processor.Shard) processor.RecordProcessor { made.Add(1); return usual(s) }, func(c *config.Config) {
					c.Retrieval.MaxIdleTime = 20 * time.Second
					c.Hooks = &config.Hooks{LeaseLost: func(config.LeaseEvent) { lost.Add(1) }}
				})
				time.Sleep(10 * time.Second)
				rule.Operation = "UpdateItem"
				mend := f.Server.Inject(rule)
				before := counters(f)
				rounds := fleettest.Shorter(30, 12)
				for range rounds {
					f.PutEverywhere()
					time.Sleep(10 * time.Second)
				}
				for key, n := range counters(f) {
					if n < before[key]+2*rounds {
						t.Errorf("the counter of %s went from %d to %d in %d rounds of 10s", key, before[key], n, rounds)
					}
				}
				mend()
				f.WaitDelivered(25 * time.Second)
				if d := f.Check(); lost.Load() != 0 || made.Load() != shards || d != 0 {
					t.Errorf("%d leases lost, %d processors for %d shards, %d duplicates; want none lost, one each and none", lost.Load(), made.Load(), shards, d)
				}
			})
		})
	}
}

// All writes are throttled for one and a half failover times, at 20 random moments: each time every shard is read again within two
// of them, and what workers believe is what the table says.
func TestFleet_readsEverythingAgainAfterItsTableRefusedAllWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const failover = 10 * time.Second
		f := fleettest.New(t, 4)
		random := rand.New(rand.NewPCG(3, 0))
		a, b := f.Start("a"), f.Start("b")
		time.Sleep(20 * time.Second)
		for n := range 20 {
			time.Sleep(time.Duration(random.Int64N(int64(failover))))
			var mend []func()
			for _, operation := range []string{"UpdateItem", "PutItem", "DeleteItem"} {
				mend = append(mend, f.Server.Inject(emulator.Rule{Operation: operation, Effect: emulator.Throttle()}))
			}
			time.Sleep(failover * 3 / 2)
			for _, f := range mend {
				f()
			}
			f.PutEverywhere()
			mended := time.Now()
			f.WaitDelivered(2 * failover)
			for !everyOwnerKnows(f, a, b) && time.Since(mended) < 2*failover {
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(mended); took >= 2*failover {
				t.Fatalf("round %d: not everything has an owner that knows it and is read, %v after the table works", n, took)
			}
		}
		t.Logf("%d of %d records came twice, %d overlaps", f.Check(), f.Produced(), f.Audit.Overlaps())
		if n := f.Audit.Overlaps(); n != 0 {
			t.Errorf("%d batches were given to a worker that had lost its lease", n)
		}
	})
}

// With the shortest failover time one worker is cut off from the table again and again: no batch comes to it under a lease that the
// other one has begun to use.
func TestFleet_hasOneOwnerOfAShardAlsoWithAFailoverTimeOfHalfASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		quick := func(c *config.Config) { c.LeaseManagement.FailoverTime = 500 * time.Millisecond }
		workers := []*fleettest.Worker{f.Start("a", quick), f.Start("b", quick)}
		time.Sleep(5 * time.Second)
		stop := f.Load(50 * time.Millisecond)
		random := rand.New(rand.NewPCG(5, 0))
		for n := range 20 {
			time.Sleep(time.Second + time.Duration(random.Int64N(int64(time.Second))))
			w := workers[n%2]
			w.Sever()
			time.Sleep(time.Second)
			w.Reconnect()
		}
		time.Sleep(2 * time.Second)
		stop()
		f.WaitDelivered(5 * time.Second)
		moves := len(f.Audit.Moves())
		if d, n := f.Check(), f.Audit.Overlaps(); n != 0 || moves < 10 {
			t.Errorf("%d overlaps in %d moves, want none in 10 at least; %d duplicates", n, moves, d)
		}
	})
}

// One request is never answered. It is given up in time: the worker gets ready, reads everything, and loses no lease.
func TestRun_givesUpARequestThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second // of requests to Kinesis
	for _, c := range []struct {
		operation string
		running   bool          // the worker runs already
		limit     time.Duration // until everything is read
	}{
		{"DescribeTable", false, time.Minute},
		{"CreateTable", false, time.Minute},
		{"Scan", false, time.Minute},
		{"ListShards", false, time.Minute},
		{"PutItem", false, time.Minute},
		{"UpdateItem", false, time.Minute},
		{"GetShardIterator", false, 2 * timeout},
		{"GetRecords", false, 2 * timeout},
		{"GetRecords", true, 2 * timeout},
		{"UpdateItem", true, 10 * time.Second},
		{"Scan", true, 2 * time.Second},
		{"ListShards", true, 2 * time.Second},
	} {
		t.Run(fmt.Sprintf("%s, running %v", c.operation, c.running), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 4)
				var lost atomic.Int64
				hang := func() (stuck *atomic.Int64) {
					stuck = new(atomic.Int64)
					thaw := f.Server.Inject(emulator.Rule{Client: "w", Operation: c.operation, Times: 1, Effect: emulator.Freeze(), Match: func([]byte) bool { stuck.Add(1); return true }})
					t.Cleanup(thaw)
					return stuck
				}
				var met *atomic.Int64
				if !c.running {
					met = hang()
				}
				f.PutEverywhere()
				w := f.Start("w", keepRows, func(cfg *config.Config) {
					cfg.Retrieval.RequestTimeout = timeout
					cfg.Hooks = &config.Hooks{LeaseLost: func(config.LeaseEvent) { lost.Add(1) }}
				})
				if c.running {
					f.WaitDelivered(10 * time.Second)
					met = hang()
					if c.operation == "ListShards" {
						f.Split(f.Open()[0])
					}
					f.PutEverywhere()
				}
				took := f.WaitDelivered(c.limit)
				select {
				case <-w.Ready():
				default:
					t.Errorf("the worker is not ready, %v later", took)
				}
				if c.running || !testing.Short() {
					time.Sleep(3 * time.Minute) // looks, and audits, come only now and then
				}
				f.PutEverywhere()
				f.WaitDelivered(2 * time.Second)
				f.Check()
				t.Logf("everything was read after %v", took)
				if lost.Load() != 0 || met.Load() == 0 && c.operation != "ListShards" {
					t.Errorf("%d leases were lost, %d requests met the fault", lost.Load(), met.Load())
				}
			})
		})
	}
}

// loud counts lines of the log from WARN on.
type loud struct {
	slog.Handler
	lines *atomic.Int64
}

func (l loud) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l loud) Handle(context.Context, slog.Record) error        { l.lines.Add(1); return nil }
func (l loud) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l loud) WithGroup(string) slog.Handler                    { return l }
func countingLines(n *atomic.Int64) func(*config.Config) {
	return func(c *config.Config) { c.Logger = slog.New(loud{lines: n}) }
}

// The way to the table is cut for five failover times for all workers, and the owner of everything restarts 20 times: each shard has
// one reader within two failover times, and the log stays readable.
func TestFleet_hasOneReaderOfEachShardAfterACutAndAfterEachOf20Restarts(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]emulator.Effect{"refused": emulator.Refuse(), "not answered": emulator.Freeze()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const failover = 10 * time.Second
				f := fleettest.New(t, 2)
				var lines atomic.Int64
				fleet := []*fleettest.Worker{f.Start("a", countingLines(&lines)), f.Start("b", countingLines(&lines)), f.Start("c", countingLines(&lines))}
				time.Sleep(20 * time.Second)
				f.PutEverywhere()
				mend := f.Server.Inject(emulator.Rule{Service: emulator.DynamoDB, Effect: cut})
				time.Sleep(5 * failover)
				mend()
				one := func(what string) {
					t.Helper()
					began := time.Now()
					f.PutEverywhere()
					f.WaitDelivered(2 * failover)
					for !everyOwnerKnows(f, fleet...) && time.Since(began) < 2*failover {
						time.Sleep(100 * time.Millisecond)
					}
					if !everyOwnerKnows(f, fleet...) {
						t.Errorf("%s: no shard has exactly one reader two failover times later", what)
					}
				}
				one("after the cut")
				if n := lines.Load(); n > 120 {
					t.Errorf("%d lines of log from WARN on in a cut of 50s, of 3 workers, want at most 40 each", n)
				}
				t.Logf("%d lines of log from WARN on", lines.Load())
				for n := range fleettest.Shorter(20, 5) {
					owner := 0
					for i, w := range fleet {
						if len(w.Assignments()) > 0 {
							owner = i
						}
					}
					if err := fleet[owner].Stop(); err != nil {
						t.Errorf("stop %d: %v", n, err)
					}
					fleet[owner] = f.Start(fleet[owner].ID)
					one(fmt.Sprint("after restart ", n))
				}
				if n := f.Audit.Overlaps(); n != 0 {
					t.Errorf("%d overlaps", n)
				}
				f.Check()
			})
		})
	}
}
