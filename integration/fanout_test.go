package integration

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/awshttp"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval"
)

// fanOutLacks is what the servers that we know do not do.
type fanOutLacks struct {
	exclusion bool // two subscriptions of one consumer to a shard live side by side
	takeover  bool // the earlier one does not end
	shardEnd  bool // a closed shard's subscription goes on, or ends without children
	removal   bool // a subscription goes on when its consumer is removed
}

var fanOutKinds = map[string]fanOutLacks{
	"emulator":      {},
	"aws":           {},
	"ministack":     {},
	"kinesis-local": {exclusion: true, takeover: true, shardEnd: true},
}

// forever is the patience of these tests with foreign servers, which may be slow; nothing is measured.
const forever = 2 * time.Minute

// TestFanOut_againstAServer reads by subscriptions from the server at SHARDLEASE_KINESIS_ENDPOINT, which is of the kind
// SHARDLEASE_KINESIS_KIND, or from the emulator on a port. What a server is declared to lack is logged.
func TestFanOut_againstAServer(t *testing.T) {
	t.Parallel()
	endpoint, kind := os.Getenv("SHARDLEASE_KINESIS_ENDPOINT"), os.Getenv("SHARDLEASE_KINESIS_KIND")
	if endpoint == "" {
		url, stop, err := emulator.New().Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		endpoint, kind = url, "emulator"
	}
	lacks, known := fanOutKinds[kind]
	if !known {
		t.Logf("declared missing: fan-out, of %q", kind)
		return
	}
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("000000000000", "secret", "")}
	for name, c := range map[string]struct {
		missing bool
		run     func(t *testing.T, f *fanOutStream)
	}{
		"reads, and resumes after a checkpoint":                   {false, fanOutResumes},
		"starts at LATEST":                                        {false, fanOutLatest},
		"is refused beside a young subscription, then takes over": {lacks.exclusion, fanOutTakesOver},
		"goes on beside another one":                              {false, fanOutTwice},
		"ends with the shard, and knows its children":             {lacks.shardEnd, fanOutShardEnd},
		"registers anew when the consumer was removed":            {lacks.removal, fanOutRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.missing {
				t.Logf("declared missing in %s", kind)
				return
			}
			c.run(t, newFanOutStream(t, cfg))
		})
	}
}

// fanOutStream is a stream of one shard.
type fanOutStream struct {
	t    *testing.T
	cfg  aws.Config
	api  *kinesis.Client
	name string
	n    int // records put

	mu      sync.Mutex
	retries []string // codes, or messages
}

func newFanOutStream(t *testing.T, cfg aws.Config) *fanOutStream {
	t.Helper()
	f := &fanOutStream{t: t, cfg: cfg, api: kinesis.NewFromConfig(awshttp.Prepare(cfg)), name: fmt.Sprintf("fanout-%d", time.Now().UnixNano())}
	ctx, cancel := context.WithTimeout(t.Context(), forever)
	defer cancel()
	if _, err := f.api.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: &f.name, ShardCount: new(int32(1))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = f.api.DeleteStream(context.WithoutCancel(t.Context()), &kinesis.DeleteStreamInput{StreamName: &f.name, EnforceConsumerDeletion: new(true)})
	})
	if err := kinesis.NewStreamExistsWaiter(f.api).Wait(ctx, &kinesis.DescribeStreamInput{StreamName: &f.name}, forever); err != nil {
		t.Fatal(err)
	}
	return f
}

// worker is what one worker reads with.
func (f *fanOutStream) worker() *retrieval.FanOut {
	c := config.Default("app", f.name).Complete().Retrieval
	c.FanOut.ConsumerName = "audit"
	hooks := &config.Hooks{Retried: func(e config.RetryEvent) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if api, ok := errors.AsType[smithy.APIError](e.Err); ok {
			f.retries = append(f.retries, api.ErrorCode())
		} else {
			f.retries = append(f.retries, e.Err.Error())
		}
	}}
	polling := retrieval.NewPolling(f.api, c, retrieval.PollingOptions{Worker: "w", Hooks: hooks})
	return retrieval.NewFanOut(kinesis.NewFromConfig(awshttp.Subscriptions(f.cfg, c.ByteBudget)), polling)
}

func (f *fanOutStream) retried() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.retries)
}

func (f *fanOutStream) open(w *retrieval.FanOut, from checkpoint.ExtendedSequenceNumber) processor.RecordSource {
	f.t.Helper()
	s, err := w.Open(f.t.Context(), retrieval.Start{Stream: f.name, ShardID: f.shards()[0], From: from})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(s.Close)
	return s
}

func (f *fanOutStream) shards() (ids []string) {
	f.t.Helper()
	out, err := f.api.ListShards(f.t.Context(), &kinesis.ListShardsInput{StreamName: &f.name})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range out.Shards {
		ids = append(ids, *s.ShardId)
	}
	return ids
}

