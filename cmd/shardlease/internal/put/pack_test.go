package put_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

// lines takes what is stored apart, shard by shard, and returns the data of each key and how many records there are.
func (s stream) lines(t *testing.T) (got map[string][]string, records int) {
	t.Helper()
	got = map[string][]string{}
	shards, err := s.client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("s")})
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards.Shards {
		own, err := hashkey.ParseRange(*shard.HashKeyRange.StartingHashKey, *shard.HashKeyRange.EndingHashKey)
		if err != nil {
			t.Fatal(err)
		}
		it, err := s.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: aws.String("s"), ShardId: shard.ShardId, ShardIteratorType: "TRIM_HORIZON",
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil || *out.MillisBehindLatest > 0 {
			t.Fatalf("records behind the first page, or %v", err)
		}
		records += len(out.Records)
		for _, r := range out.Records {
			page := kpl.Expand([]processor.Record{{SequenceNumber: *r.SequenceNumber, PartitionKey: *r.PartitionKey, Data: r.Data}}, own)
			if page.Damaged+page.Outside > 0 {
				t.Errorf("%d damaged (%v), %d in the wrong shard", page.Damaged, page.Err, page.Outside)
			}
			for _, u := range page.Records {
				got[u.PartitionKey] = append(got[u.PartitionKey], string(u.Data))
			}
		}
	}
	return got, records
}

func TestRun_packsLinesOfOneKeyInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.server.Inject(emulator.Rule{Operation: "PutRecords", Probability: 0.3, Seed: 3, Effect: emulator.Throttle()})
		var in strings.Builder
		want := map[string][]string{}
		for i := range 605 {
			key := strconv.Itoa(i % 6)
			text := fmt.Sprintf(`{"n":%d,"k":%q}`, i, key)
			in.WriteString(text + "\n")
			want[key] = append(want[key], text)
		}
		log, err := s.pack(t.Context(), strings.NewReader(in.String()), "k", 10)
		if err != nil {
			t.Fatal(err)
		}
		got, records := s.lines(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines of each key (-put +stored):\n%s", diff)
		}
		if records < 61 || records > 66 || !strings.Contains(log, fmt.Sprintf("605 lines in %d records", records)) {
			t.Errorf("%d records, want 61 to 66 of ten lines each; log = %q", records, log)
		}
	})
}

// Without a field the lines of an aggregate share a key; large ones are packed as far as a record allows.
func TestRun_packsAsMuchAsARecordHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		var in bytes.Buffer
		var want []string
		for i, size := range []int{1<<20 - 16, 400_000, 400_000, 400_000, 1<<20 - 16, 10, 0, 20} {
			text := strings.Repeat(string(rune('a'+i)), size)
			in.WriteString(text + "\n")
			if size > 0 {
				want = append(want, text)
			}
		}
		if _, err := s.pack(t.Context(), &in, "", 100); err != nil {
			t.Fatal(err)
		}
		lines, records := s.lines(t)
		var got []string
		for _, l := range lines {
			got = append(got, l...)
		}
		slices.Sort(got)
		if !slices.Equal(want, got) || records != 5 {
			t.Errorf("%d lines in %d records, want %d in 5, unchanged", len(got), records, len(want))
		}
	})
}

// A line that comes alone waits for a tenth of a second, not for the next one.
func TestRun_doesNotKeepALineThatComesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := s.pack(t.Context(), r, "", 100)
			done <- err
		}()
		_, _ = io.WriteString(w, "one\ntwo\n")
		time.Sleep(time.Second)
		if got, records := s.lines(t); len(got) != 1 || records != 1 {
			t.Errorf("after a second %v is stored in %d records, want both lines in one", got, records)
		}
		_, _ = io.WriteString(w, "three\n")
		_ = w.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		got := s.stored(t)
		if len(got) != 2 {
			t.Errorf("stored %v, want a third line in a record of its own", got)
		}
	})
}
