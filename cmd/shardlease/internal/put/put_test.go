package put_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/put"
	"github.com/shardlease/shardlease/emulator"
)

// stream is an emulated stream of two shards and what it holds.
type stream struct {
	server *emulator.Server
	client *kinesis.Client
}

func newStream(t *testing.T, opts ...emulator.Option) stream {
	t.Helper()
	server := emulator.New(opts...)
	if err := server.CreateStream("s", 2); err != nil {
		t.Fatal(err)
	}
	return stream{server, kinesis.NewFromConfig(server.AWSConfig())}
}

// stored reads everything, by key.
func (s stream) stored(t *testing.T) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	shards, err := s.client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("s")})
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards.Shards {
		it, err := s.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: aws.String("s"), ShardId: shard.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
		})
		if err != nil {
			t.Fatal(err)
		}
		for next, behind := it.ShardIterator, int64(1); behind > 0; {
			out, err := s.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: next})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range out.Records {
				got[*r.PartitionKey] = append(got[*r.PartitionKey], string(r.Data))
			}
			next, behind = out.NextShardIterator, *out.MillisBehindLatest
			if len(out.Records) == 0 {
				behind = 0
			}
		}
	}
	return got
}

func (s stream) put(ctx context.Context, in string, field string) (log string, err error) {
	return s.pack(ctx, strings.NewReader(in), field, 0)
}

func (s stream) pack(ctx context.Context, in io.Reader, field string, lines int) (log string, err error) {
	var b bytes.Buffer
	err = put.Run(ctx, s.client, in, put.Options{Stream: "s", KeyField: field, Aggregate: lines, Source: "lines.json", Where: "the emulator", Log: &b})
	return b.String(), err
}

func TestRun_keepsTheOrderOfEachKeyThroughThrottling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.server.Inject(emulator.Rule{Operation: "PutRecords", Probability: 0.4, Seed: 7, Effect: emulator.Throttle()})
		var in strings.Builder
		want := map[string][]string{}
		for i := range 600 {
			key := strconv.Itoa(i % 7)
			text := fmt.Sprintf(`{"n":%d,"origin":%s}`, i, key)
			in.WriteString(text + "\n")
			want[key] = append(want[key], text)
		}
		log, err := s.put(t.Context(), in.String(), "origin")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.stored(t)); diff != "" {
			t.Errorf("records of each key (-lines +stored):\n%s", diff)
		}
		if !strings.Contains(log, "600 records, ") {
			t.Errorf("log = %q, want a summary of 600 records", log)
		}
	})
}

func TestRun_keepsTheOrderOfEachKeyWhereSomeRecordsOfACallAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, emulator.WithLimits()) // a shard takes 1000 records a second
		var in strings.Builder
		want := map[string][]string{}
		for i := range 6000 {
			key := fmt.Sprint("key", i%900)
			text := fmt.Sprintf(`{"n":%d,"k":%q}`, i, key)
			in.WriteString(text + "\n")
			want[key] = append(want[key], text)
		}
		log, err := s.put(t.Context(), in.String(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.stored(t)); diff != "" {
			t.Errorf("records of each key (-lines +stored):\n%s", diff)
		}
		if strings.Contains(log, " 0 retries") {
			t.Errorf("log = %q, want retries: nothing was refused, and the test shows nothing", log)
		}
	})
}

func TestRun_ofAnEmptyInputSaysSo(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	log, err := s.put(t.Context(), "", "")
	if err != nil || !strings.Contains(log, "0 records") || !strings.Contains(log, "lines.json holds no line to put") {
		t.Errorf("log = %q, error = %v; want no error, and a notice", log, err)
	}
}

func TestRun_leavesBlankLinesOut(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	log, err := s.put(t.Context(), "a\n\nb\n\n", "")
	if err != nil || !strings.Contains(log, "2 records") || !strings.Contains(log, "2 blank lines left out") {
		t.Errorf("log = %q, error = %v; want 2 records and 2 blank lines", log, err)
	}
}

func TestRun_sendsEverythingBeforeABadLineAndNothingAfterIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ bad, want string }{
		"invalid JSON":  {`{"k":`, `lines.json, line 3: the line is not valid JSON (unexpected end of JSON input), want an object with the field "k": "{\"k\":"`},
		"missing field": {`{"a":1}`, `lines.json, line 3: the object has no field "k": "{\"a\":1}"`},
		"2 MiB":         {strings.Repeat("x", 2<<20), "lines.json, line 3: the line has 2097152 bytes, want at most 1048576 (1 MiB, with its key)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t)
			_, err := s.put(t.Context(), "{\"k\":\"a\"}\n{\"k\":2}\n"+c.bad+"\n{\"k\":\"never\"}\n", "k")
			if err == nil || err.Error() != c.want {
				t.Errorf("error = %v\nwant    %s", err, c.want)
			}
			if diff := cmp.Diff(map[string][]string{"a": {`{"k":"a"}`}, "2": {`{"k":2}`}}, s.stored(t)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_doesNotWaitForAnInputThatIsSilent(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	in, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := put.Run(ctx, s.client, in, put.Options{Stream: "s", Source: "standard input", Where: "the emulator", Log: io.Discard})
	if err == nil {
		t.Error("no error, though the input has not ended")
	}
}
