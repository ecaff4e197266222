package shardlease_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/dynamostreams"
	"github.com/shardlease/shardlease/shardsync"
)

// rarely reads what is idle each 20 seconds at most, where hours pass and records are not the point.
func rarely(c *config.Config) { c.Retrieval.MaxIdleTime = 20 * time.Second }

// The id of a shard does not tell to which stream it belongs, and a shard that has left a stream is not listed, like one that was never
// there. So the row names the stream. Without that, a worker of the wrong table finished the leases of the right one, whose records
// were never read then.
func TestDynamoStreams_aWorkerOfAnotherTableFinishesNothing(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		bills, err := f.DynamoDB.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: aws.String("bills"), BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
		})
		if err != nil {
			t.Fatal(err)
		}
		w := f.StartOnTable("w1", rarely)
		time.Sleep(time.Hour) // shards have rolled and left both streams
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.PutItems(50, 5)
		before := f.Rows()

		right := f.ARN
		f.ARN = *bills.TableDescription.LatestStreamArn
		err = f.StartOnTable("w2").Wait()
		if !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), right) || !strings.Contains(err.Error(), f.ARN) {
			t.Errorf("Run over another table's stream returned %v, want one that names both streams", err)
		}
		if diff := cmp.Diff(before, f.Rows(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("it changed rows (-before +after):\n%s", diff)
		}

		f.ARN = right
		f.StartOnTable("w3")
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	}, emulator.WithTableStreamShardLife(3*time.Minute), emulator.WithTableStreamRetention(9*time.Minute))
}

// The workers of the old stream still run when the first one of the next stream starts. They take leases of it, and must not take its
// shards for ones that have left their own.
func TestDynamoStreams_aRollingDeploymentToTheNextStreamLosesNothing(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		old := f.StartOnTable("old")
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		f.Enable(false)
		time.Sleep(time.Minute)
		f.Enable(true)
		f.PutItems(200, 20)
		f.StartOnTable("new")
		if err := old.Wait(); !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), "set StreamARN to that earlier or later stream of the table") {
			t.Errorf("Run over the old stream returned %v, want one that says that there are leases of another stream", err)
		}
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	}, emulator.WithTableStreamShards(4))
}

func TestDynamoStreams_aStreamThatWasDisabledForSecondsIsNotGivenUp(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		w := f.StartOnTable("w1")
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.PutItems(50, 5)
		old := f.ARN
		f.Enable(false)
		time.Sleep(10 * time.Second)
		f.Enable(true)
		if err := f.StartOnTable("w2").Wait(); !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), old) {
			t.Errorf("Run over the next stream returned %v, want one that names the earlier stream", err)
		}
		f.ARN = old
		f.StartOnTable("w3")
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	})
}

// A stream that was disabled is read to its end, also by who comes late; then its leases are finished and the worker idles. The table's
// next stream is another one: its reader refuses the leases of the first until they are finished.
func TestDynamoStreams_aDisabledStreamIsReadToItsEndAndTheNextOneGoesOnFromThere(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.PutItems(50, 5)
		w := f.StartOnTable("w1")
		f.WaitDelivered(time.Minute)
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.PutItems(50, 5)
		old := f.ARN
		f.Enable(false)
		time.Sleep(time.Hour)
		f.Enable(true)
		f.PutItems(50, 5)
		time.Sleep(time.Minute)

		err := f.StartOnTable("w2").Wait()
		if !errors.Is(err, shardsync.ErrOtherHistory) || !strings.Contains(err.Error(), "set StreamARN to that earlier or later stream of the table") {
			t.Errorf("Run over the next stream returned %v, want one that says that the leases are those of an earlier stream", err)
		}

		next := f.ARN
		f.ARN = old
		w = f.StartOnTable("w3")
		time.Sleep(10 * time.Minute)
		if got := f.Audit.Distinct(); got != 100 {
			t.Errorf("%d of the 100 changes of the first stream were delivered", got)
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		f.ARN = next
		f.StartOnTable("w4")
		f.WaitDelivered(5 * time.Minute)
		f.Check()
	}, emulator.WithTableStreamShards(2))
}

// A stream that is disabled already when the application first starts has a day's changes for it.
func TestDynamoStreams_beginsWithADisabledStream(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.PutItems(50, 5)
		time.Sleep(12 * time.Minute)
		f.PutItems(50, 5)
		f.Enable(false)
		w := f.StartOnTable("w1")
		f.WaitDelivered(time.Minute)
		f.Check()
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	}, emulator.WithTableStreamShardLife(5*time.Minute), emulator.WithTableStreamRetention(20*time.Minute))
}

