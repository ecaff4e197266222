package shardlease_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// A nil pointer in an interface is not nil, and would crash the process at the first request; a nil interface would be as if the option
// were not there, and another client read in its place.
func TestNew_refusesClientsThatAreNilPointers(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:kinesis:us-east-1:111111111111:stream/a"
	for want, opt := range map[string]shardlease.Option{
		"WithKinesis was given a nil *kinesis.Client, want a client":                                                                 shardlease.WithKinesis((*kinesis.Client)(nil)),
		"WithDynamoDB was given a nil *dynamodb.Client, want a client":                                                               shardlease.WithDynamoDB((*dynamodb.Client)(nil)),
		`WithStreamClient was given "` + arn + `" with a nil *kinesis.Client, want`:                                                  shardlease.WithStreamClient(arn, (*kinesis.Client)(nil)),
		"WithStreamTracker was given a nil *shardlease_test.tracker, want a StreamTracker":                                           shardlease.WithStreamTracker((*tracker)(nil)),
		"WithKinesis was given nil, want a client; leave the option out to have one made":                                            shardlease.WithKinesis(nil),
		"WithDynamoDB was given nil, want a client; leave the option out to have one made":                                           shardlease.WithDynamoDB(nil),
		"WithAssignmentStrategy was given nil, want a strategy; leave the option out to share by LeaseManagement.AssignmentStrategy": shardlease.WithAssignmentStrategy(nil),
	} {
		cfg := config.Default("app", "a")
		if strings.HasPrefix(want, "WithStreamTracker") {
			cfg.StreamName = ""
		}
		_, err := shardlease.New(cfg, aws.Config{Region: "us-east-1"}, (&fleettest.Audit{}).Processor("w"), opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

// A client that is given for a stream and that nothing would use means that another stream is read than the one that was meant.
func TestNew_refusesAClientThatNothingWouldUse(t *testing.T) {
	t.Parallel()
	const base = "arn:aws:kinesis:us-east-1:111111111111:stream/"
	cloud := emulator.New().AWSConfig()
	client := kinesis.NewFromConfig(cloud)
	cloud.Region = "eu-west-1"
	abroad := kinesis.NewFromConfig(cloud)
	cloud.Region = "us-east-1"
	for _, c := range []struct {
		cfg    func(*config.Config)
		arn    string
		client *kinesis.Client
		want   string // "" if New takes it
	}{
		{nil, base + "orders", client, `and nothing would use the client, as StreamName "orders" has no account: want the stream's ARN in StreamARN, too, or WithKinesis`},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, base + "orders", client, ""},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, base + "*", client, ""},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, base + "bills", client, "want the ARN of the only stream that is read: " + base + "orders"},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, strings.Replace(base, "1111", "2222", 1) + "*", client, "want the ARN of the only stream that is read: " + base + "orders"},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, base + "ord*", client, "want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME, NAME or *"},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, base + "orders", abroad, "with a client of region eu-west-1, want one of us-east-1"},
		{func(c *config.Config) { c.StreamARN = base + "orders" }, "arn:aws:kinesis:cn-north-1:111111111111:stream/*", client, "in the partition that has the region"},
		// One of several streams may come, or have left leases.
		{func(c *config.Config) { c.StreamName, c.Streams = "", named("orders") }, base + "bills", client, ""},
	} {
		cfg := config.Default("app", "orders")
		if c.cfg != nil {
			c.cfg(&cfg)
		}
		_, err := shardlease.New(cfg, cloud, (&fleettest.Audit{}).Processor("w"), shardlease.WithStreamClient(c.arn, c.client))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("New with a client for %s: %v, want %q", c.arn, err, c.want)
		}
	}
}

// Whoever looks for the stream in the region of the client for all looks in vain.
func TestStreams_anErrorNamesTheRegionOfTheClientThatWasAsked(t *testing.T) {
	t.Parallel()
	const partners, want = "arn:aws:kinesis:eu-west-1:210987654321:stream/partners", `stream "partners" in region eu-west-1: stream not found`
	for name, change := range map[string]func(*config.Config){
		"the only stream":       func(c *config.Config) { c.StreamName, c.StreamARN = "", partners },
		"one of several":        func(c *config.Config) { several(config.StreamConfig{StreamARN: partners})(c) },
		"one whose key is told": func(c *config.Config) { several(config.StreamConfig{StreamARN: partners, CreationEpoch: 7})(c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				home, away := emulator.New(), emulator.New()
				there := away.AWSConfig()
				there.Region = "eu-west-1"
				cfg := fleettest.Config("a")
				change(&cfg)
				var mu sync.Mutex
				var said []string
				hear := func(err error) {
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						said = append(said, err.Error())
					}
				}
				cfg.Hooks = &config.Hooks{Synced: func(e config.SyncEvent) { hear(e.Err) }, Retried: func(e config.RetryEvent) { hear(e.Err) }}
				w, err := shardlease.New(cfg, home.AWSConfig(), processor.Each(func(context.Context, processor.Record) error { return nil }),
					shardlease.WithStreamClient(partners, kinesis.NewFromConfig(there)))
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
				defer stop()
				hear(w.Run(ctx))
				if all := strings.Join(said, "\n"); !strings.Contains(all, want) || strings.Contains(all, "region us-east-1") {
					t.Errorf("%s\nwant %s, and no other region", all, want)
				}
			})
		})
	}
}
