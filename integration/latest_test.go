//go:build unix

package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/processor"
)

// reader is a processor that prints what it is given. If it never checkpoints, it does not let a shard end either.
type reader struct {
	processor.Base
	shard       string
	checkpoints bool
}

func (r *reader) Initialize(_ context.Context, in processor.InitializationInput) error {
	fmt.Println("initialized", r.shard, in.Position)
	return nil
}

func (r *reader) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	var line strings.Builder
	for _, rec := range in.Records {
		line.WriteByte(' ')
		line.Write(rec.Data)
	}
	if len(in.Records) > 0 {
		fmt.Println("got" + line.String())
	}
	if !r.checkpoints {
		return nil
	}
	return in.Checkpointer.Checkpoint(ctx)
}

func (r *reader) ShutdownRequested(ctx context.Context, in processor.ShutdownRequestedInput) error {
	if !r.checkpoints {
		return nil
	}
	return in.Checkpointer.Checkpoint(ctx)
}

func (r *reader) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	fmt.Println("ended", r.shard)
	if !r.checkpoints {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// TestLatest_missesNothingOverReshardsThoughAllWorkersAreKilledBeforeTheirFirstCheckpoint is what two Go libraries lost
// records in. It runs against the emulator, or against the servers that both environment variables name.
func TestLatest_missesNothingOverReshardsThoughAllWorkersAreKilledBeforeTheirFirstCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	begin := w.open(t)
	old := w.put(t, "old", 100)
	pause(t, 3*time.Second) // LATEST goes back to the second before the one in which the first worker lists the shards

	worker := func(role, id string) *process {
		return startProcess(t, spec{Role: role, ID: id, App: w.app, Stream: w.stream, Kinesis: w.kinesisURL, DynamoDB: w.dynamodbURL, Failover: failoverTime, Latest: true})
	}
	first := []*process{worker("mute", "a"), worker("mute", "b")}
	w.eventually(t, "a row for each of 4 shards", func() bool { return len(w.rows(t)) == 4 })
	stopPutting := w.keepPutting(t)
	w.eventually(t, "processor for each of 4 shards", func() bool { return len(lines(first, "initialized")) >= 4 })
	thief := worker("mute", "c")
	first = append(first, thief)
	stolen := thief.wait(t, "stole", 1)
	thief.wait(t, "initialized", 1)

	var at sync.WaitGroup
	at.Go(func() { w.split(t, begin[0]) })
	at.Go(func() { w.merge(t, begin[2], begin[3]) })
	at.Wait()
	w.eventually(t, "record and end of the split shard", func() bool { return len(lines(first, "got")) > 0 && len(lines(first, "ended")) > 0 })
	rows := w.rows(t)
	for key, place := range rows {
		if place != "LATEST" && place != "TRIM_HORIZON" && place != "AT_TIMESTAMP" {
			t.Errorf("lease %s has checkpoint %s, want none before all workers are killed", key, place)
		}
	}
	for _, p := range first {
		p.kill()
	}

	// While nobody is there, the other shard is split and the children of the first split are merged.
	later := w.open(t)
	at.Go(func() { w.split(t, begin[1]) })
	at.Go(func() { w.merge(t, later[0], later[1]) })
	at.Wait()
	second := []*process{worker("careful", "d"), worker("careful", "e")}
	w.eventually(t, "a first record for a new worker", func() bool { return len(lines(second, "got")) > 0 })
	pause(t, time.Second)
	put := stopPutting()

	var delivered map[string]int
	missing := func() (lost []string) {
		delivered = map[string]int{}
		for _, line := range lines(second, "got") {
			for record := range strings.FieldsSeq(line) {
				delivered[record]++
			}
		}
		for _, record := range put {
			if delivered[record] == 0 {
				lost = append(lost, record)
			}
		}
		return lost
	}
	if !w.within(t, 30*time.Second, func() bool { return len(missing()) == 0 }) {
		lost := missing()
		t.Errorf("%d of %d records put after the rows were created never came: %q …", len(lost), len(put), lost[:min(10, len(lost))])
	}
	all, before := 0, 0
	for _, n := range delivered {
		all += n
	}
	for _, record := range old {
		before += delivered[record]
	}
	if before > 0 {
		t.Errorf("%d records came that were put 3s before the first worker started, want none at LATEST", before)
	}
	for _, p := range append(first, second...) {
		if failed := p.seen("failed"); len(failed) > 0 {
			t.Errorf("worker %s: %q", p.id, failed)
		}
	}
	killed := 0
	for _, line := range lines(first, "got") {
		killed += len(strings.Fields(line))
	}
	t.Logf("put after the rows were created %d, lost %d, duplicates %d; given to the killed workers %d; rows at the kill %v; the thief stole %s; open shards at the end %d",
		len(put), len(missing()), all-len(delivered), killed, rows, stolen[0], len(w.open(t)))
}

// lines are those of all processes that begin with word.
func lines(all []*process, word string) (found []string) {
	for _, p := range all {
		found = append(found, p.seen(word)...)
	}
	return found
}

// pause waits for time to pass, where that is what matters.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}
