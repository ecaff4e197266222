package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const names = "characters of a-z, A-Z, 0-9, '_', '.', '-'"

func consumerOf(streamARN, consumerARN string) func(c *Config) {
	return func(c *Config) {
		c.StreamARN, c.Retrieval.Mode, c.Retrieval.FanOut.ConsumerARN = streamARN, FanOut, consumerARN
	}
}

// Whose stream a name means depends on the credentials; a consumer belongs to one stream.
func TestComplete_readsTheStreamOfTheConsumer(t *testing.T) {
	t.Parallel()
	const stream = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
	c := changed(consumerOf("", stream+"/consumer/cb:1"))
	if err := c.Validate(); err != nil || c.Complete().StreamARN != stream {
		t.Errorf("%v, and StreamARN %q, want %q", err, c.Complete().StreamARN, stream)
	}
	if err := changed(consumerOf(stream, stream+"/consumer/cb:1")).Validate(); err != nil {
		t.Error(err)
	}
	c.Retrieval.Mode = Polling
	if arn := c.Complete().StreamARN; arn != "" {
		t.Errorf("StreamARN is %q in another mode, where FanOut means nothing", arn)
	}
}

func TestValidate_saysFieldValueAndBound(t *testing.T) {
	t.Parallel()
	lm := func(change func(m *LeaseManagementConfig)) func(c *Config) {
		return func(c *Config) { change(&c.LeaseManagement) }
	}
	manyTags := map[string]string{}
	for i := range 51 {
		manyTags[strings.Repeat("k", i+1)] = ""
	}
	for _, c := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.ApplicationName = "" }, `ApplicationName is "", want 3 to 255 ` + names},
		{func(c *Config) { c.ApplicationName = "ab" }, `ApplicationName is "ab", want 3 to 255 ` + names},
		{func(c *Config) { c.ApplicationName = "my app" }, `ApplicationName is "my app", want 3 to 255 ` + names},
		{func(c *Config) { c.ApplicationName = "größe" }, `ApplicationName is "größe", want 3 to 255 ` + names},
		{func(c *Config) { c.StreamName = "" }, `StreamName is "", want 1 to 128 ` + names},
		{
			func(c *Config) { c.StreamName, c.Streams = "", []StreamConfig{} },
			`Streams is empty, want at least one stream, or StreamName in its place; streams that come and go are named by a StreamTracker`,
		},
		{func(c *Config) { c.StreamName = "orders/eu" }, `StreamName is "orders/eu", want 1 to 128 ` + names},
		{func(c *Config) { c.StreamName = strings.Repeat("s", 129) }, `StreamName is "` + strings.Repeat("s", 129) + `", want 1 to 128 ` + names},
		{
			func(c *Config) { c.StreamARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/invoices" },
			`StreamName is "orders", want "invoices" as in StreamARN, or no name`,
		},
		{func(c *Config) { c.StreamARN = "orders" }, `StreamARN is "orders", want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME`},
		{
			func(c *Config) { c.StreamARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders" },
			`StreamARN is "arn:aws:dynamodb:eu-west-1:123456789012:table/orders", want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME, or, for the stream of a DynamoDB table, the option shardlease.WithSource with a source of package retrieval/dynamostreams`,
		},
		{
			func(c *Config) { c.StreamARN = "arn:aws:kinesis:eu-west-1:1234:stream/orders" },
			`StreamARN is "arn:aws:kinesis:eu-west-1:1234:stream/orders", want an account of 12 digits in arn:aws:kinesis:REGION:ACCOUNT:stream/NAME`,
		},
		{
			func(c *Config) { c.StreamARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/" },
			`StreamARN is "arn:aws:kinesis:eu-west-1:123456789012:stream/", want stream/NAME at the end, NAME of 1 to 128 ` + names,
		},
		{
			func(c *Config) { c.StreamARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/c" },
			`StreamARN is "arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/c", want stream/NAME at the end, NAME of 1 to 128 ` + names,
		},
		{
			func(c *Config) { c.StreamARN = "arn:aws-cn:kinesis:eu-west-1:123456789012:stream/orders" },
			`StreamARN is "arn:aws-cn:kinesis:eu-west-1:123456789012:stream/orders", want arn:aws:kinesis:eu-west-1:…, as region eu-west-1 is in that partition`,
		},
		{
			func(c *Config) { c.StreamARN = "arn:awsx:kinesis:eu-west-1:123456789012:stream/orders" },
			`StreamARN is "arn:awsx:kinesis:eu-west-1:123456789012:stream/orders", want arn:aws:kinesis:eu-west-1:…, as region eu-west-1 is in that partition`,
		},
		{
			func(c *Config) { c.StreamARN = "arn:aws:kinesis:us-gov-west-1:123456789012:stream/orders" },
			`StreamARN is "arn:aws:kinesis:us-gov-west-1:123456789012:stream/orders", want arn:aws-us-gov:kinesis:us-gov-west-1:…, as region us-gov-west-1 is in that partition`,
		},
		{
			func(c *Config) { c.StreamARN = "arn:aws:kinesis:eu west:123456789012:stream/orders" },
			`StreamARN is "arn:aws:kinesis:eu west:123456789012:stream/orders", want arn:aws:kinesis:REGION:ACCOUNT:stream/NAME`,
		},
		{func(c *Config) { c.WorkerID = "" }, `WorkerID is empty, want 1 to 2048 bytes`},
		{func(c *Config) { c.WorkerID = strings.Repeat("w", 2049) }, `WorkerID is 2049 bytes long, want at most 2048`},
		{func(c *Config) { c.WorkerID = "w\xff" }, `WorkerID is "w\xff", want UTF-8`},
		{
			func(c *Config) { c.InitialPosition = AtTimestamp(time.Time{}) },
			`InitialPosition is AT_TIMESTAMP 0001-01-01T00:00:00Z, want a time from 1970-01-01T00:00:00Z on`,
		},

		{lm(func(m *LeaseManagementConfig) { m.TableName = "t" }), `LeaseManagement.TableName is "t", want 3 to 255 ` + names},
		{lm(func(m *LeaseManagementConfig) { m.FailoverTime = 499 * time.Millisecond }), `LeaseManagement.FailoverTime is 499ms, want 500ms to 10m0s`},
		{lm(func(m *LeaseManagementConfig) { m.FailoverTime = -10 * time.Second }), `LeaseManagement.FailoverTime is -10s, want 500ms to 10m0s`},
		{lm(func(m *LeaseManagementConfig) { m.FailoverTime = 11 * time.Minute }), `LeaseManagement.FailoverTime is 11m0s, want 500ms to 10m0s`},
		{lm(func(m *LeaseManagementConfig) { m.RenewInterval = 10 * time.Millisecond }), `LeaseManagement.RenewInterval is 10ms, want at least 50ms`},
		{
			lm(func(m *LeaseManagementConfig) { m.FailoverTime, m.RenewInterval = 500*time.Millisecond, time.Second }),
			`LeaseManagement.RenewInterval is 1s, want at most FailoverTime/3 = 166ms`,
		},
		{
			lm(func(m *LeaseManagementConfig) { m.LeaseTakerInterval = time.Minute }),
			`LeaseManagement.LeaseTakerInterval is 1m0s, want at most 3×FailoverTime = 30s`,
		},
		{lm(func(m *LeaseManagementConfig) { m.MaxLeasesForWorker = -1 }), `LeaseManagement.MaxLeasesForWorker is -1, want 0 (no limit) or more`},
		{
			lm(func(m *LeaseManagementConfig) { m.MaxLeasesToStealAtOneTime = -1 }),
			`LeaseManagement.MaxLeasesToStealAtOneTime is -1, want 0 (no limit) or more`,
		},
		{lm(func(m *LeaseManagementConfig) { m.ReadBudget = -1 }), `LeaseManagement.ReadBudget is -1, want 1 to 100000`},
		{
			lm(func(m *LeaseManagementConfig) { m.AssignmentStrategy = "LEASE_COUNT_BASED" }),
			`LeaseManagement.AssignmentStrategy is "LEASE_COUNT_BASED", want one of LeaseCount, ThroughputVariance, Sticky, ConsistentHash, Average`,
		},
		{lm(func(m *LeaseManagementConfig) { m.ShardSyncInterval = time.Millisecond }), `LeaseManagement.ShardSyncInterval is 1ms, want 1s to 24h0m0s`},
		{lm(func(m *LeaseManagementConfig) { m.ShardSyncConfidence = 101 }), `LeaseManagement.ShardSyncConfidence is 101, want 1 to 100`},
		{
			lm(func(m *LeaseManagementConfig) { m.GracefulHandoffTimeout = 2 * time.Hour }),
			`LeaseManagement.GracefulHandoffTimeout is 2h0m0s, want 100ms to 1h0m0s`,
		},
		{lm(func(m *LeaseManagementConfig) { m.MaxLeaseRenewalThreads = 1001 }), `LeaseManagement.MaxLeaseRenewalThreads is 1001, want 1 to 1000`},
		{lm(func(m *LeaseManagementConfig) { m.RequestTimeout = time.Hour }), `LeaseManagement.RequestTimeout is 1h0m0s, want 50ms to 5m0s`},
		{lm(func(m *LeaseManagementConfig) { m.ScanSegments = -4 }), `LeaseManagement.ScanSegments is -4, want 1 to 1000`},
		{lm(func(m *LeaseManagementConfig) { m.Zone = strings.Repeat("z", 129) }), `LeaseManagement.Zone is 129 bytes long, want at most 128`},
		{lm(func(m *LeaseManagementConfig) { m.BillingMode = "FREE" }), `LeaseManagement.BillingMode is "FREE", want "PAY_PER_REQUEST" or "PROVISIONED"`},
		{lm(func(m *LeaseManagementConfig) { m.ReadCapacity = 5 }), `LeaseManagement.ReadCapacity is 5, want 0 unless BillingMode is "PROVISIONED"`},
		{
			lm(func(m *LeaseManagementConfig) { m.BillingMode, m.WriteCapacity = Provisioned, -5 }),
			`LeaseManagement.WriteCapacity is -5, want 1 or more, or 0 for the default`,
		},
		{lm(func(m *LeaseManagementConfig) { m.Tags = manyTags }), `LeaseManagement.Tags is 51 tags, want at most 50`},
		{lm(func(m *LeaseManagementConfig) { m.Tags = map[string]string{"": ""} }), `LeaseManagement.Tags[""] is a key of 0 characters, want 1 to 128`},
		{
			lm(func(m *LeaseManagementConfig) { m.Tags = map[string]string{"AWS:x": ""} }),
			`LeaseManagement.Tags["AWS:x"] is a reserved key, want one that does not start with "aws:"`,
		},
		{
			lm(func(m *LeaseManagementConfig) { m.Tags = map[string]string{"a,b": ""} }),
			`LeaseManagement.Tags["a,b"] is a key with other characters, want letters, digits, spaces and _.:/=+-@`,
		},
		{
			lm(func(m *LeaseManagementConfig) { m.Tags = map[string]string{"k": strings.Repeat("v", 257)} }),
			`LeaseManagement.Tags["k"] is 257 characters long, want at most 256`,
		},
		{
			lm(func(m *LeaseManagementConfig) { m.Tags = map[string]string{"k": "a;b"} }),
			`LeaseManagement.Tags["k"] is "a;b", want letters, digits, spaces and _.:/=+-@`,
		},

		{func(c *Config) { c.Cleanup.Interval = time.Millisecond }, `Cleanup.Interval is 1ms, want 1s to 24h0m0s`},
		{func(c *Config) { c.Cleanup.GarbageInterval = -1 }, `Cleanup.GarbageInterval is -1ns, want 1s to 24h0m0s`},
		{func(c *Config) { c.Cleanup.KeepFinished = time.Millisecond }, `Cleanup.KeepFinished is 1ms, want 1s to 24h0m0s`},
		{
			func(c *Config) { c.Coordinator.ParentShardPollInterval = time.Hour },
			`Coordinator.ParentShardPollInterval is 1h0m0s, want 50ms to 10m0s`,
		},
		{func(c *Config) { c.Lifecycle.ShutdownGrace = -time.Second }, `Lifecycle.ShutdownGrace is -1s, want 1ms to 24h0m0s`},
		{func(c *Config) { c.Lifecycle.TaskBackoff = 1 }, `Lifecycle.TaskBackoff is 1ns, want 1ms to 1h0m0s`},
		{
			func(c *Config) { c.Lifecycle.TaskBackoff, c.Lifecycle.MaxTaskBackoff = time.Minute, time.Second },
			`Lifecycle.MaxTaskBackoff is 1s, want at least TaskBackoff = 1m0s`,
		},
		{func(c *Config) { c.Lifecycle.LogWarningForTaskAfter = -1 }, `Lifecycle.LogWarningForTaskAfter is -1ns, want 1ms to 24h0m0s`},
		{func(c *Config) { c.Retrieval.MaxRecords = -1 }, `Retrieval.MaxRecords is -1, want 1 to 10000`},
		{func(c *Config) { c.Retrieval.IdleTime = 100 * time.Millisecond }, `Retrieval.IdleTime is 100ms, want 200ms to 4m0s`},
		{func(c *Config) { c.Retrieval.MaxIdleTime = 5 * time.Minute }, `Retrieval.MaxIdleTime is 5m0s, want 200ms to 4m0s`},
		{
			func(c *Config) { c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = time.Second, 500*time.Millisecond },
			`Retrieval.MaxIdleTime is 500ms, want at least IdleTime = 1s`,
		},
		{func(c *Config) { c.Retrieval.BehindLatestThreshold = 48 * time.Hour }, `Retrieval.BehindLatestThreshold is 48h0m0s, want 1ms to 24h0m0s`},
		{func(c *Config) { c.Retrieval.OnTrimmed = "Skip" }, `Retrieval.OnTrimmed is "Skip", want "ContinueReading" or "FailRun"`},
		{func(c *Config) { c.Retrieval.ByteBudget = 1 << 20 }, `Retrieval.ByteBudget is 1048576, want at least 10485760, one GetRecords answer of 10 MiB`},
		{func(c *Config) { c.Retrieval.MaxPendingBatches = 101 }, `Retrieval.MaxPendingBatches is 101, want 1 to 100`},
		{func(c *Config) { c.Retrieval.RequestTimeout = time.Hour }, `Retrieval.RequestTimeout is 1h0m0s, want 100ms to 5m0s`},
		{consumerOf("", "arn:aws:kinesis:eu-west-1:123456789012:stream/invoices/consumer/cb:1"), `Retrieval.FanOut.ConsumerARN is ` +
			`"arn:aws:kinesis:eu-west-1:123456789012:stream/invoices/consumer/cb:1", want a consumer of stream "orders", which StreamName names`},
		{consumerOf("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", "arn:aws:kinesis:eu-west-2:123456789012:stream/orders/consumer/cb:1"), `Retrieval.FanOut.ConsumerARN is ` +
			`"arn:aws:kinesis:eu-west-2:123456789012:stream/orders/consumer/cb:1", want a consumer of the stream that StreamARN names: arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/CONSUMER:TIME`},
		{consumerOf("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", "arn:aws:kinesis:eu-west-1:210987654321:stream/orders/consumer/cb:1"), `Retrieval.FanOut.ConsumerARN is ` +
			`"arn:aws:kinesis:eu-west-1:210987654321:stream/orders/consumer/cb:1", want a consumer of the stream that StreamARN names: arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/CONSUMER:TIME`},
		{consumerOf("arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders", "arn:aws:kinesis:cn-north-1:123456789012:stream/orders/consumer/cb:1"), `Retrieval.FanOut.ConsumerARN is ` +
			`"arn:aws:kinesis:cn-north-1:123456789012:stream/orders/consumer/cb:1", want arn:aws-cn:kinesis:cn-north-1:…, as region cn-north-1 is in that partition`},
	} {
		if err := changed(c.change).Validate(); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestValidate_doesNotBlameWhatDerivesFromAFault(t *testing.T) {
	t.Parallel()
	err := changed(func(c *Config) {
		c.LeaseManagement.FailoverTime = time.Hour
		c.LeaseManagement.RenewInterval = 3 * time.Second // cannot be judged
		c.Retrieval.IdleTime = -time.Second
		c.Lifecycle.TaskBackoff = 2 * time.Hour
	}).Validate()
	want := "LeaseManagement.FailoverTime is 1h0m0s, want 500ms to 10m0s\n" +
		"Lifecycle.TaskBackoff is 2h0m0s, want 1ms to 1h0m0s\n" +
		"Retrieval.IdleTime is -1s, want 200ms to 4m0s"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// everyNumber calls f for every field that is a number, durations included, with its path.
func everyNumber(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		name, field := path+v.Type().Field(i).Name, v.Field(i)
		switch {
		case field.Type() == reflect.TypeFor[InitialPosition]():
		case field.Kind() == reflect.Struct:
			everyNumber(field, name+".", f)
		case field.CanInt():
			f(name, field)
		}
	}
}

func TestValidate_refusesEveryNegativeNumber(t *testing.T) {
	t.Parallel()
	c := Default("orders-audit", "orders")
	var paths []string
	everyNumber(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) {
		v.SetInt(-1)
		paths = append(paths, path)
	})
	err := c.Validate()
	if err == nil || len(paths) < 25 {
		t.Fatalf("%d numbers: %v", len(paths), err)
	}
	for _, path := range paths {
		if n := strings.Count(err.Error()+"\n", path+" is -1"); n != 1 {
			t.Errorf("%s is blamed %d times in\n%v", path, n, err)
		}
	}
}

// Whatever the numbers: nothing panics, each line names a field, what Validate accepts is complete and still valid.
func TestValidate_ofAnyNumbers(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 20_000), rapid.Int64Range(0, int64(20*time.Minute)), rapid.Just[int64](0))
	rapid.Check(t, func(t *rapid.T) {
		c := Default("orders-audit", "orders")
		if rapid.Bool().Draw(t, "provisioned") {
			c.LeaseManagement.BillingMode = Provisioned
		}
		everyNumber(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) {
			if rapid.IntRange(0, 8).Draw(t, "change") == 0 {
				v.SetInt(number.Draw(t, path))
			}
		})
		done, err := c.Complete(), c.Validate()
		if err == nil {
			if err := done.Validate(); err != nil {
				t.Fatalf("valid, and not when completed: %v", err)
			}
			m := done.LeaseManagement
			if m.RenewInterval <= 0 || m.RenewInterval > m.FailoverTime/3 || done.Retrieval.MaxIdleTime < done.Retrieval.IdleTime ||
				done.Lifecycle.MaxTaskBackoff < done.Lifecycle.TaskBackoff {
				t.Fatalf("%+v", done)
			}
			return
		}
		for line := range strings.Lines(err.Error()) {
			if !strings.Contains(line, " is ") || !strings.Contains(line, ", want ") || !strings.Contains(strings.SplitN(line, " ", 2)[0], ".") {
				t.Fatalf("%q names no field or no bound", line)
			}
		}
	})
}

func FuzzValidate(f *testing.F) {
	f.Add("app", "stream", "arn:aws:kinesis:eu-west-1:123456789012:stream/stream", "w", "LeaseCount", "k", "v")
	f.Add("", "", "arn::::::", "\xff", "", "aws:", "\x00")
	f.Fuzz(func(t *testing.T, app, stream, arn, worker, strategy, key, value string) {
		c := Config{ApplicationName: app, StreamName: stream, StreamARN: arn, WorkerID: worker}
		c.LeaseManagement.AssignmentStrategy, c.LeaseManagement.Tags = strategy, map[string]string{key: value}
		done, err := c.Complete(), c.Validate()
		if err == nil && (done.StreamName == "" || done.Validate() != nil) {
			t.Fatalf("%+v", c)
		}
	})
}