// When a disabled stream has left the account, each worker of an application that has read it to its end says so and ends, also if none
// of them has anything to read by then. While something is left to do, as for a processor that stands still, they stay, and do not fill the log.
func TestDynamoStreams_runEndsWhenTheStreamHasLeftTheAccount(t *testing.T) {
	t.Parallel()
	gone := func(t *testing.T, f *fleettest.TableFleet, w *fleettest.Worker) {
		t.Helper()
		err := w.Wait()
		if !errors.Is(err, shardsync.ErrStreamNotFound) || !strings.Contains(err.Error(), f.ARN) || !strings.Contains(err.Error(), "LatestStreamArn") {
			t.Errorf("Run returned %v, want that there is no stream %s, and where to find the table's next one", err, f.ARN)
		}
	}
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
			f.PutItems(50, 5)
			w1, w2 := f.StartOnTable("w1", rarely), f.StartOnTable("w2", rarely)
			f.WaitDelivered(time.Minute)
			f.Enable(false)
			began := time.Now()
			gone(t, f, w1)
			gone(t, f, w2)
			if took := time.Since(began); took < 20*time.Minute || took > 40*time.Minute {
				t.Errorf("the last one ended %v after the stream was disabled, want some minutes more than the retention of 20", took)
			}
			f.Check()
		}, emulator.WithTableStreamShards(2), emulator.WithTableStreamRetention(20*time.Minute))
	})
	t.Run("a processor stands still", func(t *testing.T) {
		t.Parallel()
		overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
			f.PutItems(50, 5)
			var log lines
			resume := make(chan struct{})
			w := f.StartOnTableWith("w1", processor.Each(func(ctx context.Context, _ processor.Record) error {
				select {
				case <-resume:
				case <-ctx.Done():
				}
				return nil
			}), func(c *config.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				rarely(c)
			})
			time.Sleep(time.Minute)
			f.Enable(false)
			time.Sleep(3 * time.Hour)
			if n := log.count("level=WARN msg=\"leases compared with shards\""); n != 1 {
				t.Errorf("%d warnings about the audit, want one", n)
			}
			close(resume)
			gone(t, f, w)
		}, emulator.WithTableStreamRetention(20*time.Minute))
	})
}

// Leases that another library made are not ours to read on.
func TestDynamoStreams_refusesLeasesWithRangesOfHashKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ end, want string }{
		"of the Java adapter": {"1", "the Java adapter for DynamoDB Streams has made it"},
		"of Kinesis":          {"340282366920938463463374607431768211455", "an application that reads a stream of Kinesis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
				w := f.StartOnTable("w1")
				<-w.Ready()
				if err := w.Stop(); err != nil {
					t.Error(err)
				}
				_, open := f.Shards()
				s := func(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
				if _, err := f.DynamoDB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(fleettest.App), Item: map[string]types.AttributeValue{
					"leaseKey": s(open[0]), "leaseCounter": &types.AttributeValueMemberN{Value: "7"}, "checkpoint": s("TRIM_HORIZON"),
					"startingHashKey": s("0"), "endingHashKey": s(c.end), "ownerSwitchesSinceCheckpoint": &types.AttributeValueMemberN{Value: "0"},
				}}); err != nil {
					t.Fatal(err)
				}
				err := f.StartOnTable("w2").Wait()
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), open[0]) || !strings.Contains(err.Error(), "choose another ApplicationName") {
					t.Errorf("Run returned %v, want the shard and %q", err, c.want)
				}
			})
		})
	}
}

// A worker that reads Kinesis, started with the name of an application that reads a table's stream, ends before it has made leases of its own,
// which would end the others.
func TestDynamoStreams_aWorkerOfKinesisDoesNotBeginAmongTheirLeases(t *testing.T) {
	t.Parallel()
	overTable(t, func(t *testing.T, f *fleettest.TableFleet) {
		f.PutItems(50, 5)
		f.StartOnTable("w1")
		f.WaitDelivered(time.Minute)
		if err := f.Server.CreateStream("bills", 2); err != nil {
			t.Fatal(err)
		}
		for _, change := range []func(*config.Config){func(c *config.Config) { c.StreamName = "bills" }, func(c *config.Config) { c.StreamName, c.Streams = "", named("bills") }} {
			cfg := fleettest.Config("kinesis")
			change(&cfg)
			w, err := shardlease.New(cfg, f.Server.ClientConfig("kinesis"), processor.Each(func(context.Context, processor.Record) error { return nil }))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err = w.Run(ctx)
			cancel()
			if err == nil || !strings.Contains(err.Error(), "choose another ApplicationName") && !strings.Contains(err.Error(), "keys of the other form") {
				t.Errorf("Run returned %v, want an error that says that the leases are those of a table's stream", err)
			}
		}
		f.PutItems(50, 5)
		f.WaitDelivered(time.Minute)
		f.Check()
	})
}