func (f *fanOutStream) put(n int) {
	f.t.Helper()
	for range n {
		if _, err := f.api.PutRecord(f.t.Context(), &kinesis.PutRecordInput{StreamName: &f.name, PartitionKey: new("k"), Data: fmt.Append(nil, f.n)}); err != nil {
			f.t.Fatal(err)
		}
		f.n++
	}
}

// take reads until the record with number last.
func (f *fanOutStream) take(s processor.RecordSource, first, last int) (at checkpoint.ExtendedSequenceNumber) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), forever)
	defer cancel()
	for next := first; next <= last; {
		b, err := s.Next(ctx)
		if err != nil || b.End != nil {
			f.t.Fatalf("%v and the end %v before record %d; tried again: %v", err, b.End, next, f.retried())
		}
		for _, r := range b.Records {
			if string(r.Data) != strconv.Itoa(next) {
				f.t.Fatalf("record %s, want %d", r.Data, next)
			}
			next++
			at = r.Position()
		}
		b.Release()
	}
	return at
}

func fanOutResumes(t *testing.T, f *fanOutStream) {
	t.Helper()
	f.put(10)
	w := f.worker()
	s := f.open(w, checkpoint.TrimHorizon)
	f.take(s, 0, 9)
	f.put(3)
	at := f.take(s, 10, 12)
	s.Close()
	f.put(2)
	f.take(f.open(w, at), 13, 14)
	if err := w.Deregister(t.Context()); err != nil {
		t.Error(err)
	}
}

func fanOutLatest(t *testing.T, f *fanOutStream) {
	t.Helper()
	f.put(3)
	s := f.open(f.worker(), checkpoint.Latest)
	ctx, cancel := context.WithTimeout(t.Context(), forever)
	defer cancel()
	b, err := s.Next(ctx) // an empty batch: it is open
	if err != nil || len(b.Records) != 0 {
		t.Fatalf("%v and %d records, want an empty batch; tried again: %v", err, len(b.Records), f.retried())
	}
	b.Release()
	f.put(2)
	f.take(s, 3, 4)
}

func fanOutTakesOver(t *testing.T, f *fanOutStream) {
	t.Helper()
	f.put(3)
	first := f.open(f.worker(), checkpoint.TrimHorizon)
	at := f.take(first, 0, 2)
	second := f.open(f.worker(), at)
	f.put(2)
	f.take(second, 3, 4)
	if !slices.Contains(f.retried(), "ResourceInUseException") {
		t.Errorf("tried again: %v, want a ResourceInUseException among them", f.retried())
	}
	second.Close()
	f.put(1)
	f.take(first, 3, 5)
}

func fanOutTwice(t *testing.T, f *fanOutStream) {
	t.Helper()
	f.put(2)
	w := f.worker()
	at := f.take(f.open(w, checkpoint.TrimHorizon), 0, 1)
	other := f.worker()
	s := f.open(other, at)
	f.put(2)
	f.take(s, 2, 3)
}

func fanOutShardEnd(t *testing.T, f *fanOutStream) {
	t.Helper()
	f.put(3)
	s := f.open(f.worker(), checkpoint.TrimHorizon)
	f.take(s, 0, 2)
	parent := f.shards()[0]
	middle := new(big.Int).Lsh(big.NewInt(1), 127).String()
	if _, err := f.api.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: &f.name, ShardToSplit: &parent, NewStartingHashKey: &middle}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), forever)
	defer cancel()
	for {
		b, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("%v; tried again: %v", err, f.retried())
		}
		b.Release()
		if b.End == nil {
			continue
		}
		if len(b.End.Children) != 2 || !slices.Contains(b.End.Children[0].ParentIDs, parent) {
			t.Errorf("the end is %+v, want two children of %s", b.End, parent)
		}
		return
	}
}

func fanOutRemoved(t *testing.T, f *fanOutStream) {
	t.Helper()
	f.put(2)
	s := f.open(f.worker(), checkpoint.TrimHorizon)
	f.take(s, 0, 1)
	out, err := f.api.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &f.name})
	if err != nil {
		t.Fatal(err)
	}
	arn := out.StreamDescriptionSummary.StreamARN
	if _, err := f.api.DeregisterStreamConsumer(t.Context(), &kinesis.DeregisterStreamConsumerInput{StreamARN: arn, ConsumerName: new("audit")}); err != nil {
		t.Fatal(err)
	}
	f.put(2)
	f.take(s, 2, 3)
	list, err := f.api.ListStreamConsumers(t.Context(), &kinesis.ListStreamConsumersInput{StreamARN: arn})
	if err != nil || len(list.Consumers) != 1 || !strings.Contains(aws.ToString(list.Consumers[0].ConsumerName), "audit") {
		t.Errorf("registered afterwards: %+v, %v; want audit", list, err)
	}
}
