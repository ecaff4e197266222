package shardlease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// overTable runs a test over the stream of a table, in virtual time.
func overTable(t *testing.T, run func(t *testing.T, f *fleettest.TableFleet), opts ...emulator.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.NewOfTable(t, opts...)
		run(t, f)
	})
}

// A fleet of three reads a table's stream whose shards roll every three minutes, split now and then and leave the retention of nine
// minutes, while requests are throttled, refused, and lost with their replies, processors are slow, and workers are killed, stopped and
// started. -chaos-seeds and -chaos-first play others.
func TestDynamoStreams_aFleetOfThreeLosesNothingAndKeepsTheOrderOfEachItem(t *testing.T) {
	t.Parallel()
	for seed := range uint64(fleettest.Shorter(*chaosSeeds, 1)) {
		seed += *chaosFirst
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
				tableChaos(t, f, rand.New(rand.NewPCG(seed, 0)), fleettest.Shorter(12, 6))
			}, emulator.WithTableStreamShards(3), emulator.WithTableStreamShardLife(3*time.Minute), emulator.WithTableStreamRetention(9*time.Minute))
		})
	}
}

func tableChaos(t *testing.T, f *fleettest.TableFleet, random *rand.Rand, rounds int) {
	t.Helper()
	var workers []*fleettest.Worker
	from := config.TrimHorizon()
	if random.IntN(2) == 0 {
		// What was there before is not to come, after whatever restarts.
		from = config.Latest()
		f.PutItems(50, 20)
		time.Sleep(3 * time.Second)
		f.Forget()
	}
	start := func() {
		id := "w" + strconv.Itoa(random.IntN(1e9))
		takes := []time.Duration{0, 0, 100 * time.Millisecond, time.Second}[random.IntN(4)]
		workers = append(workers, f.StartOnTableWith(id, func(processor.Shard) processor.RecordProcessor {
			return &slowTable{f: f, worker: id, takes: takes}
		}, func(c *config.Config) { c.InitialPosition = from }))
	}
	pick := func() *fleettest.Worker {
		i := random.IntN(len(workers))
		w := workers[i]
		workers = slices.Delete(workers, i, i+1)
		return w
	}
	for range 3 {
		start()
	}
	time.Sleep(time.Duration(2+random.IntN(60)) * time.Second)
	for i, effect := range []emulator.Effect{
		emulator.Throttle(), emulator.DropReply(), emulator.Fail(http.StatusInternalServerError, "InternalServerError", "trouble"),
		emulator.CutBody(20), emulator.DelayReply(3 * time.Second), emulator.Refuse(),
	} {
		f.Server.Inject(emulator.Rule{Service: emulator.DynamoDBStreams, Probability: 0.02, Seed: random.Uint64() + uint64(i), Effect: effect})
		f.Server.Inject(emulator.Rule{Service: emulator.DynamoDB, Match: ofLeases, Probability: 0.005, Seed: random.Uint64() + uint64(i), Effect: effect})
	}
	counts := map[string]int{}
	for range rounds {
		act := []string{"kill", "kill", "stop", "roll", "split", "cut", "rest"}[random.IntN(7)]
		counts[act]++
		at := random.IntN(10)
		for i := range 10 {
			f.PutItems(1+random.IntN(40), 20)
			time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
			if i != at {
				continue
			}
			switch act {
			case "kill":
				pick().Kill()
				start()
			case "stop":
				if err := pick().Stop(); err != nil {
					t.Error(err)
				}
				start()
			case "cut":
				w := workers[random.IntN(len(workers))]
				w.CutOff()
				time.Sleep(time.Duration(random.IntN(40)) * time.Second)
				w.Reconnect()
			case "roll":
				if _, err := f.Server.RollTableStream(fleettest.Table); err != nil {
					t.Error(err)
				}
			case "split":
				if _, open := f.Shards(); len(open) < 6 {
					if _, err := f.Server.SplitTableStream(fleettest.Table, open[random.IntN(len(open))]); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	f.WaitDelivered(10 * time.Minute)
	duplicates := f.Check()
	if n := f.Audit.Distinct(); n != f.Produced() {
		t.Errorf("%d different changes were delivered, of %d that were to be", n, f.Produced())
	}
	time.Sleep(5 * time.Minute)
	all, open := f.Shards()
	rows := f.Rows()
	// Beside the open shards' rows those of their parents may stay as long as nothing comes, and what ended in the last minutes.
	if len(rows) > 3*len(open) {
		t.Errorf("the table still has %d rows, of %d shards that the stream has, %d of them open", len(rows), len(all), len(open))
	}
	t.Logf("from %v, %v: %d changes, %d repeated; %d shards, %d open; %d rows left", from, counts, f.Produced(), duplicates, len(all), len(open), len(rows))
}

// slowTable is the fleet's processor that takes its time.
type slowTable struct {
	processor.Base
	f      *fleettest.TableFleet
	worker string
	takes  time.Duration
}

func (s *slowTable) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if err := s.f.Changes(s.worker, in); err != nil {
		return err
	}
	if s.takes > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(s.takes):
		}
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// All shards of a large table's stream end at about the same time, and the service answers ten DescribeStream a second.
func TestDynamoStreams_whatFollowsFortyShardsThatEndTogetherIsReadWithinSeconds(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		for _, id := range []string{"w1", "w2", "w3"} {
			f.StartOnTable(id)
		}
		time.Sleep(time.Minute)
		f.PutItems(200, 200)
		f.WaitDelivered(time.Minute)
		if _, err := f.Server.RollTableStream(fleettest.Table); err != nil {
			t.Fatal(err)
		}
		f.PutItems(200, 200)
		if took := f.WaitDelivered(time.Minute); took > 20*time.Second {
			t.Errorf("all of them were read after %v", took)
		} else {
			t.Logf("all of them were read after %v", took)
		}
		f.Check()
	}, emulator.WithTableStreamShards(fleettest.Shorter(40, 12)), emulator.WithLimits())
}

// The first shards of a table's stream name parents that have left it. All of them ask who their ancestors are, of one listing.
func TestDynamoStreams_aStartOnManyShardsListsThemFewTimes(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		time.Sleep(30 * time.Hour)
		f.PutItems(100, 100)
		f.Server.ResetCounts()
		f.StartOnTable("w1")
		f.WaitDelivered(10 * time.Minute)
		f.Check()
		all, _ := f.Shards()
		n := f.Server.Counts().Of(emulator.CountKey{Client: "w1", Service: emulator.DynamoDBStreams, Operation: "DescribeStream"}).Requests
		if pages := int64(len(all)/100 + 1); n > int64(len(all))+10*pages {
			t.Errorf("%d DescribeStream for %d shards, which are %d pages", n, len(all), pages)
		}
	}, emulator.WithTableStreamShards(40))
}