func TestNew_refusesWhatATablesStreamCannotHave(t *testing.T) {
	t.Parallel()
	cloud := emulator.New().AWSConfig()
	source := shardlease.WithSource(dynamostreams.New(dynamodbstreams.NewFromConfig(cloud)))
	const arn = "arn:aws:dynamodb:us-east-1:123456789012:table/orders/stream/2026-01-02T03:04:05.678"
	each := processor.Each(func(context.Context, processor.Record) error { return nil })
	for _, c := range []struct {
		change func(*config.Config)
		opts   []shardlease.Option
		want   string
	}{
		{func(c *config.Config) { c.StreamARN = "" }, nil, `StreamARN is "", want arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL`},
		{func(c *config.Config) { c.StreamARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders" }, nil, `StreamARN is "arn:aws:kinesis:`},
		{func(c *config.Config) { c.StreamARN = "arn:aws:dynamodb:us-east-1:123456789012:table/orders" }, nil, `want arn:aws:dynamodb:REGION`},
		{func(c *config.Config) { c.StreamARN = strings.Replace(arn, "us-east-1", "eu-west-1", 1) }, nil, `want region us-east-1, which the client of WithSource has`},
		{func(c *config.Config) { c.StreamARN = strings.Replace(arn, "arn:aws:", "arn:aws-cn:", 1) }, nil, `want arn:aws:dynamodb:us-east-1:…, as region us-east-1 is in that partition`},
		{func(c *config.Config) { c.StreamARN = arn + " " }, nil, `want a LABEL such as 2026-01-02T03:04:05.678 in arn:aws:dynamodb:REGION`},
		{func(c *config.Config) { c.StreamARN = strings.Replace(arn, "2026", "the\n", 1) }, nil, `want a LABEL such as 2026-01-02T03:04:05.678 in arn:aws:dynamodb:REGION`},
		{func(c *config.Config) { c.StreamARN = strings.Replace(arn, "orders", "ab", 1) }, nil, `:table/ab/stream/2026-01-02T03:04:05.678", want a TABLE of 3 to 255 characters`},
		{func(c *config.Config) { c.StreamARN = strings.Replace(arn, "123456789012", "1234", 1) }, nil, `want an account of 12 digits in arn:aws:dynamodb:REGION`},
		{func(c *config.Config) { c.StreamARN = strings.Replace(arn, "us-east-1", "", 1) }, nil, `want a REGION such as us-east-1 in arn:aws:dynamodb:REGION`},
		{func(c *config.Config) { c.LeaseManagement.TableName = "orders" }, nil, `LeaseManagement.TableName is "orders", want another table than the one whose stream is read, which StreamARN names: ` + arn},
		{func(c *config.Config) { c.ApplicationName = "orders" }, nil, `ApplicationName is "orders", want another name, or a LeaseManagement.TableName, since the lease table would be the one whose stream is read, which StreamARN names: ` + arn},
		{func(c *config.Config) { c.ApplicationName, c.LeaseManagement.TableName = "orders", "orders-audit" }, nil, ""},
		{func(c *config.Config) { c.StreamName = "others" }, nil, `StreamName is "others", want "orders", the table in StreamARN, or no name`},
		{func(c *config.Config) { c.InitialPosition = config.AtTimestamp(time.Unix(1e9, 0)) }, nil, `InitialPosition is AT_TIMESTAMP 2001-09-09T01:46:40Z, want TRIM_HORIZON or LATEST`},
		{func(c *config.Config) { c.Retrieval.Mode = config.FanOut }, nil, `Retrieval.Mode is "FanOut", want "Polling"`},
		{func(c *config.Config) { c.Streams = []config.StreamConfig{{StreamName: "a"}} }, nil, `Streams is 1 streams, want none`},
		{func(c *config.Config) { c.FormerStreams.Deletion = config.DeleteAfterWait }, nil, `FormerStreams is set, want nothing`},
		{nil, []shardlease.Option{shardlease.WithStreamTracker(nil)}, `WithStreamTracker was given beside WithSource`},
		{nil, []shardlease.Option{shardlease.WithSource(nil)}, `WithSource was given nil, want what`},
		{nil, []shardlease.Option{shardlease.WithSource(dynamostreams.New(nil))}, `WithSource: dynamostreams.New was given nil, want a client`},
		{nil, []shardlease.Option{shardlease.WithSource(dynamostreams.New((*dynamodbstreams.Client)(nil)))}, `WithSource: dynamostreams.New was given a nil *dynamodbstreams.Client`},
		{nil, []shardlease.Option{shardlease.WithSource(&dynamostreams.Source{})}, `WithSource: dynamostreams.New was given nil`},
		{nil, []shardlease.Option{nil}, ""},
		{nil, []shardlease.Option{shardlease.WithSource((*dynamostreams.Source)(nil))}, `WithSource was given a nil *dynamostreams.Source`},
		{nil, nil, ""},
		{func(c *config.Config) { c.StreamName = "orders" }, nil, ""},
	} {
		cfg := config.Default("orders-audit", "")
		cfg.StreamARN = arn
		if c.change != nil {
			c.change(&cfg)
		}
		_, err := shardlease.New(cfg, cloud, each, append([]shardlease.Option{source}, c.opts...)...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("New says %v, want %q", err, c.want)
		}
	}
}
