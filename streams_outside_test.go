package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// account is the Kinesis of another account: it serves requests that carry its streams' ARN and no others.
type account struct {
	api    *kinesis.Client
	number string
	name   string

	mu     sync.Mutex
	served int
	wrong  []string
}

// local is the emulator's own ARN of the stream that a request names.
func (a *account) local(call string, arn *string) *string {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := "arn:aws:kinesis:us-east-1:" + a.number + ":stream/" + a.name
	if aws.ToString(arn) != want {
		a.wrong = append(a.wrong, fmt.Sprintf("%s names %q", call, aws.ToString(arn)))
	}
	a.served++
	return aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + a.name)
}

func (a *account) DescribeStreamSummary(ctx context.Context, in *kinesis.DescribeStreamSummaryInput, o ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error) {
	own := *in
	own.StreamARN = a.local("DescribeStreamSummary", in.StreamARN)
	out, err := a.api.DescribeStreamSummary(ctx, &own, o...)
	if err == nil {
		out.StreamDescriptionSummary.StreamARN = in.StreamARN
	}
	return out, err
}

func (a *account) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, o ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	own := *in
	own.StreamARN = a.local("GetRecords", in.StreamARN)
	return a.api.GetRecords(ctx, &own, o...)
}

func (a *account) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, o ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	own := *in
	own.StreamARN = a.local("GetShardIterator", in.StreamARN)
	return a.api.GetShardIterator(ctx, &own, o...)
}

func (a *account) ListShards(ctx context.Context, in *kinesis.ListShardsInput, o ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	own := *in
	if in.NextToken == nil {
		own.StreamARN = a.local("ListShards", in.StreamARN)
	}
	return a.api.ListShards(ctx, &own, o...)
}

// Two accounts have a stream of one name. Each is read by its own client, under its own ARN; they share one lease table, and the
// worker that was told of neither reads them as well.
func TestStreams_ofOtherAccountsAreReadByTheirOwnClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 2, fleettest.Stream)
		// The second emulator is the other account; the fleet's helpers put into the first one.
		theirs := fleetOf(t, 2, fleettest.Stream)
		other := &account{api: kinesis.NewFromConfig(theirs.Server.ClientConfig("w")), number: "111111111111", name: fleettest.Stream}
		const arn = "arn:aws:kinesis:us-east-1:111111111111:stream/" + fleettest.Stream
		f.With(shardlease.WithStreamClient("arn:aws:kinesis:us-east-1:111111111111:stream/*", other))
		streams := several(
			config.StreamConfig{StreamName: fleettest.Stream, AccountID: "000000000000"},
			config.StreamConfig{StreamARN: arn},
		)
		var mu sync.Mutex
		got := map[string]int{} // records by identifier
		count := func(s processor.Shard) processor.RecordProcessor {
			return processor.Each(func(_ context.Context, r processor.Record) error {
				mu.Lock()
				defer mu.Unlock()
				got[s.StreamIdentifier+" of "+s.Stream]++
				return nil
			})(s)
		}
		f.Put(50, 10)
		theirs.Put(70, 10)
		w0 := f.StartWith("w0", count, streams)
		time.Sleep(20 * time.Second)
		only := several(config.StreamConfig{StreamName: "none", AccountID: "000000000000", CreationEpoch: 1})
		f.StartWith("w1", count, only) // has heard of neither, and gets its share all the same
		time.Sleep(20 * time.Second)
		if err := w0.Stop(); err != nil {
			t.Error(err)
		}
		f.Put(50, 10)
		theirs.Put(70, 10)
		time.Sleep(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		own, foreign := 0, 0
		for id, n := range got {
			switch {
			case strings.HasPrefix(id, "000000000000:orders:") && strings.HasSuffix(id, " of orders"):
				own = n
			case strings.HasPrefix(id, "111111111111:orders:") && strings.HasSuffix(id, " of orders"):
				foreign = n
			}
		}
		if own != 100 || foreign != 140 || len(got) != 2 {
			t.Errorf("records %v, want 100 of the own account and 140 of the other", got)
		}
		other.mu.Lock()
		defer other.mu.Unlock()
		if len(other.wrong) > 0 || other.served == 0 {
			t.Errorf("the other account was asked %d times, wrongly by %v", other.served, other.wrong)
		}
	})
}

