package shardlease_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// Whatever a start asks for fails at first. The worker gets over it, is ready no sooner than its table has rows, and reads
// everything.
func TestRun_getsOverAStartInWhichRequestsFailAtFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		operation string
		effect    emulator.Effect
		times     int
	}{
		{"DescribeTable", emulator.Fail(500, "InternalServerError", "no"), 3},
		{"DescribeTable", emulator.Refuse(), 5},
		{"CreateTable", emulator.Fail(500, "InternalServerError", "no"), 1},
		{"CreateTable", emulator.Throttle(), 2},
		{"Scan", emulator.Fail(400, "ResourceNotFoundException", "Requested resource not found"), 3},
		{"Scan", emulator.Fail(500, "InternalServerError", "no"), 3},
		{"ListShards", emulator.Fail(500, "InternalFailure", "no"), 3},
		{"ListShards", emulator.Throttle(), 5},
		{"PutItem", emulator.Throttle(), 5},
		{"UpdateItem", emulator.Fail(500, "InternalServerError", "no"), 5},
		{"GetShardIterator", emulator.Throttle(), 5},
		{"GetRecords", emulator.Fail(500, "InternalFailure", "no"), 5},
	} {
		t.Run(fmt.Sprintf("%s fails %d times", c.operation, c.times), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 2)
				f.Put(100, 10)
				f.Server.Inject(emulator.Rule{Client: "w", Operation: c.operation, Times: c.times, Effect: c.effect})
				w := f.Start("w")
				began := time.Now()
				<-w.Ready()
				if rows := len(f.Rows()); rows != 2 {
					t.Errorf("the worker is ready with %d rows in its table, want 2", rows)
				}
				ready := time.Since(began)
				f.WaitDelivered(30 * time.Second)
				f.Check()
				t.Logf("ready after %v, everything read after %v", ready, time.Since(began))
				if err := w.Stop(); err != nil {
					t.Errorf("Run returned %v, want nil: what failed was mended", err)
				}
			})
		})
	}
}

// A stream and a table that are being changed can be used, and are.
func TestRun_startsWhileStreamAndTableAreBeingUpdated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2, emulator.WithControlDelay(2*time.Minute))
		time.Sleep(3 * time.Minute)
		first := f.Start("first")
		<-first.Ready()
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		stream, table := fleettest.Stream, fleettest.App
		if _, err := f.Kinesis.UpdateShardCount(t.Context(), &kinesis.UpdateShardCountInput{
			StreamName: &stream, TargetShardCount: aws.Int32(3), ScalingType: types.ScalingTypeUniformScaling,
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.DynamoDB.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
			TableName: &table, BillingMode: ddbtypes.BillingModeProvisioned,
			ProvisionedThroughput: &ddbtypes.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(50), WriteCapacityUnits: aws.Int64(50)},
		}); err != nil {
			t.Fatal(err)
		}
		f.Put(100, 10)
		f.Start("second")
		f.WaitDelivered(20 * time.Second)
		described, err := f.DynamoDB.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil || described.Table.TableStatus != ddbtypes.TableStatusUpdating {
			t.Errorf("the table is %v, %v; want it still to be UPDATING", described.Table.TableStatus, err)
		}
		summary, err := f.Kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &stream})
		if err != nil || summary.StreamDescriptionSummary.StreamStatus != types.StreamStatusUpdating {
			t.Errorf("the stream is %v, %v; want it still to be UPDATING", summary.StreamDescriptionSummary.StreamStatus, err)
		}
		time.Sleep(5 * time.Minute)
		f.PutEverywhere()
		f.WaitDelivered(10 * time.Second)
		f.Check()
	})
}

// At LATEST, whose requests take ten seconds to come through: nothing is missed that is put after the worker was ready.
func TestRun_missesNothingAtLatestHoweverLateItsReadersStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Server.Inject(emulator.Rule{Operation: "GetShardIterator", Effect: emulator.Delay(10 * time.Second)})
		w := f.Start("w", func(c *config.Config) { c.InitialPosition = config.Latest() })
		<-w.Ready()
		for range 15 {
			f.PutEverywhere()
			time.Sleep(time.Second)
		}
		f.WaitDelivered(10 * time.Second)
		f.Check()
	})
}

var bubbleID = regexp.MustCompile(`^goroutine \d+ \[[^\]]*(synctest bubble \d+)`)

