package sourcetest

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
)

// patience bounds each wait for a server to do what it was asked.
const patience = 90 * time.Second

// testCase is one behaviour.
type testCase struct {
	name string
	has  func(Features) bool // nil: every server must have it
	run  func(tb testing.TB, e *env)
	// heavy: it is not tried where it is declared missing, as a server that takes ten megabytes may take all its memory for them.
	heavy bool
}

// Run tests the server that cfg reaches; every stream it makes is deleted again. The subtests run in parallel and wait in
// real time.
func Run(t *testing.T, cfg aws.Config, f Features) {
	t.Helper()
	e := &env{Client: kinesis.NewFromConfig(cfg), cfg: cfg, features: f, run: time.Now().UnixNano()}
	// One case with consumers after the other: kinesis-local loses the deregistration of one that is under way when a stream with
	// another consumer is deleted.
	consumers := make(chan struct{}, 1)
	groups := [][]testCase{putCases, readCases, listCases, reshardCases, streamCases, fanoutCases}
	for i, cases := range groups {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if i == len(groups)-1 {
					consumers <- struct{}{}
					t.Cleanup(func() { <-consumers }) // after the stream's deletion, whose cleanup is registered later
				}
				if c.has == nil {
					c.run(t, e)
					return
				}
				if c.has(f) {
					t.Attr("has", c.name)
					c.run(t, e)
					return
				}
				t.Attr("lacks", c.name)
				t.Logf("declared missing: %s", c.name)
				if !c.heavy && try(t, c.run, e) {
					t.Error("this is not declared, but works: declare it")
				}
			})
		}
	}
}

// env is the server under test.
type env struct {
	*kinesis.Client
	cfg      aws.Config
	features Features
	run      int64 // in stream names, so that a server can be tested twice
	streams  atomic.Int64
}

// eventually asks again and again until done says yes, and fails the test after patience.
func eventually(tb testing.TB, what string, done func(ctx context.Context) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !done(ctx) {
		select {
		case <-again.C:
		case <-ctx.Done():
			tb.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// stream makes a stream of this many shards that lives as long as the test.
func (e *env) stream(tb testing.TB, shards int) string {
	tb.Helper()
	name := fmt.Sprintf("sourcetest-%d-%d", e.run, e.streams.Add(1))
	_, err := e.CreateStream(tb.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(int32(shards))})
	if err != nil {
		tb.Fatalf("create stream: %v", err)
	}
	e.deleteLater(tb, name)
	e.active(tb, name)
	return name
}

func (e *env) deleteLater(tb testing.TB, name string) {
	tb.Helper()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		in := &kinesis.DeleteStreamInput{StreamName: &name}
		if e.features.Consumers {
			in.EnforceConsumerDeletion = aws.Bool(true)
		}
		if _, err := e.DeleteStream(ctx, in); err != nil && code(err) != "ResourceNotFoundException" {
			tb.Errorf("delete stream %s: %v", name, err)
		}
	})
}

func (e *env) summary(tb testing.TB, name string) types.StreamDescriptionSummary {
	tb.Helper()
	out, err := e.DescribeStreamSummary(tb.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &name})
	if err != nil {
		tb.Fatalf("describe stream %s: %v", name, err)
	}
	return *out.StreamDescriptionSummary
}

// active waits until the stream is ACTIVE.
func (e *env) active(tb testing.TB, name string) {
	tb.Helper()
	eventually(tb, "stream is ACTIVE", func(context.Context) bool {
		return e.summary(tb, name).StreamStatus == types.StreamStatusActive
	})
}

// shards lists all shards, whatever the pages.
func (e *env) shards(tb testing.TB, name string, filter *types.ShardFilter) []types.Shard {
	tb.Helper()
	in := &kinesis.ListShardsInput{StreamName: &name, ShardFilter: filter}
	var all []types.Shard
	for {
		out, err := e.ListShards(tb.Context(), in)
		if err != nil {
			tb.Fatalf("list shards of %s: %v", name, err)
		}
		all = append(all, out.Shards...)
		if out.NextToken == nil {
			return all
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
}

// put stores one record and returns where.
func (e *env) put(tb testing.TB, name, key, data string) *kinesis.PutRecordOutput {
	tb.Helper()
	out, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: &key, Data: []byte(data)})
	if err != nil {
		tb.Fatalf("put record: %v", err)
	}
	return out
}

