package config

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// changed returns the default configuration with a change.
func changed(change func(c *Config)) Config {
	c := Default("orders-audit", "orders")
	change(&c)
	return c
}

func TestDefault_isValidAndNeedsNothingElse(t *testing.T) {
	t.Parallel()
	c := Default("orders-audit", "orders")
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.InitialPosition != TrimHorizon() || !c.LeaseManagement.CreateTable || c.LeaseManagement.FailoverTime != 10*time.Second {
		t.Errorf("%+v", c)
	}
}

func TestDefault_workerIDNamesHostAndProcessAndIsNewEachTime(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(fmt.Sprintf(`^%s/%d/[0-9a-f]{8}$`, regexp.QuoteMeta(host), os.Getpid()))
	a, b := Default("app", "s").WorkerID, Default("app", "s").WorkerID
	if !want.MatchString(a) || a == b {
		t.Errorf("%s, then %s", a, b)
	}
}

func TestComplete_derivesFromFailoverTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ failover, renew, look time.Duration }{
		{0, 3308333333, 5 * time.Second},
		{10 * time.Second, 3308333333, 5 * time.Second},
		{30 * time.Second, 9975 * time.Millisecond, 15 * time.Second},
		{500 * time.Millisecond, 141666666, 250 * time.Millisecond},
		{10 * time.Minute, 199975 * time.Millisecond, 5 * time.Minute},
	} {
		config := changed(func(cfg *Config) { cfg.LeaseManagement.FailoverTime = c.failover })
		if err := config.Validate(); err != nil {
			t.Error(err)
		}
		done := config.Complete()
		if err := done.Validate(); err != nil {
			t.Errorf("completed: %v", err)
		}
		m := done.LeaseManagement
		if m.RenewInterval != c.renew || m.LeaseTakerInterval != c.look || m.TableName != "orders-audit" {
			t.Errorf("FailoverTime %s: renew %s, look %s, table %s", c.failover, m.RenewInterval, m.LeaseTakerInterval, m.TableName)
		}
	}
}

func TestComplete_twiceChangesNothingAndLeavesTheOriginal(t *testing.T) {
	t.Parallel()
	same := cmp.Options{cmp.AllowUnexported(InitialPosition{}), cmpopts.IgnoreFields(Config{}, "Logger")}
	for _, c := range []Config{{}, Default("app", "s"), {
		StreamARN:       "arn:aws:kinesis:eu-west-1:123456789012:stream/s",
		LeaseManagement: LeaseManagementConfig{FailoverTime: -time.Second, BillingMode: Provisioned, ReadCapacity: 7},
	}} {
		before, once := c, c.Complete()
		if diff := cmp.Diff(before, c, same); diff != "" {
			t.Errorf("the original changed:\n%s", diff)
		}
		if diff := cmp.Diff(once, once.Complete(), same); diff != "" {
			t.Errorf("twice:\n%s", diff)
		}
		if once.Logger == nil || once.Hooks == nil {
			t.Error("no logger or no hooks")
		}
	}
}

func TestComplete_keepsWhatIsSet(t *testing.T) {
	t.Parallel()
	c := changed(func(c *Config) {
		c.LeaseManagement.FailoverTime = -time.Second // wrong: Validate says so, Complete leaves it
		c.LeaseManagement.RenewInterval = time.Second
		c.LeaseManagement.TableName = "other"
		c.Lifecycle.TaskBackoff = time.Minute
		c.Retrieval.IdleTime = 2 * time.Second
	}).Complete()
	if c.LeaseManagement.FailoverTime != -time.Second || c.LeaseManagement.RenewInterval != time.Second ||
		c.LeaseManagement.TableName != "other" || c.Lifecycle.MaxTaskBackoff != time.Minute || c.Retrieval.MaxIdleTime != 2*time.Second {
		t.Errorf("%+v", c)
	}
}

func TestComplete_takesTheStreamNameFromTheARN(t *testing.T) {
	t.Parallel()
	c := changed(func(c *Config) {
		c.StreamName, c.StreamARN = "", "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders.v2"
	})
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if got := c.Complete().StreamName; got != "orders.v2" {
		t.Errorf("stream %q", got)
	}
}

func TestComplete_givesCapacityOnlyToProvisionedTables(t *testing.T) {
	t.Parallel()
	if m := Default("app", "s").Complete().LeaseManagement; m.ReadCapacity != 0 || m.WriteCapacity != 0 || m.BillingMode != OnDemand {
		t.Errorf("on demand: %+v", m)
	}
	c := changed(func(c *Config) { c.LeaseManagement.BillingMode, c.LeaseManagement.WriteCapacity = Provisioned, 40 })
	if m := c.Complete().LeaseManagement; m.ReadCapacity != 10 || m.WriteCapacity != 40 {
		t.Errorf("provisioned: %+v", m)
	}
}

