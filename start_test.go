package shardlease_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

func TestNew_reportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	cfg := config.Default("app", "")
	cfg.LeaseManagement.FailoverTime = 10 * time.Second
	cfg.LeaseManagement.RenewInterval = 4 * time.Second
	cfg.Retrieval.MaxRecords = 20_000
	_, err := shardlease.New(cfg, emulator.New().AWSConfig(), processor.Each(nil))
	if err == nil {
		t.Fatal("New took a configuration with three faults")
	}
	for _, want := range []string{"StreamName", "LeaseManagement.RenewInterval is 4s", "Retrieval.MaxRecords is 20000"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q:\n%v", want, err)
		}
	}
}

func TestNew_refusesANilFactoryAndAMissingRegion(t *testing.T) {
	t.Parallel()
	_, err := shardlease.New(config.Default("app", "orders"), aws.Config{}, nil)
	if err == nil || !strings.Contains(err.Error(), "Factory is nil") || !strings.Contains(err.Error(), "no Region") {
		t.Errorf("New(…, aws.Config{}, nil) = %v, want an error that names both faults", err)
	}
}

func makeTable(f *fleettest.Fleet, key string) {
	f.T.Helper()
	table := fleettest.App
	if _, err := f.DynamoDB.CreateTable(f.T.Context(), &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: ddbtypes.BillingModePayPerRequest,
		KeySchema:            []ddbtypes.KeySchemaElement{{AttributeName: &key, KeyType: ddbtypes.KeyTypeHash}},
		AttributeDefinitions: []ddbtypes.AttributeDefinition{{AttributeName: &key, AttributeType: ddbtypes.ScalarAttributeTypeS}},
	}); err != nil {
		f.T.Fatal(err)
	}
}

func TestRun_endsWithAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	stream, table := fleettest.Stream, fleettest.App
	cases := map[string]struct {
		spoil  func(f *fleettest.Fleet)
		change func(*config.Config)
		want   []string
	}{
		"no such stream": {
			change: func(c *config.Config) { c.StreamName = "typo" },
			want:   []string{`"typo"`, "not found"},
		},
		"stream is being deleted": {
			spoil: func(f *fleettest.Fleet) {
				makeTable(f, "leaseKey")
				time.Sleep(2 * time.Minute)
				if _, err := f.Kinesis.DeleteStream(f.T.Context(), &kinesis.DeleteStreamInput{StreamName: &stream}); err != nil {
					f.T.Fatal(err)
				}
			},
			want: []string{`"orders"`, "delet"},
		},
		"table with another key": {
			spoil: func(f *fleettest.Fleet) {
				makeTable(f, "id")
			},
			want: []string{"orders-audit", "leaseKey", "id"},
		},
		"table is missing and may not be created": {
			change: func(c *config.Config) { c.LeaseManagement.CreateTable = false },
			want:   []string{"orders-audit", "CreateTable"},
		},
		"no permission for the table": {
			spoil: func(f *fleettest.Fleet) {
				f.Server.Inject(emulator.Rule{Operation: "DescribeTable", Effect: emulator.Fail(400, "AccessDeniedException", "User is not authorized")})
			},
			want: []string{"orders-audit", "dynamodb:DescribeTable"},
		},
		"no permission for the stream": {
			spoil: func(f *fleettest.Fleet) {
				f.Server.Inject(emulator.Rule{Operation: "ListShards", Effect: emulator.Fail(400, "AccessDeniedException", "User is not authorized")})
			},
			want: []string{"orders", "kinesis:ListShards"},
		},
		"table in KCL 3.x mode": {
			spoil: func(f *fleettest.Fleet) {
				w := f.Start("maker")
				<-w.Ready()
				if err := w.Stop(); err != nil {
					f.T.Fatal(err)
				}
				if _, err := f.DynamoDB.PutItem(f.T.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]ddbtypes.AttributeValue{
					"leaseKey":   &ddbtypes.AttributeValueMemberS{Value: "Migration3.0"},
					"entityType": &ddbtypes.AttributeValueMemberS{Value: "CLIENT_VERSION_MIGRATION"},
					"cv":         &ddbtypes.AttributeValueMemberS{Value: "CLIENT_VERSION_3X"},
				}}); err != nil {
					f.T.Fatal(err)
				}
			},
			want: []string{"orders-audit", "3.x"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 2, emulator.WithControlDelay(time.Minute))
				time.Sleep(2 * time.Minute)
				if c.spoil != nil {
					c.spoil(f)
				}
				if c.change == nil {
					c.change = func(*config.Config) {}
				}
				err := f.Start("w", c.change).Wait()
				if err == nil {
					t.Fatal("Run returned nil")
				}
				for _, want := range c.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("Run returned an error without %q:\n%v", want, err)
					}
				}
			})
		})
	}
}

func TestRun_goesOnForEverWhileTheTableIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Put(100, 10)
		back := f.Server.Inject(emulator.Rule{Service: "dynamodb", Effect: emulator.Refuse()})
		w := f.Start("w")
		time.Sleep(time.Hour)
		select {
		case <-w.Ready():
			t.Error("ready without a table")
		default:
		}
		back()
		f.WaitDelivered(10 * time.Second)
		f.Check()
	})
}

func TestRun_secondCallIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		w := f.Start("w")
		<-w.Ready()
		if err := w.Run(t.Context()); !errors.Is(err, shardlease.ErrAlreadyRun) {
			t.Errorf("second Run returned %v, want ErrAlreadyRun", err)
		}
	})
}

func TestRun_isNotStoppedByRowsThatAreNoLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		w := f.Start("first")
		<-w.Ready()
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		table := fleettest.App
		s := func(v string) ddbtypes.AttributeValue { return &ddbtypes.AttributeValueMemberS{Value: v} }
		n := func(v string) ddbtypes.AttributeValue { return &ddbtypes.AttributeValueMemberN{Value: v} }
		good := func(key string, change map[string]ddbtypes.AttributeValue) map[string]ddbtypes.AttributeValue {
			item := map[string]ddbtypes.AttributeValue{
				"leaseKey": s(key), "leaseCounter": n("3"), "ownerSwitchesSinceCheckpoint": n("0"),
				"checkpoint": s("TRIM_HORIZON"), "checkpointSubSequenceNumber": n("0"),
			}
			for k, v := range change {
				if v == nil {
					delete(item, k)
				} else {
					item[k] = v
				}
			}
			return item
		}
		for _, item := range []map[string]ddbtypes.AttributeValue{
			good("no-counter", map[string]ddbtypes.AttributeValue{"leaseCounter": nil}),
			good("list", map[string]ddbtypes.AttributeValue{"parentShardId": &ddbtypes.AttributeValueMemberL{Value: []ddbtypes.AttributeValue{s("x")}}}),
			good("range", map[string]ddbtypes.AttributeValue{"startingHashKey": s("20"), "endingHashKey": s("10")}),
			good("checkpoint", map[string]ddbtypes.AttributeValue{"checkpoint": s("12x")}),
			{"leaseKey": s("w1"), "entityType": s("WORKER_METRIC_STATS"), "lut": n("1")},
			{"leaseKey": s("what"), "entityType": s("SOMETHING_NEW")},
		} {
			if _, err := f.DynamoDB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
				t.Fatal(err)
			}
		}
		skipped := map[string]int{}
		f.Put(100, 10)
		f.Start("second", func(c *config.Config) {
			c.Hooks = &config.Hooks{LeaseSkipped: func(e config.LeaseEvent) { skipped[e.LeaseKey]++ }}
		})
		f.WaitDelivered(5 * time.Second)
		time.Sleep(time.Minute)
		for _, key := range []string{"no-counter", "list", "range", "checkpoint", "what"} {
			if skipped[key] != 1 {
				t.Errorf("row %s was reported %d times in a minute, want once", key, skipped[key])
			}
		}
		if skipped["w1"] != 0 {
			t.Error("the metrics row of a Java worker was reported, want silence")
		}
		f.Check()
	})
}

