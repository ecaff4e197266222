//go:build unix

package integration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

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

func TestRollingRestart_ofProcessesLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	const shards, workers = 8, 4
	srv := emulator.New()
	url, stop, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := srv.CreateStream("orders", shards); err != nil {
		t.Fatal(err)
	}
	api := kinesis.NewFromConfig(srv.AWSConfig())
	stream := "orders"
	listed, err := api.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &stream})
	if err != nil {
		t.Fatal(err)
	}

	processes := map[string]*process{}
	start := func(id string) {
		processes[id] = startProcess(t, spec{Role: "teller", ID: id, App: "rolling", Stream: stream, Kinesis: url, DynamoDB: url, Graceful: true})
		processes[id].wait(t, "ready", 1)
	}
	for i := range workers {
		start(fmt.Sprint("old-", i))
	}

	// One record a shard each 20 ms, until everything is over.
	end, ended, produced := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			batch := make([]types.PutRecordsRequestEntry, 0, shards)
			for _, s := range listed.Shards {
				batch = append(batch, types.PutRecordsRequestEntry{
					PartitionKey: s.ShardId, ExplicitHashKey: s.HashKeyRange.StartingHashKey, Data: strconv.AppendInt(nil, int64(produced), 10),
				})
			}
			if out, err := api.PutRecords(context.WithoutCancel(t.Context()), &kinesis.PutRecordsInput{StreamName: &stream, Records: batch}); err != nil || *out.FailedRecordCount != 0 {
				t.Errorf("put records: %v", err)
				return
			}
			produced++
		}
	}()
	pause(t, 2*rollingFailover)
	for i := range workers {
		start(fmt.Sprint("new-", i))
		pause(t, rollingFailover)
		old := fmt.Sprint("old-", i)
		began := time.Now()
		if err := processes[old].cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		processes[old].waitFor(t, "stopped", 1, 40*time.Second)
		t.Logf("%s stopped %v after SIGTERM", old, time.Since(began).Round(10*time.Millisecond))
	}
	pause(t, rollingFailover)
	close(end)
	<-ended
	pause(t, 3*time.Second)

	var all []told
	for id, p := range processes {
		all = append(all, p.told(t, id)...)
	}
	slices.SortFunc(all, func(a, b told) int { return cmp.Compare(a.at, b.at) })
	judge(t, all, shards, produced, 2*rollingFailover)
}

// judge reads batches in the order of time.
func judge(t *testing.T, all []told, shards, produced int, settle time.Duration) {
	t.Helper()
	seen := map[string]map[int]bool{}
	last := map[string]told{}
	var gaps []time.Duration
	duplicates, overlaps := 0, 0
	for _, b := range all {
		if seen[b.shard] == nil {
			seen[b.shard] = map[int]bool{}
		}
		if before, ok := last[b.shard]; ok && before.worker != b.worker {
			if b.token < before.token {
				overlaps++
			} else if b.at > all[0].at+settle {
				gaps = append(gaps, b.at-before.at)
			}
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
	slices.Sort(gaps)
	at := func(q float64) time.Duration { return gaps[int(q*float64(len(gaps)-1))].Round(time.Millisecond) }
	t.Logf("%d records, %d moves; gap of a shard p50 %v, p90 %v, p99 %v, max %v", shards*produced, len(gaps), at(0.5), at(0.9), at(0.99), at(1))
}