func TestNew_refusesStreamsThatItCannotReach(t *testing.T) {
	t.Parallel()
	cloud := emulator.New().AWSConfig()
	const arn = "arn:aws:kinesis:eu-west-1:111111111111:stream/orders"
	api := kinesis.NewFromConfig(cloud, func(o *kinesis.Options) { o.Region = "eu-west-1" })
	for name, c := range map[string]struct {
		opts []shardlease.Option
		want string
	}{
		"of another region":       {nil, `Streams[0].StreamARN is "` + arn + `", want region us-east-1, which the Kinesis client has, or a client of its own for the stream (WithStreamClient)`},
		"with a client":           {[]shardlease.Option{shardlease.WithStreamClient(arn, api)}, ""},
		"with an account's":       {[]shardlease.Option{shardlease.WithStreamClient("arn:aws:kinesis:eu-west-1:111111111111:stream/*", api)}, ""},
		"with a client for what?": {[]shardlease.Option{shardlease.WithStreamClient("orders", api), shardlease.WithStreamClient(arn, api)}, `WithStreamClient was given "orders"`},
		"with no client":          {[]shardlease.Option{shardlease.WithStreamClient(arn, nil)}, `WithStreamClient was given "` + arn + `" with nil, want a client`},
		"with a tracker too":      {[]shardlease.Option{shardlease.WithStreamClient(arn, api), shardlease.WithStreamTracker(&tracker{})}, "Streams is 1 streams, want none beside a StreamTracker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default("app", "")
			cfg.Streams = []config.StreamConfig{{StreamARN: arn}}
			_, err := shardlease.New(cfg, cloud, processor.Each(func(context.Context, processor.Record) error { return nil }), c.opts...)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("New: %v, want %q in it", err, c.want)
			}
		})
	}
}

// A worker of one stream and one of several on one table: who comes later ends with an error that names the table and both
// forms, and has changed nothing. A row of the other form that somebody writes later stops nobody.
func TestStreams_neverShareATableWithAWorkerOfOne(t *testing.T) {
	t.Parallel()
	for name, firstIsOne := range map[string]bool{"one first": true, "several first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 2, fleettest.Stream)
				one, many := func(*config.Config) {}, several(named(fleettest.Stream)...)
				if !firstIsOne {
					one, many = many, one
				}
				f.Put(20, 4)
				first := f.Start("first", one)
				f.WaitDelivered(10 * time.Second)
				time.Sleep(time.Second)
				before := f.Rows()
				second := f.Start("second", many)
				err := second.Wait()
				mixed, is := errors.AsType[*leases.MixedKeysError](err)
				if !is || mixed.Table != fleettest.App || !strings.Contains(err.Error(), "shardId-000000000000") || !strings.Contains(err.Error(), "account:name:epoch:shardId") {
					t.Errorf("Run of the second: %v, want an error that names table and forms", err)
				}
				if after := f.Rows(); len(after) != len(before) {
					t.Errorf("%d rows, before %d", len(after), len(before))
				}
				key := "123456789012:other:5:shardId-000000000000"
				if !firstIsOne {
					key = "shardId-000000000077"
				}
				table := fleettest.App
				if _, err := f.DynamoDB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
					"leaseKey": &types.AttributeValueMemberS{Value: key}, "leaseCounter": &types.AttributeValueMemberN{Value: "0"},
					"checkpoint": &types.AttributeValueMemberS{Value: "TRIM_HORIZON"}, "ownerSwitchesSinceCheckpoint": &types.AttributeValueMemberN{Value: "0"},
				}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				f.Put(20, 4)
				f.WaitDelivered(10 * time.Second)
				if row := f.Rows()[key]; row["leaseOwner"] != nil {
					t.Errorf("the row of the other form was taken: %v", row)
				}
				if err := first.Stop(); err != nil {
					t.Error(err)
				}
				f.Check()
			})
		})
	}
}