// KCL 3.5 says in the lease table that its leader assigns leases from now on, KCL 3.0 to 3.4 in a table of their own.
func TestRun_endsWithinAMinuteOnceJavaWorkersChangeTheirMode(t *testing.T) {
	t.Parallel()
	s := func(v string) ddbtypes.AttributeValue { return &ddbtypes.AttributeValueMemberS{Value: v} }
	for name, c := range map[string]struct {
		table, key string
		failover   time.Duration
		reads      int64         // of single rows, each minute
		within     time.Duration // and a stop without peers
	}{
		"in the lease table":                              {fleettest.App, "leaseKey", 10 * time.Second, 1, 16 * time.Second},
		"in the lease table, looked at each five minutes": {fleettest.App, "leaseKey", 10 * time.Minute, 2, 76 * time.Second},
		"in KCL's own table":                              {fleettest.App + "-CoordinatorState", "key", 10 * time.Second, 1, 76 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 2)
				reads := emulator.CountKey{Service: emulator.DynamoDB, Operation: "GetItem"}
				w := f.Start("w", func(cfg *config.Config) {
					cfg.LeaseManagement.FailoverTime = c.failover
					cfg.Retrieval.MaxIdleTime = 20 * time.Second // records are not the point here
				})
				time.Sleep(time.Minute)
				f.Server.ResetCounts()
				time.Sleep(20 * time.Minute)
				if n := f.Server.Counts().Of(reads).Requests; n < 18*c.reads || n > 23*c.reads {
					t.Errorf("%d single reads in 20 minutes, want %d a minute", n, c.reads)
				}
				if c.table != fleettest.App {
					if _, err := f.DynamoDB.CreateTable(t.Context(), &dynamodb.CreateTableInput{
						TableName: &c.table, BillingMode: ddbtypes.BillingModePayPerRequest,
						AttributeDefinitions: []ddbtypes.AttributeDefinition{{AttributeName: &c.key, AttributeType: ddbtypes.ScalarAttributeTypeS}},
						KeySchema:            []ddbtypes.KeySchemaElement{{AttributeName: &c.key, KeyType: ddbtypes.KeyTypeHash}},
					}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := f.DynamoDB.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: map[string]ddbtypes.AttributeValue{
					c.key: s("Migration3.0"), "entityType": s("CLIENT_VERSION_MIGRATION"), "cv": s("CLIENT_VERSION_3X"),
				}}); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err := w.Wait()
				if err == nil || !strings.Contains(err.Error(), "3.x") || !strings.Contains(err.Error(), c.table) {
					t.Errorf("Run returned %v, want an error about KCL 3.x mode in %s", err, c.table)
				}
				if took := time.Since(began); took > c.within {
					t.Errorf("Run ended %v after the mode had changed, want %v", took, c.within)
				}
				for key, row := range f.Rows() {
					if owner, owned := row["leaseOwner"]; owned {
						t.Errorf("lease %s is left to %v", key, owner)
					}
				}
			})
		})
	}
}

// requireBothProcesses fails unless the error names the worker id and both processes that have it.
func requireBothProcesses(t *testing.T, err error) {
	t.Helper()
	dup, ok := errors.AsType[*leases.DuplicateWorkerError](err)
	if !ok {
		t.Errorf("error %v, want one that names the other process", err)
		return
	}
	for _, part := range []string{`"same"`, "here is " + dup.OurProcess, "the other one is " + dup.TheirProcess} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
	host, hostErr := os.Hostname()
	if hostErr != nil || !strings.Contains(dup.OurProcess, host) || !strings.Contains(dup.TheirProcess, host) || dup.OurNonce == dup.TheirNonce {
		t.Errorf("processes %q and %q, want both on %s (%v)", dup.OurProcess, dup.TheirProcess, host, hostErr)
	}
}
