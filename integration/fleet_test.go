//go:build unix

package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/awshttp"
)

var (
	fleetFailover = flag.Duration("fleet-failover", 3*time.Second, "FailoverTime of TestFleet's workers; slow servers need a longer one")
	fleetPause    = flag.Duration("fleet-pause", 100*time.Millisecond, "between two batches that TestFleet puts, of one record for each of 24 keys")
)

// reporter is that of a process with the role "audited".
var reporter = audit.NewReporter(os.Stdout, func(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
})

// TestFleet_losesNothingAndKeepsOrderOverReshardKillAndRollingRestart is what is asked of every server: three processes share a stream; a
// shard is split and two are merged, one process is killed, and then each is replaced. It runs against the emulator, or against the
// servers that both environment variables name.
func TestFleet_losesNothingAndKeepsOrderOverReshardKillAndRollingRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	f := &fleet{world: w, began: time.Now(), workers: map[string]*process{}}
	for _, id := range []string{"a", "b", "c"} {
		f.start(t, id)
	}
	produced := f.load(t)
	pause(t, *fleetFailover)

	shards := w.open(t)
	w.split(t, shards[0])
	w.merge(t, shards[2], shards[3])
	pause(t, 2**fleetFailover)

	f.fates = append(f.fates, audit.Fate{Worker: "b", What: audit.Killed, At: time.Since(f.began)})
	f.workers["b"].kill()
	pause(t, 2**fleetFailover)
	f.start(t, "d")

	for i, old := range []string{"a", "c", "d"} {
		f.start(t, fmt.Sprint("new-", i))
		f.fates = append(f.fates, audit.Fate{Worker: old, What: audit.Stopped, At: time.Since(f.began)})
		if err := f.workers[old].cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		f.workers[old].waitFor(t, "stopped", 1, 40*time.Second)
	}
	pause(t, *fleetFailover)
	evidence := audit.Evidence{Produced: produced(), Fates: f.fates}
	var v audit.Verdict
	w.within(t, 60*time.Second, func() bool {
		evidence.Arrivals = f.arrivals(t)
		v = audit.Judge(evidence)
		return v.Lost == 0
	})
	for id, p := range f.workers {
		if failed := p.seen("failed"); len(failed) > 0 {
			t.Errorf("worker %s: %q", id, failed)
		}
	}
	if !v.OK() || v.Produced == 0 {
		t.Errorf("lost %d, out of order %d, never produced %d: %q", v.Lost, v.OutOfOrder, v.Unknown, v.Examples)
	}
	ended := map[string]bool{}
	for _, a := range evidence.Arrivals {
		if a.Kind == audit.Ended {
			ended[a.Shard] = true
		}
	}
	if len(ended) != 3 {
		t.Errorf("%d shards were read to their end, want the one that was split and the two that were merged", len(ended))
	}
	t.Attr("figures", fmt.Sprintf("%d records, lost %d, out of order %d, repeated %d", v.Produced, v.Lost, v.OutOfOrder, v.Repeated()))
	t.Logf("%d records, lost %d, out of order %d, repeated by cause: %v", v.Produced, v.Lost, v.OutOfOrder, v.Duplicates)
}

// fleet is the processes of TestFleet.
type fleet struct {
	*world
	began   time.Time
	workers map[string]*process
	fates   []audit.Fate
}

func (f *fleet) start(t *testing.T, id string) {
	t.Helper()
	f.workers[id] = startProcess(t, spec{
		Role: "audited", ID: id, App: f.app, Stream: f.stream, Kinesis: f.kinesisURL, DynamoDB: f.dynamodbURL, Failover: *fleetFailover, Graceful: true,
	})
	f.workers[id].waitFor(t, "ready", 1, 30*time.Second)
}

// arrivals are all reports, in the order in which they were read.
func (f *fleet) arrivals(t *testing.T) (all []audit.Arrival) {
	t.Helper()
	for id, p := range f.workers {
		p.mu.Lock()
		lines, times := slices.Clone(p.lines), slices.Clone(p.times)
		p.mu.Unlock()
		for i, line := range lines {
			if !strings.HasPrefix(line, "{") {
				continue
			}
			a := audit.Arrival{Worker: id, At: times[i].Sub(f.began)}
			if err := json.Unmarshal([]byte(line), &a.Report); err != nil {
				if i == len(lines)-1 {
					continue // killed while it was writing
				}
				t.Fatalf("worker %s printed %q: %v", id, line, err)
			}
			all = append(all, a)
		}
	}
	slices.SortStableFunc(all, func(a, b audit.Arrival) int { return cmp.Compare(a.At, b.At) })
	return all
}

// load puts the next record of every key again and again, until the function that it returns is called, which returns how many each
// key got.
func (f *fleet) load(t *testing.T) (stop func() map[string]int64) {
	t.Helper()
	const keys = 24
	// A batch that the SDK sends twice would count as two. It does so when its connection breaks, which this client avoids.
	client := kinesis.NewFromConfig(awshttp.Prepare(aws.Config{
		Region: "us-east-1", BaseEndpoint: &f.kinesisURL, Credentials: credentials.NewStaticCredentialsProvider("load", "x", ""),
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended, rounds := make(chan struct{}), int64(0)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(*fleetPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			var batch []types.PutRecordsRequestEntry
			for k := range keys {
				batch = append(batch, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint("key-", k)), Data: fmt.Append(nil, rounds+1)})
			}
			for len(batch) > 0 {
				out, err := client.PutRecords(context.WithoutCancel(ctx), &kinesis.PutRecordsInput{StreamName: &f.stream, Records: batch})
				if err != nil {
					t.Errorf("put records: %v", err)
					return
				}
				var refused []types.PutRecordsRequestEntry
				for i, r := range out.Records {
					if r.ErrorCode != nil {
						refused = append(refused, batch[i])
					}
				}
				batch = refused
			}
			rounds++
		}
	}()
	end := sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(end)
	return func() map[string]int64 {
		end()
		produced := map[string]int64{}
		for k := range keys {
			produced[fmt.Sprint("key-", k)] = rounds
		}
		return produced
	}
}