// goroutines is how many there are in the caller's bubble.
func goroutines(t *testing.T) int {
	t.Helper()
	synctest.Wait()
	buf := make([]byte, 1<<20)
	mine := bubbleID.FindSubmatch(buf[:runtime.Stack(buf, false)])
	if mine == nil {
		t.Fatal("not in a bubble")
	}
	for n := runtime.Stack(buf, true); n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	n := 0
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if id := bubbleID.FindSubmatch(stack); id != nil && bytes.Equal(id[1], mine[1]) {
			n++
		}
	}
	return n
}

func TestRun_leavesNoGoroutineInAHundredStartsAndStops(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Put(20, 5)
		var before int
		for n := range 100 {
			w := f.Start(fmt.Sprint("w", n))
			<-w.Ready()
			time.Sleep(time.Second)
			if err := w.Stop(); err != nil {
				t.Fatalf("stop %d: %v", n, err)
			}
			if n == 0 {
				before = goroutines(t)
			}
		}
		if after := goroutines(t); after != before {
			t.Errorf("%d goroutines after 100 starts and stops, %d after the first", after, before)
		}
		f.Check()
	})
}

// calls counts those of user code.
type calls struct {
	processor.RecordProcessor
	ended, requested, lost *atomic.Int64
}

func (c *calls) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	c.ended.Add(1)
	return c.RecordProcessor.ShardEnded(ctx, in)
}

func (c *calls) ShutdownRequested(ctx context.Context, in processor.ShutdownRequestedInput) error {
	c.requested.Add(1)
	return c.RecordProcessor.ShutdownRequested(ctx, in)
}

func (c *calls) LeaseLost(ctx context.Context, in processor.LeaseLostInput) {
	c.lost.Add(1)
	c.RecordProcessor.LeaseLost(ctx, in)
}

// A worker that holds three finished and two open leases stops at once and without an error, and each processor hears of its end
// once.
func TestStop_isQuickWithLeasesOfFinishedShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		var ended, requested, lost atomic.Int64
		usual := f.Audit.Processor("w")
		w := f.StartWith("w", func(s processor.Shard) processor.RecordProcessor { return &calls{usual(s), &ended, &requested, &lost} }, keepRows)
		f.PutEverywhere()
		f.WaitDelivered(5 * time.Second)
		open := f.Open()
		f.Split(open[0])
		f.PutEverywhere()
		f.WaitDelivered(10 * time.Second)
		f.Merge(f.Open()[len(f.Open())-1], open[1])
		f.PutEverywhere()
		f.WaitDelivered(10 * time.Second)
		time.Sleep(20 * time.Second)
		finished := 0
		for _, a := range w.Assignments() {
			if a.State == "Finished" {
				finished++
			}
		}
		if n := len(w.Assignments()); n != 5 || finished != 3 {
			t.Fatalf("the worker holds %d leases, %d of them finished, want 5 and 3", n, finished)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := w.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := w.Wait(); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("Run returned %v after %v, want nil within 2s", err, time.Since(began))
		}
		if ended.Load() != 3 || requested.Load() != 2 || lost.Load() != 0 {
			t.Errorf("ShardEnded was called %d times, ShutdownRequested %d, LeaseLost %d, want 3, 2 and 0", ended.Load(), requested.Load(), lost.Load())
		}
		if keys := owned(f); len(keys) > 0 {
			t.Errorf("leases %v are still owned", keys)
		}
	})
}

// Ten workers start at once on an empty table, where the service limits how often shards are listed: none fails, and none lists
// them twice.
func TestFleet_startsAtOnceWithFewListings(t *testing.T) {
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers, shards = 10, 40
		f := fleettest.New(t, shards, emulator.WithLimits())
		before := listings(f)
		var fleet []*fleettest.Worker
		for i := range workers {
			fleet = append(fleet, f.Start(fmt.Sprint("w", i), seldom))
		}
		for _, w := range fleet {
			<-w.Ready()
		}
		time.Sleep(20 * time.Second)
		held := 0
		for _, w := range fleet {
			held += len(w.Assignments())
		}
		n := listings(f) - before
		t.Logf("%d listings", n)
		if held != shards || n > workers {
			t.Errorf("%d workers hold %d of %d leases after %d listings", workers, held, shards, n)
		}
	})
}
