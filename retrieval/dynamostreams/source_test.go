package dynamostreams_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	table "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/retrieval/dynamostreams"
	"github.com/shardlease/shardlease/shardsync"
)

// world is a table with a stream, in virtual time.
type world struct {
	*testing.T
	ctx    context.Context
	server *emulator.Server
	db     *dynamodb.Client
	source *dynamostreams.Source
	arn    string

	mu     sync.Mutex
	faults []string // that were retried
	trims  []config.TrimmedEvent
	reads  int
}

func over(t *testing.T, run func(w *world), opts ...emulator.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := emulator.New(opts...)
		cloud := server.AWSConfig()
		w := &world{
			T: t, ctx: ctx, server: server, db: dynamodb.NewFromConfig(cloud),
			source: dynamostreams.New(dynamodbstreams.NewFromConfig(cloud)),
		}
		out, err := w.db.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName: aws.String("orders"), BillingMode: table.BillingModePayPerRequest,
			AttributeDefinitions: []table.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: table.ScalarAttributeTypeS}},
			KeySchema:            []table.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: table.KeyTypeHash}},
			StreamSpecification:  &table.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: table.StreamViewTypeNewImage},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.arn = *out.TableDescription.LatestStreamArn
		run(w)
	})
}

func (w *world) put(from, to int) {
	w.Helper()
	for i := from; i < to; i++ {
		if _, err := w.db.PutItem(w.ctx, &dynamodb.PutItemInput{TableName: aws.String("orders"), Item: map[string]table.AttributeValue{
			"id": &table.AttributeValueMemberS{Value: "a"}, "n": &table.AttributeValueMemberN{Value: strconv.Itoa(i)},
		}}); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) detector() *retrieval.KinesisShardDetector {
	return retrieval.NewShardDetector(w.source, retrieval.DetectorOptions{StreamARN: w.arn})
}

func (w *world) shards() []shardsync.Shard {
	w.Helper()
	shards, err := w.detector().ListShards(w.ctx, "orders", shardsync.Filter{})
	if err != nil {
		w.Fatal(err)
	}
	return shards
}

// open reads a shard; start says what is not usual.
func (w *world) open(start retrieval.Start) processor.RecordSource {
	w.Helper()
	cfg := config.Default("app", "").Complete().Retrieval
	cfg.Deaggregate = false
	p := retrieval.NewPolling(w.source, cfg, retrieval.PollingOptions{Worker: "w", Hooks: &config.Hooks{
		Retried: func(e config.RetryEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.faults = append(w.faults, e.Err.Error())
		},
		Trimmed: func(e config.TrimmedEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.trims = append(w.trims, e)
		},
		Fetched: func(config.FetchEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reads++
		},
	}})
	start.Stream, start.StreamARN = "orders", w.arn
	if start.ShardID == "" {
		start.ShardID = w.shards()[0].ID
	}
	if start.From.IsZero() {
		start.From = checkpoint.TrimHorizon
	}
	s, err := p.Open(w.ctx, start)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// take reads until so many changes have come, or the shard ends.
func (w *world) take(s processor.RecordSource, n int) (got []int, last checkpoint.ExtendedSequenceNumber, end *processor.End) {
	w.Helper()
	for len(got) < n {
		b, err := s.Next(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		for _, r := range b.Records {
			e, err := dynamostreams.EventOf(r)
			if err != nil {
				w.Fatal(err)
			}
			v, _ := strconv.Atoi(e.NewImage["n"].(*table.AttributeValueMemberN).Value)
			got, last = append(got, v), r.Position()
		}
		b.Release()
		if b.End != nil {
			return got, last, b.End
		}
	}
	return got, last, nil
}

func numbers(from, to int) (n []int) {
	for i := from; i < to; i++ {
		n = append(n, i)
	}
	return n
}

func (w *world) equal(what string, want, got any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A record's Data is, value for value, what the service sends.
func TestSource_dataIsTheRecordAsTheServiceHasIt(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		sent := make(chan []byte, 100)
		w.server.Observe(func(e emulator.Event) {
			if e.Operation == "GetRecords" {
				sent <- e.Response
			}
		})
		w.put(0, 1)
		s := w.open(retrieval.Start{})
		defer s.Close()
		b, err := s.Next(w.ctx)
		if err != nil {
			w.Fatal(err)
		}
		var page struct{ Records []json.RawMessage }
		if err := json.Unmarshal(<-sent, &page); err != nil {
			w.Fatal(err)
		}
		var want, got any
		if err := errors.Join(json.Unmarshal(page.Records[0], &want), json.Unmarshal(b.Records[0].Data, &got)); err != nil {
			w.Fatal(err)
		}
		w.equal("the record", want, got)
		if key := b.Records[0].PartitionKey; key != `{"id":{"S":"a"}}` {
			w.Errorf("its key is %s", key)
		}
	})
}

func TestSource_listsAllPagesAndFollowsShardsThatEnd(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.put(0, 3)
		const rolls = 250
		for range rolls {
			time.Sleep(time.Second)
			if _, err := w.server.RollTableStream("orders"); err != nil {
				w.Fatal(err)
			}
		}
		w.put(3, 5)
		all := w.shards()
		if len(all) != rolls+1 {
			w.Fatalf("%d shards are listed, want %d", len(all), rolls+1)
		}
		var got []int
		id, read := all[0].ID, 0
		for id != "" && read <= rolls {
			read++
			s := w.open(retrieval.Start{ShardID: id})
			id = ""
			if read > rolls { // the open one
				more, _, _ := w.take(s, 2)
				got = append(got, more...)
			} else {
				more, _, end := w.take(s, 1000)
				got = append(got, more...)
				if end == nil || len(end.Children) != 1 || end.Gone {
					w.Fatalf("the end of shard %d is %+v", read, end)
				}
				id = end.Children[0].ID
			}
			s.Close()
		}
		w.equal("the changes along the lineage", numbers(0, 5), got)
	})
}

