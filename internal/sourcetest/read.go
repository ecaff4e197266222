package sourcetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// ten puts records r0 to r9 into a new stream of one shard and returns them as read.
func ten(tb testing.TB, e *env) (name, shard string, records []types.Record) {
	tb.Helper()
	name = e.stream(tb, 1)
	for i := range 10 {
		e.put(tb, name, "k", fmt.Sprintf("r%d", i))
	}
	shard = *e.shards(tb, name, nil)[0].ShardId
	records, _ = e.read(tb, e.iterator(tb, name, shard, nil), 10)
	return name, shard, records
}

var readCases = []testCase{
	{name: "TRIM_HORIZON gives every record in order", run: func(tb testing.TB, e *env) {
		_, _, records := ten(tb, e)
		want := []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"}
		if got := texts(records); !slices.Equal(got, want) {
			tb.Errorf("got %v, want %v", got, want)
		}
	}},
	{name: "LATEST gives only what comes later", run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		it := e.iterator(tb, name, shard, startAt(types.ShardIteratorTypeLatest, nil))
		e.put(tb, name, "k", "later")
		records, _ := e.read(tb, it, 1)
		if string(records[0].Data) != "later" {
			tb.Errorf("got %s, want later", records[0].Data)
		}
	}},
	{name: "AT_SEQUENCE_NUMBER includes the record, AFTER_SEQUENCE_NUMBER does not", run: func(tb testing.TB, e *env) {
		name, shard, all := ten(tb, e)
		at := all[4].SequenceNumber
		records, _ := e.read(tb, e.iterator(tb, name, shard, startAt(types.ShardIteratorTypeAtSequenceNumber, at)), 6)
		if string(records[0].Data) != "r4" {
			tb.Errorf("AT gives %s first, want r4", records[0].Data)
		}
		records, _ = e.read(tb, e.iterator(tb, name, shard, startAt(types.ShardIteratorTypeAfterSequenceNumber, at)), 5)
		if string(records[0].Data) != "r5" {
			tb.Errorf("AFTER gives %s first, want r5", records[0].Data)
		}
	}},
	{name: "AT_TIMESTAMP gives what arrived then or later", run: func(tb testing.TB, e *env) {
		name, shard, all := ten(tb, e)
		last := *all[9].ApproximateArrivalTimestamp
		newest, extra := e.putLater(tb, name, shard, 10, last)
		records, _ := e.read(tb, e.iterator(tb, name, shard, func(in *kinesis.GetShardIteratorInput) {
			in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, newest.ApproximateArrivalTimestamp
		}), 1)
		if *records[0].SequenceNumber != *newest.SequenceNumber {
			tb.Errorf("got %s, want %s", records[0].Data, newest.Data)
		}
		old := last.Add(-time.Hour)
		records, _ = e.read(tb, e.iterator(tb, name, shard, func(in *kinesis.GetShardIteratorInput) {
			in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, &old
		}), 10+extra)
		if string(records[0].Data) != "r0" {
			tb.Errorf("an hour ago gives %s first, want r0", records[0].Data)
		}
	}},
	{name: "AT_TIMESTAMP in the future is refused", has: func(f Features) bool { return f.FutureTimestamp }, run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		_, err := e.GetShardIterator(tb.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(time.Now().Add(time.Hour)),
		})
		wantCode(tb, "iterator", err, "InvalidArgumentException")
	}},
	{name: "an iterator can be used again", run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		it := e.iterator(tb, name, shard, nil)
		for range 3 {
			records, _ := e.read(tb, it, 10)
			if string(records[0].Data) != "r0" {
				tb.Errorf("got %s first, want r0", records[0].Data)
			}
		}
	}},
	{name: "Limit bounds a page and nothing is skipped between pages", run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		it := e.iterator(tb, name, shard, nil)
		var got []string
		for len(got) < 10 {
			out, err := e.GetRecords(tb.Context(), &kinesis.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(3)})
			if err != nil {
				tb.Fatal(err)
			}
			if len(out.Records) > 3 {
				tb.Fatalf("%d records, want at most 3", len(out.Records))
			}
			got, it = append(got, texts(out.Records)...), out.NextShardIterator
		}
		if want := "[r0 r1 r2 r3 r4 r5 r6 r7 r8 r9]"; fmt.Sprint(got) != want {
			tb.Errorf("got %v, want %s", got, want)
		}
	}},
	{name: "a page holds at most 10 MiB", has: func(f Features) bool { return f.PageBytes }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		for range 11 {
			e.put(tb, name, "k", string(bytes.Repeat([]byte("x"), 1<<20-100)))
		}
		out, err := e.GetRecords(tb.Context(), &kinesis.GetRecordsInput{ShardIterator: e.iterator(tb, name, *e.shards(tb, name, nil)[0].ShardId, nil)})
		if err != nil {
			tb.Fatal(err)
		}
		if len(out.Records) != 10 {
			tb.Errorf("%d records of nearly 1 MiB, want 10", len(out.Records))
		}
	}},
	{name: "MillisBehindLatest is 0 at the tip", run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		_, out := e.read(tb, e.iterator(tb, name, shard, nil), 10)
		if aws.ToInt64(out.MillisBehindLatest) != 0 {
			tb.Errorf("MillisBehindLatest is %d, want 0", *out.MillisBehindLatest)
		}
	}},
	{name: "MillisBehindLatest tells how old the next record is", has: func(f Features) bool { return f.TimeBehind }, run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		first := int64(-1)
		eventually(tb, "MillisBehindLatest grows by 300 though nothing is put", func(ctx context.Context) bool {
			out, err := e.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: e.iterator(tb, name, shard, nil), Limit: aws.Int32(1)})
			if err != nil {
				tb.Fatal(err)
			}
			if first < 0 {
				first = aws.ToInt64(out.MillisBehindLatest)
			}
			return aws.ToInt64(out.MillisBehindLatest) >= first+300
		})
	}},
	{name: "a broken iterator is InvalidArgumentException", has: func(f Features) bool { return f.InvalidIterator }, run: func(tb testing.TB, e *env) {
		_, err := e.GetRecords(tb.Context(), &kinesis.GetRecordsInput{ShardIterator: aws.String("AAAAAAAAAAGarbage==")})
		wantCode(tb, "get records", err, "InvalidArgumentException")
	}},
	{name: "an iterator of a shard that does not exist is ResourceNotFoundException", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		_, err := e.GetShardIterator(tb.Context(), &kinesis.GetShardIteratorInput{StreamName: &name, ShardId: aws.String("shardId-000000000099"), ShardIteratorType: types.ShardIteratorTypeLatest})
		wantCode(tb, "iterator", err, "ResourceNotFoundException")
	}},
	{name: "a sequence number that the stream did not give is InvalidArgumentException", has: func(f Features) bool { return f.InvalidSequence }, run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		_, err := e.GetShardIterator(tb.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: aws.String("123456"),
		})
		wantCode(tb, "iterator", err, "InvalidArgumentException")
	}},
}

// putLater puts records behind the n that the shard has until one has arrived at least 2 ms after t: how long that takes
// is a matter of the server's clock. It returns that record and how many it put.
func (e *env) putLater(tb testing.TB, name, shard string, n int, after time.Time) (newest types.Record, put int) {
	tb.Helper()
	eventually(tb, "a record arrives later than the others", func(context.Context) bool {
		e.put(tb, name, "k", fmt.Sprintf("x%d", put))
		put++
		records, _ := e.read(tb, e.iterator(tb, name, shard, nil), n+put)
		newest = records[len(records)-1]
		return newest.ApproximateArrivalTimestamp.Sub(after) >= 2*time.Millisecond
	})
	return newest, put
}