// Values that users recommend to each other, and values that KCL has.
func TestValidate_acceptsWhatUsersBring(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *Config){
		"30 s, 5 s, 10 s, CPUs × 2": func(c *Config) {
			m := &c.LeaseManagement
			m.FailoverTime, m.RenewInterval, m.ShardSyncInterval = 30*time.Second, 5*time.Second, 10*time.Second
			m.MaxLeasesForWorker = runtime.NumCPU() * 2
		},
		"the same for looking and renewing": func(c *Config) {
			m := &c.LeaseManagement
			m.FailoverTime, m.RenewInterval, m.LeaseTakerInterval = 30*time.Second, 5*time.Second, 10*time.Second
			m.MaxLeaseRenewalThreads = runtime.NumCPU() * 2
		},
		"KCL's defaults": func(c *Config) {
			m := &c.LeaseManagement
			m.FailoverTime, m.RenewInterval, m.LeaseTakerInterval = 10*time.Second, 3308*time.Millisecond, 20050*time.Millisecond
			m.MaxLeasesForWorker, m.MaxLeasesToStealAtOneTime, m.RequestTimeout = 1<<31-1, 1, time.Minute
			c.Coordinator.ParentShardPollInterval = 10 * time.Second
			c.Retrieval.IdleTime, c.Retrieval.MaxPendingBatches = 1500*time.Millisecond, 4
		},
		"a third exactly":     func(c *Config) { c.LeaseManagement.RenewInterval = 10 * time.Second / 3 },
		"what the error says": func(c *Config) { c.LeaseManagement.RenewInterval = 3330 * time.Millisecond },
		"zero values":         func(c *Config) { *c = Config{ApplicationName: "app", StreamName: "s", WorkerID: "w"} },
		"no table creation":   func(c *Config) { c.LeaseManagement.CreateTable = false },
		"provisioned": func(c *Config) {
			m := &c.LeaseManagement
			m.BillingMode, m.ReadCapacity, m.WriteCapacity = Provisioned, 1, 5000
		},
		"tags": func(c *Config) {
			c.LeaseManagement.Tags = map[string]string{"team": "billing", "Größe/kind:x": "", "cost-center": "a=b+c@d"}
		},
		"name and ARN": func(c *Config) { c.StreamARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders" },
		"a time":       func(c *Config) { c.InitialPosition = AtTimestamp(time.Unix(0, 0)) },
		"LATEST":       func(c *Config) { c.InitialPosition = Latest() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := changed(change).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInitialPosition_isPrintedLikeKCLNamesIt(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 13, 30, 0, 5e6, time.FixedZone("CET", 3600))
	for p, want := range map[InitialPosition]string{
		{}: "TRIM_HORIZON", TrimHorizon(): "TRIM_HORIZON", Latest(): "LATEST", AtTimestamp(at): "AT_TIMESTAMP 2024-02-29T12:30:00.005Z",
	} {
		if p.String() != want {
			t.Errorf("%s, want %s", p, want)
		}
	}
	if got, ok := AtTimestamp(at).Timestamp(); !ok || !got.Equal(at) || Latest().IsLatest() == TrimHorizon().IsLatest() {
		t.Error("Timestamp or IsLatest")
	}
}

func TestValidate_namesThreeFaultsAtOnce(t *testing.T) {
	t.Parallel()
	err := changed(func(c *Config) {
		c.StreamName = ""
		c.LeaseManagement.RenewInterval = 4 * time.Second
		c.Retrieval.MaxRecords = 20_000
	}).Validate()
	want := strings.Join([]string{
		`StreamName is "", want 1 to 128 characters of a-z, A-Z, 0-9, '_', '.', '-'`,
		`LeaseManagement.RenewInterval is 4s, want at most FailoverTime/3 = 3.33s`,
		`Retrieval.MaxRecords is 20000, want 1 to 10000`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestPartitionOf_knowsWhatIsKnownAndBelievesTheRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ region, said, want string }{
		{"eu-west-1", "aws", "aws"},
		{"eu-west-1", "aws-cn", "aws"},
		{"eu-west-1", "awsx", "aws"},
		{"cn-north-1", "aws-cn", "aws-cn"},
		{"cn-north-1", "aws", "aws-cn"},
		{"cn-north-1", "aws-moon", "aws-cn"},
		{"us-iso-east-1", "aws-iso", "aws-iso"},
		{"us-isob-east-1", "aws-iso", "aws-iso-b"},
		{"eusc-de-east-1", "aws-eusc", "aws-eusc"},
		{"eusc-de-east-1", "aws", "aws-eusc"},
		{"moon-1", "aws-moon", "aws-moon"},
		{"moon-1", "aws", "aws"},
		{"local", "aws", "aws"},
	} {
		if got := partitionOf(c.region, c.said); got != c.want {
			t.Errorf("region %s of an ARN with partition %s is in %s, want %s", c.region, c.said, got, c.want)
		}
	}
}