// Of what LATEST was pinned to, only the service's own times tell: what is older is read and left out.
func TestSource_leavesOutWhatIsOlderThanTheTimeOfLatest(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.put(0, 2_600)
		time.Sleep(10 * time.Second)
		at := time.Now()
		w.put(2_600, 2_610)
		s := w.open(retrieval.Start{From: checkpoint.Latest, StartAt: at})
		defer s.Close()
		got, _, _ := w.take(s, 10)
		w.equal("the changes since then", numbers(2_600, 2_610), got)
		n := w.server.Counts().Of(emulator.CountKey{Service: emulator.DynamoDBStreams, Operation: "GetRecords"})
		w.mu.Lock()
		defer w.mu.Unlock()
		if n.Requests < 3 || n.Requests > 6 || w.reads > 3 {
			w.Errorf("%d pages were read in %d rounds", n.Requests, w.reads)
		}
	})
}

// A stream that was disabled has shards that nothing follows.
func TestSource_aShardOfADisabledStreamEndsWithoutChildren(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.put(0, 3)
		s := w.open(retrieval.Start{})
		defer s.Close()
		if _, err := w.db.UpdateTable(w.ctx, &dynamodb.UpdateTableInput{
			TableName: aws.String("orders"), StreamSpecification: &table.StreamSpecification{StreamEnabled: aws.Bool(false)},
		}); err != nil {
			w.Fatal(err)
		}
		got, _, end := w.take(s, 1000)
		w.equal("the changes", numbers(0, 3), got)
		if end == nil || len(end.Children) != 0 || end.Gone {
			w.Errorf("the end is %+v, want one without children", end)
		}
	})
}

// What follows a shard may be known a little later than its end, and asking for it may fail: neither the last records nor the shards
// that follow are waited for in vain, and the stream is not listed for it.
func TestSource_asksAgainForWhatFollowsAShard(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.put(0, 3)
		id := w.shards()[0].ID
		if _, err := w.server.RollTableStream("orders"); err != nil {
			w.Fatal(err)
		}
		var asked int
		children := func(body []byte) bool { return strings.Contains(string(body), "CHILD_SHARDS") }
		w.server.Observe(func(e emulator.Event) {
			if e.Operation == "DescribeStream" && !children(e.Request) {
				asked++
			}
		})
		w.server.Inject(emulator.Rule{Operation: "DescribeStream", Match: children, Times: 5, Effect: emulator.Throttle()})
		s := w.open(retrieval.Start{ShardID: id})
		defer s.Close()
		began := time.Now()
		got, _, _ := w.take(s, 3)
		if took := time.Since(began); took > time.Second {
			w.Errorf("the last records came after %v", took)
		}
		w.equal("the changes", numbers(0, 3), got)
		_, _, end := w.take(s, 1)
		if end == nil || len(end.Children) != 1 {
			w.Errorf("the end is %+v, want one child", end)
		}
		if asked != 0 {
			w.Errorf("the stream was listed by %d requests", asked)
		}
	})
}

// Pages that were passed over are not read again because a later one failed: else a slow service would never let the reader get through.
func TestSource_keepsItsWayThroughWhatIsOlder(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		w.put(0, 2_600)
		time.Sleep(10 * time.Second)
		at := time.Now()
		w.put(2_600, 2_610)
		w.server.Inject(emulator.Rule{Operation: "GetRecords", Skip: 2, Times: 3, Effect: emulator.Throttle()})
		s := w.open(retrieval.Start{From: checkpoint.Latest, StartAt: at})
		defer s.Close()
		got, _, _ := w.take(s, 10)
		w.equal("the changes since then", numbers(2_600, 2_610), got)
		if n := w.server.Counts().Of(emulator.CountKey{Operation: "GetRecords"}); n.Requests > 8 {
			w.Errorf("%d requests, want three pages, three that were refused, and a look or two behind the end", n.Requests)
		}
	})
}