// A worker may start before the stream can be read.
func TestDynamoStreams_waitsForAStreamThatIsBeingEnabled(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.StartOnTable("w1")
		time.Sleep(2 * time.Minute)
		f.PutItems(10, 2)
		f.WaitDelivered(time.Minute)
		f.Check()
	}, emulator.WithControlDelay(time.Minute))
}

// ofLeases matches requests to the lease table.
func ofLeases(body []byte) bool { return strings.Contains(string(body), `"`+fleettest.App+`"`) }

// LATEST is settled when the application starts: a worker that dies before its first checkpoint loses nothing that came since.
func TestDynamoStreams_latestMeansSinceTheFirstStartAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		latest := func(c *config.Config) { c.InitialPosition = config.Latest() }
		f.PutItems(3000, 10)
		time.Sleep(time.Hour)
		f.Forget()
		first := f.StartOnTableWith("w1", func(processor.Shard) processor.RecordProcessor {
			return processor.Each(func(ctx context.Context, _ processor.Record) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})(processor.Shard{})
		}, latest)
		<-first.Ready()
		time.Sleep(time.Minute)
		for range 20 {
			f.PutItem("new")
		}
		time.Sleep(time.Minute)
		first.Kill()
		time.Sleep(time.Hour)
		f.StartOnTable("w2", latest)
		f.WaitDelivered(5 * time.Minute)
		f.Check()
		if got := f.Audit.Distinct(); got != 20 {
			t.Errorf("%d changes were delivered, want the 20 since the first start", got)
		}
	})
}

// What the stream does not keep any more is told by Hooks.Trimmed, and what it still has is read.
func TestDynamoStreams_tellsOfWhatWasTrimmed(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.PutItem("old")
		w := f.StartOnTable("w1")
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.PutItem("old") // trimmed before anybody reads it
		time.Sleep(26 * time.Hour)
		f.Forget()
		f.PutItem("new")
		var (
			mu   sync.Mutex
			told []config.TrimmedEvent
		)
		f.StartOnTable("w2", func(c *config.Config) {
			c.Hooks = &config.Hooks{Trimmed: func(e config.TrimmedEvent) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, e)
			}}
		})
		time.Sleep(5 * time.Minute)
		f.Check()
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 1 || told[0].Stream != fleettest.Table {
			t.Errorf("Hooks.Trimmed was told %+v, want the shard whose last change was lost", told)
		}
	})
}

// The same within a shard: the record at the checkpoint is gone, the shard is not.
func TestDynamoStreams_failsForWhatWasTrimmedIfToldTo(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.PutItem("old")
		w := f.StartOnTable("w1")
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(26 * time.Hour)
		f.PutItem("old")
		failing := f.StartOnTable("w2", func(c *config.Config) { c.Retrieval.OnTrimmed = config.FailRun })
		if err := failing.Wait(); !isTrimmed(err) {
			t.Errorf("Run returned %v, want a TrimmedError", err)
		}
		f.StartOnTable("w3")
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	}, emulator.WithTableStreamShardLife(100*time.Hour))
}

func isTrimmed(err error) bool {
	_, ok := errors.AsType[*processor.TrimmedError](err)
	return ok
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// Of two shards that follow one only one may be listed for a while; an audit finds the other.
func TestDynamoStreams_anAuditFindsAShardWithoutALease(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.PutItems(10, 5)
		f.StartOnTable("w1")
		f.WaitDelivered(time.Minute)
		children, err := f.Server.SplitTableStream(fleettest.Table, "")
		if err != nil {
			t.Fatal(err)
		}
		f.PutItems(10, 5)
		time.Sleep(20 * time.Second)
		if _, err := f.DynamoDB.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: aws.String(fleettest.App), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: children[0]}},
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		f.PutItems(20, 5)
		f.WaitDelivered(time.Minute)
		f.Check()
		if f.Rows()[children[0]] == nil {
			t.Errorf("shard %s has no lease again", children[0])
		}
	})
}
