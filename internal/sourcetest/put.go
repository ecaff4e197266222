package sourcetest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var putCases = []testCase{
	{name: "a record goes to the shard whose range holds the MD5 of its key", run: func(t *testing.T, e *env) {
		name := e.stream(t, 4)
		shards := e.shards(t, name, nil)
		for i := range 40 {
			key := fmt.Sprintf("key-%d", i)
			out := e.put(t, name, key, "x")
			if !covers(t, byID(t, shards, *out.ShardId), hashOf(key)) {
				t.Errorf("key %s went to %s, whose range does not hold %s", key, *out.ShardId, hashOf(key))
			}
		}
	}},
	{name: "an ExplicitHashKey decides instead of the key", run: func(t *testing.T, e *env) {
		name := e.stream(t, 4)
		for _, s := range e.shards(t, name, nil) {
			for _, h := range []*string{s.HashKeyRange.StartingHashKey, s.HashKeyRange.EndingHashKey} {
				out, err := e.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: aws.String("same"), ExplicitHashKey: h, Data: []byte("x")})
				if err != nil {
					t.Fatal(err)
				}
				if *out.ShardId != *s.ShardId {
					t.Errorf("hash key %s went to %s, want %s", *h, *out.ShardId, *s.ShardId)
				}
			}
		}
	}},
	{name: "sequence numbers rise", run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		last := number(t, e.shards(t, name, nil)[0].SequenceNumberRange.StartingSequenceNumber)
		for range 30 {
			n := number(t, e.put(t, name, "k", "x").SequenceNumber)
			if n.Cmp(last) <= 0 {
				t.Fatalf("sequence number %s after %s", n, last)
			}
			last = n
		}
	}},
	{name: "PutRecords stores a batch of 500 in order and answers in that order", run: func(t *testing.T, e *env) {
		name := e.stream(t, 2)
		var batch []types.PutRecordsRequestEntry
		for i := range 500 {
			batch = append(batch, types.PutRecordsRequestEntry{PartitionKey: aws.String(strconv.Itoa(i)), Data: fmt.Appendf(nil, "r%d", i)})
		}
		out, err := e.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: batch})
		if err != nil {
			t.Fatal(err)
		}
		if aws.ToInt32(out.FailedRecordCount) != 0 || len(out.Records) != len(batch) {
			t.Fatalf("%d failed of %d answers, want 0 of %d", aws.ToInt32(out.FailedRecordCount), len(out.Records), len(batch))
		}
		want := map[string][]string{} // by shard
		for i, r := range out.Records {
			want[*r.ShardId] = append(want[*r.ShardId], *r.SequenceNumber+string(batch[i].Data))
		}
		for shard, numbers := range want {
			records, _ := e.read(t, e.iterator(t, name, shard, nil), len(numbers))
			for i, r := range records {
				if got := *r.SequenceNumber + string(r.Data); got != numbers[i] {
					t.Fatalf("record %d of %s is %s, want %s", i, shard, got, numbers[i])
				}
			}
		}
	}},
	{name: "data and keys come back as they were", run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		key := `ключ "quoted" \ <&> 🔑`
		if _, err := e.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: &key, Data: all}); err != nil {
			t.Fatal(err)
		}
		e.put(t, name, strings.Repeat("k", 256), "second")
		records, _ := e.read(t, e.iterator(t, name, *e.shards(t, name, nil)[0].ShardId, nil), 2)
		if *records[0].PartitionKey != key || !bytes.Equal(records[0].Data, all) {
			t.Errorf("got key %q and %d bytes, want %q and %d", *records[0].PartitionKey, len(records[0].Data), key, len(all))
		}
		if len(*records[1].PartitionKey) != 256 {
			t.Errorf("key of %d characters, want 256", len(*records[1].PartitionKey))
		}
	}},
	{name: "records of several writers beside a reader come once and in each writer's order", run: func(t *testing.T, e *env) {
		const writers, each = 4, 40
		name := e.stream(t, 1)
		it := e.iterator(t, name, *e.shards(t, name, nil)[0].ShardId, nil)
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for i := range each {
					_, err := e.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: aws.String("k"), Data: fmt.Appendf(nil, "%d %d", w, i)})
					if err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
			})
		}
		records, _ := e.read(t, it, writers*each)
		group.Wait()
		next := [writers]int{}
		for _, r := range records {
			var w, i int
			if _, err := fmt.Sscanf(string(r.Data), "%d %d", &w, &i); err != nil {
				t.Fatal(err)
			}
			if i != next[w] {
				t.Fatalf("writer %d: record %d, want %d", w, i, next[w])
			}
			next[w]++
		}
	}},
	{name: "a record into a stream that does not exist is ResourceNotFoundException", run: func(t *testing.T, e *env) {
		_, err := e.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("no-such-stream"), PartitionKey: aws.String("k"), Data: []byte("x")})
		wantCode(t, "put", err, "ResourceNotFoundException")
	}},
	{name: "a record of more than 1 MiB is refused", has: func(f Features) bool { return f.LargeRecordRefused }, run: refusedPut(putOf(1, 1<<20+1))},
	{name: "an ExplicitHashKey of 2^128 is refused", run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		_, err := e.PutRecord(t.Context(), &kinesis.PutRecordInput{
			StreamName: &name, PartitionKey: aws.String("k"), Data: []byte("x"), ExplicitHashKey: aws.String("340282366920938463463374607431768211456"),
		})
		wantCode(t, "put", err, "InvalidArgumentException", "ValidationException")
	}},
	{name: "PutRecords of nothing is refused", has: func(f Features) bool { return f.EmptyBatchRefused }, run: refusedPut(putOf(0, 0))},
	{name: "PutRecords of 501 records is refused", has: func(f Features) bool { return f.LongBatchRefused }, run: refusedPut(putOf(501, 1))},
	{name: "PutRecords of more than 10 MiB is refused", has: func(f Features) bool { return f.LargeBatchRefused }, run: refusedPut(putOf(11, 1<<20-10))},
}

func putOf(records, size int) []types.PutRecordsRequestEntry {
	out := make([]types.PutRecordsRequestEntry, records)
	for i := range out {
		out[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String(strconv.Itoa(i)), Data: bytes.Repeat([]byte("x"), size)}
	}
	return out
}

// refusedPut wants PutRecords refused as a whole, and nothing stored.
func refusedPut(batch []types.PutRecordsRequestEntry) func(t *testing.T, e *env) {
	return func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		_, err := e.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: batch})
		wantCode(t, "put", err, "InvalidArgumentException", "ValidationException")
		e.put(t, name, "k", "after")
		records, _ := e.read(t, e.iterator(t, name, *e.shards(t, name, nil)[0].ShardId, nil), 1)
		if string(records[0].Data) != "after" {
			t.Errorf("the first record holds %d bytes of the refused batch", len(records[0].Data))
		}
	}
}