// iterator gets one from the beginning, or from where change says.
func (e *env) iterator(tb testing.TB, name, shard string, change func(*kinesis.GetShardIteratorInput)) *string {
	tb.Helper()
	in := &kinesis.GetShardIteratorInput{StreamName: &name, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if change != nil {
		change(in)
	}
	out, err := e.GetShardIterator(tb.Context(), in)
	if err != nil {
		tb.Fatalf("get %s iterator of %s: %v", in.ShardIteratorType, shard, err)
	}
	return out.ShardIterator
}

func startAt(kind types.ShardIteratorType, number *string) func(*kinesis.GetShardIteratorInput) {
	return func(in *kinesis.GetShardIteratorInput) {
		in.ShardIteratorType, in.StartingSequenceNumber = kind, number
	}
}

// read reads until there are n records, or the shard ends, and returns them with the last answer.
func (e *env) read(tb testing.TB, it *string, n int) ([]types.Record, *kinesis.GetRecordsOutput) {
	tb.Helper()
	var records []types.Record
	var last *kinesis.GetRecordsOutput
	eventually(tb, fmt.Sprintf("%d records are read", n), func(ctx context.Context) bool {
		out, err := e.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: it})
		if err != nil {
			tb.Fatalf("get records: %v", err)
		}
		records, last, it = append(records, out.Records...), out, out.NextShardIterator
		return len(records) >= n || it == nil
	})
	if len(records) != n {
		tb.Fatalf("%d records read, want %d", len(records), n)
	}
	return records, last
}

// end reads on from the answer until the shard ends and returns the last answer; no more records may come.
func (e *env) end(tb testing.TB, from *kinesis.GetRecordsOutput) *kinesis.GetRecordsOutput {
	tb.Helper()
	eventually(tb, "the shard ends", func(ctx context.Context) bool {
		if from.NextShardIterator == nil {
			return true
		}
		out, err := e.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: from.NextShardIterator})
		if err != nil {
			tb.Fatalf("get records: %v", err)
		}
		if len(out.Records) > 0 {
			tb.Fatalf("%d records behind the last one", len(out.Records))
		}
		from = out
		return false
	})
	return from
}

// code is the name of the service's error, or "".
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// wantCode fails unless err is the service's error of one of these names.
func wantCode(tb testing.TB, what string, err error, names ...string) {
	tb.Helper()
	if !slices.Contains(names, code(err)) {
		tb.Errorf("%s: error %v, want %v", what, err, names)
	}
}

func texts(records []types.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Data)
	}
	return out
}

func number(tb testing.TB, s *string) *big.Int {
	tb.Helper()
	n, ok := new(big.Int).SetString(aws.ToString(s), 10)
	if !ok {
		tb.Fatalf("%q is no number", aws.ToString(s))
	}
	return n
}

// covers tells whether a hash key lies in the shard's range.
func covers(tb testing.TB, s types.Shard, h *big.Int) bool {
	tb.Helper()
	return h.Cmp(number(tb, s.HashKeyRange.StartingHashKey)) >= 0 && h.Cmp(number(tb, s.HashKeyRange.EndingHashKey)) <= 0
}

func hashOf(key string) *big.Int {
	sum := md5.Sum([]byte(key))
	return new(big.Int).SetBytes(sum[:])
}

func byID(tb testing.TB, shards []types.Shard, id string) types.Shard {
	tb.Helper()
	for _, s := range shards {
		if aws.ToString(s.ShardId) == id {
			return s
		}
	}
	tb.Fatalf("shard %s is not listed", id)
	return types.Shard{}
}
