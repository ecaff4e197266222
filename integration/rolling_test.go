//go:build unix

package integration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/processor"
)

// rollingFailover is the failover time of workers that are replaced.
const rollingFailover = 4 * time.Second

type teller struct{ processor.Base }

// ProcessRecords prints "batch <nanoseconds> <shard> <token> <numbers>". All processes share this machine's clock.
func (*teller) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	numbers := make([]string, 0, len(in.Records))
	for _, r := range in.Records {
		numbers = append(numbers, string(r.Data))
	}
	fmt.Println("batch", time.Now().UnixNano(), in.Grant.LeaseKey, in.Grant.Token, strings.Join(numbers, ","))
	return in.Checkpointer.Checkpoint(ctx)
}

// told is one printed batch.
type told struct {
	at      time.Duration
	worker  string
	shard   string
	token   int64
	numbers []int
}

func (p *process) told(t *testing.T, worker string) (all []told) {
	t.Helper()
	for _, line := range p.seen("batch") {
		f := strings.Fields(line)
		at, err1 := strconv.ParseInt(f[0], 10, 64)
		token, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("worker %s printed %q", worker, line)
		}
		b := told{at: time.Duration(at), worker: worker, shard: f[1], token: token}
		for n := range strings.SplitSeq(f[3], ",") {
			i, err := strconv.Atoi(n)
			if err != nil {
				t.Fatalf("worker %s printed %q", worker, line)
			}
			b.numbers = append(b.numbers, i)
		}
		all = append(all, b)
	}
	return all
}

// TestRollingRestart_ofProcessesLosesAndRepeatsNothing replaces the processes of a fleet of four one after the other under load,
// each by SIGTERM. It runs against the emulator, or against the servers that both environment variables name.
func TestRollingRestart_ofProcessesLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	t.Run("new before old", func(t *testing.T) {
		t.Parallel()
		rolling(t, func(start func(), stop func() time.Duration) time.Duration {
			start()
			pause(t, rollingFailover)
			return stop()
		})
	})
	t.Run("old before new", func(t *testing.T) {
		t.Parallel()
		rolling(t, func(start func(), stop func() time.Duration) time.Duration {
			took := stop()
			start()
			pause(t, rollingFailover)
			return took
		})
	})
}

// rolling replaces each process as told: start starts a new one and waits until it is ready, stop stops an old one and returns how
// long that took.
func rolling(t *testing.T, replace func(start func(), stop func() time.Duration) time.Duration) {
	t.Helper()
	const shards, workers = 8, 4
	w := newWorld(t, shards)
	processes := map[string]*process{}
	start := func(id string) {
		processes[id] = startProcess(t, spec{
			Role: "teller", ID: id, App: w.app, Stream: w.stream, Kinesis: w.kinesisURL, DynamoDB: w.dynamodbURL, Failover: rollingFailover, Graceful: true,
		})
		processes[id].wait(t, "ready", 1)
	}
	for i := range workers {
		start(fmt.Sprint("old-", i))
	}
	stopLoad := w.load(t, 20*time.Millisecond)
	pause(t, 2*rollingFailover)
	for i := range workers {
		old, fresh := fmt.Sprint("old-", i), fmt.Sprint("new-", i)
		took := replace(func() { start(fresh) }, func() time.Duration {
			began := time.Now()
			if err := processes[old].cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			processes[old].waitFor(t, "stopped", 1, 40*time.Second)
			return time.Since(began)
		})
		t.Logf("%s stopped %v after SIGTERM", old, took.Round(10*time.Millisecond))
	}
	pause(t, rollingFailover)
	produced := stopLoad()
	pause(t, 3*time.Second)

	var all []told
	for id, p := range processes {
		all = append(all, p.told(t, id)...)
	}
	slices.SortFunc(all, func(a, b told) int { return cmp.Compare(a.at, b.at) })
	judge(t, all, shards, produced, 2*rollingFailover)
}

// load puts a record into each shard every so often, each with the next number, until the function that it returns is called, which
// returns how many each shard got.
func (w *world) load(t *testing.T, every time.Duration) (stop func() int) {
	t.Helper()
	shards := w.open(t)
	end, ended, produced := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			batch := make([]types.PutRecordsRequestEntry, 0, len(shards))
			for _, s := range shards {
				batch = append(batch, types.PutRecordsRequestEntry{
					PartitionKey: s.ShardId, ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: strconv.AppendInt(nil, int64(produced), 10),
				})
			}
			if out, err := w.kinesis.PutRecords(context.WithoutCancel(t.Context()), &kinesis.PutRecordsInput{StreamName: &w.stream, Records: batch}); err != nil || *out.FailedRecordCount != 0 {
				t.Errorf("put records: %v, %v", out, err)
				return
			}
			produced++
		}
	}()
	end1 := sync.OnceFunc(func() { close(end) })
	t.Cleanup(func() { end1(); <-ended })
	return func() int {
		end1()
		<-ended
		return produced
	}
}

// judge reads batches in the order of time.
func judge(t *testing.T, all []told, shards, produced int, settle time.Duration) {
	t.Helper()
	seen := map[string]map[int]bool{}
	last := map[string]told{}
	var gaps, between []time.Duration // when it moved, and when it did not
	duplicates, overlaps := 0, 0
	for _, b := range all {
		if seen[b.shard] == nil {
			seen[b.shard] = map[int]bool{}
		}
		switch before, ok := last[b.shard]; {
		case !ok:
		case b.token < before.token:
			overlaps++
		case b.at <= all[0].at+settle:
		case before.worker != b.worker:
			gaps = append(gaps, b.at-before.at)
		default:
			between = append(between, b.at-before.at)
		}
		last[b.shard] = b
		for _, n := range b.numbers {
			if seen[b.shard][n] {
				duplicates++
			}
			seen[b.shard][n] = true
		}
	}
	lost := shards * produced
	for _, numbers := range seen {
		lost -= len(numbers)
	}
	if lost != 0 || duplicates != 0 || overlaps != 0 {
		t.Errorf("of %d records %d were lost and %d given twice, %d batches to a worker that had been replaced; want 0", shards*produced, lost, duplicates, overlaps)
	}
	if len(gaps) == 0 {
		t.Fatal("no lease moved")
	}
	t.Logf("%d records, lost %d, duplicates %d; gap of a shard at each move: %s", shards*produced, lost, duplicates, distribution(gaps))
	t.Logf("from batch to batch otherwise: %s", distribution(between))
}
