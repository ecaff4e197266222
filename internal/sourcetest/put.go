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
	{name: "a record goes to the shard whose range holds the MD5 of its key", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 4)
		shards := e.shards(tb, name, nil)
		for i := range 40 {
			key := fmt.Sprintf("key-%d", i)
			out := e.put(tb, name, key, "x")
			if !covers(tb, byID(tb, shards, *out.ShardId), hashOf(key)) {
				tb.Errorf("key %s went to %s, whose range does not hold %s", key, *out.ShardId, hashOf(key))
			}
		}
	}},
	{name: "an ExplicitHashKey decides instead of the key", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 4)
		for _, s := range e.shards(tb, name, nil) {
			for _, h := range []*string{s.HashKeyRange.StartingHashKey, s.HashKeyRange.EndingHashKey} {
				out, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: aws.String("same"), ExplicitHashKey: h, Data: []byte("x")})
				if err != nil {
					tb.Fatal(err)
				}
				if *out.ShardId != *s.ShardId {
					tb.Errorf("hash key %s went to %s, want %s", *h, *out.ShardId, *s.ShardId)
				}
			}
		}
	}},
	{name: "sequence numbers rise", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		last := number(tb, e.shards(tb, name, nil)[0].SequenceNumberRange.StartingSequenceNumber)
		for range 30 {
			n := number(tb, e.put(tb, name, "k", "x").SequenceNumber)
			if n.Cmp(last) <= 0 {
				tb.Fatalf("sequence number %s after %s", n, last)
			}
			last = n
		}
	}},
	{name: "PutRecords stores a batch of 500 in order and answers in that order", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 2)
		var batch []types.PutRecordsRequestEntry
		for i := range 500 {
			batch = append(batch, types.PutRecordsRequestEntry{PartitionKey: aws.String(strconv.Itoa(i)), Data: fmt.Appendf(nil, "r%d", i)})
		}
		out, err := e.PutRecords(tb.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: batch})
		if err != nil {
			tb.Fatal(err)
		}
		if aws.ToInt32(out.FailedRecordCount) != 0 || len(out.Records) != len(batch) {
			tb.Fatalf("%d failed of %d answers, want 0 of %d", aws.ToInt32(out.FailedRecordCount), len(out.Records), len(batch))
		}
		want := map[string][]string{} // by shard
		for i, r := range out.Records {
			want[*r.ShardId] = append(want[*r.ShardId], *r.SequenceNumber+string(batch[i].Data))
		}
		for shard, numbers := range want {
			records, _ := e.read(tb, e.iterator(tb, name, shard, nil), len(numbers))
			for i, r := range records {
				if got := *r.SequenceNumber + string(r.Data); got != numbers[i] {
					tb.Fatalf("record %d of %s is %s, want %s", i, shard, got, numbers[i])
				}
			}
		}
	}},
	{name: "data and keys come back as they were", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		key := `ключ "quoted" \ <&> 🔑`
		if _, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: &key, Data: all}); err != nil {
			tb.Fatal(err)
		}
		e.put(tb, name, strings.Repeat("k", 256), "second")
		records, _ := e.read(tb, e.iterator(tb, name, *e.shards(tb, name, nil)[0].ShardId, nil), 2)
		if *records[0].PartitionKey != key || !bytes.Equal(records[0].Data, all) {
			tb.Errorf("got key %q and %d bytes, want %q and %d", *records[0].PartitionKey, len(records[0].Data), key, len(all))
		}
		if len(*records[1].PartitionKey) != 256 {
			tb.Errorf("key of %d characters, want 256", len(*records[1].PartitionKey))
		}
	}},
	{name: "records of several writers beside a reader come once and in each writer's order", run: func(tb testing.TB, e *env) {
		const writers, each = 4, 15
		name := e.stream(tb, 1)
		it := e.iterator(tb, name, *e.shards(tb, name, nil)[0].ShardId, nil)
		var group sync.WaitGroup
		for w := range writers {
			group.Go(func() {
				for i := range each {
					_, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: aws.String("k"), Data: fmt.Appendf(nil, "%d %d", w, i)})
					if err != nil {
						tb.Errorf("writer %d: %v", w, err)
						return
					}
				}
			})
		}
		records, _ := e.read(tb, it, writers*each)
		group.Wait()
		next := [writers]int{}
		for _, r := range records {
			var w, i int
			if _, err := fmt.Sscanf(string(r.Data), "%d %d", &w, &i); err != nil {
				tb.Fatal(err)
			}
			if i != next[w] {
				tb.Fatalf("writer %d: record %d, want %d", w, i, next[w])
			}
			next[w]++
		}
	}},
	{name: "a record into a stream that does not exist is ResourceNotFoundException", run: func(tb testing.TB, e *env) {
		_, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{StreamName: aws.String("no-such-stream"), PartitionKey: aws.String("k"), Data: []byte("x")})
		wantCode(tb, "put", err, "ResourceNotFoundException")
	}},
	{name: "a record of more than 1 MiB is refused", has: func(f Features) bool { return f.LargeRecordRefused }, run: refusedPut(putOf(1, 1<<20+1)), heavy: true},
	{name: "an ExplicitHashKey of 2^128 is refused", has: func(f Features) bool { return f.LargeHashKeyRefused }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		_, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{
			StreamName: &name, PartitionKey: aws.String("k"), Data: []byte("x"), ExplicitHashKey: aws.String("340282366920938463463374607431768211456"),
		})
		wantCode(tb, "put", err, "InvalidArgumentException", "ValidationException")
	}},
	{name: "PutRecords of nothing is refused", has: func(f Features) bool { return f.EmptyBatchRefused }, run: refusedPut(putOf(0, 0))},
	{name: "PutRecords of 501 records is refused", has: func(f Features) bool { return f.LongBatchRefused }, run: refusedPut(putOf(501, 1))},
	{name: "PutRecords of more than 10 MiB is refused", has: func(f Features) bool { return f.LargeBatchRefused }, run: refusedPut(putOf(11, 1<<20-10)), heavy: true},
}

func putOf(records, size int) []types.PutRecordsRequestEntry {
	out := make([]types.PutRecordsRequestEntry, records)
	for i := range out {
		out[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String(strconv.Itoa(i)), Data: bytes.Repeat([]byte("x"), size)}
	}
	return out
}

// refusedPut wants PutRecords refused as a whole, and nothing stored.
func refusedPut(batch []types.PutRecordsRequestEntry) func(tb testing.TB, e *env) {
	return func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		_, err := e.PutRecords(tb.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: batch})
		wantCode(tb, "put", err, "InvalidArgumentException", "ValidationException")
		e.put(tb, name, "k", "after")
		records, _ := e.read(tb, e.iterator(tb, name, *e.shards(tb, name, nil)[0].ShardId, nil), 1)
		if string(records[0].Data) != "after" {
			tb.Errorf("the first record holds %d bytes of the refused batch", len(records[0].Data))
		}
	}
}
