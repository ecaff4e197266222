package leases

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// tableSetup is a table in a server of its own.
type tableSetup struct {
	server  *emulator.Server
	client  *dynamodb.Client
	table   *Table
	retried *[]config.RetryEvent
	me      Tenure
}

func newTableSetup(t *testing.T, change func(*config.LeaseManagementConfig), opts ...emulator.Option) tableSetup {
	t.Helper()
	s := tableSetup{server: emulator.New(opts...), retried: &[]config.RetryEvent{}, me: Tenure{Worker: "w1", Nonce: "h/1/aa/1", Failover: 6 * time.Second}}
	s.client = dynamodb.NewFromConfig(s.server.AWSConfig())
	cfg := config.LeaseManagementConfig{TableName: "leases", FailoverTime: 6 * time.Second, CreateTable: true, RequestTimeout: time.Minute}
	if change != nil {
		change(&cfg)
	}
	s.table = NewTable(s.client, cfg, TableOptions{
		Worker: "w1", Hooks: &config.Hooks{Retried: func(e config.RetryEvent) { *s.retried = append(*s.retried, e) }},
	})
	return s
}

// held makes the table and a row, and takes it.
func (s tableSetup) held(t *testing.T) Lease {
	t.Helper()
	if err := s.table.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.table.Create(t.Context(), Lease{Key: "shardId-1", Checkpoint: checkpoint.TrimHorizon}); err != nil {
		t.Fatal(err)
	}
	seen, _, err := s.table.Get(t.Context(), "shardId-1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.table.Take(t.Context(), seen, s.me)
	if err != nil {
		t.Fatal(err)
	}
	return w.Lease
}

func TestEnsure_waitsUntilTheTableIsActive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTableSetup(t, nil, emulator.WithControlDelay(7*time.Second))
		begin := time.Now()
		if err := s.table.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 7*time.Second || d > 9*time.Second {
			t.Errorf("waited for %v, want 7s and at most one look of 2s more", d)
		}
		if _, err := s.table.List(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEnsure_makesATableThatIsBeingDeletedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTableSetup(t, nil, emulator.WithControlDelay(7*time.Second))
		if err := s.table.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("leases")}); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := s.table.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 14*time.Second || d > 18*time.Second {
			t.Errorf("waited for %v, want 7s for the end of the old table and 7s for the new one", d)
		}
	})
}

func TestEnsure_namesTheStatusWhenItGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTableSetup(t, nil, emulator.WithControlDelay(time.Hour))
		begin := time.Now()
		err := s.table.Ensure(t.Context())
		if want := "wait for lease table leases: wait for lease table leases took longer than 10m0s; its status is CREATING"; err == nil || err.Error() != want {
			t.Errorf("error is\n%v, want\n%s", err, want)
		}
		if d := time.Since(begin); d != tableWait {
			t.Errorf("gave up after %v, want %v", d, tableWait)
		}
	})
}

func TestEnsure_namesThePermissionThatIsMissing(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		"DescribeTable":           "describe lease table leases: … allow this worker's role dynamodb:DescribeTable on table leases",
		"CreateTable":             "create lease table leases: … allow this worker's role dynamodb:CreateTable on table leases; or create the table yourself, with the string partition key leaseKey (LeaseManagement.Tags needs dynamodb:TagResource too)",
		"UpdateContinuousBackups": "switch on point-in-time recovery of lease table leases: … allow this worker's role dynamodb:UpdateContinuousBackups on table leases",
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			s := newTableSetup(t, func(c *config.LeaseManagementConfig) {
				c.PointInTimeRecovery, c.Tags = true, map[string]string{"team": "orders"}
			})
			s.server.Inject(emulator.Rule{Operation: operation, Effect: emulator.Fail(400, "AccessDeniedException", "User: w1 is not authorized")})
			err := s.table.Ensure(t.Context())
			if _, ok := errors.AsType[*PermanentError](err); !ok {
				t.Fatalf("error %v, want a permanent one", err)
			}
			before, after, _ := strings.Cut(want, "…")
			if !strings.HasPrefix(err.Error(), before) || !strings.HasSuffix(err.Error(), after) || !strings.Contains(err.Error(), "User: w1 is not authorized") {
				t.Errorf("error is\n%v, want\n%s", err, want)
			}
			if len(*s.retried) != 0 {
				t.Errorf("retried %d times what repeating does not cure", len(*s.retried))
			}
		})
	}
}

func TestEnsure_needsNoRightToCreateWhatExists(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	s.held(t)
	s.server.Inject(emulator.Rule{Operation: "CreateTable", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
	if err := s.table.Ensure(t.Context()); err != nil {
		t.Error(err)
	}
}

// withoutBackups is a client that has nothing but what a Table always needs.
type withoutBackups struct{ DynamoDBAPI }

func TestEnsure_saysWhichMethodAClientLacks(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, func(c *config.LeaseManagementConfig) { c.PointInTimeRecovery = true })
	s.table.api = withoutBackups{s.client}
	err := s.table.Ensure(t.Context())
	want := "switch on point-in-time recovery of lease table leases: the DynamoDB client (leases.withoutBackups) has no method UpdateContinuousBackups; add it, or set LeaseManagement.PointInTimeRecovery to false"
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v, want\n%s", err, want)
	}
}

func TestUsable_endsTheWaitForATableThatWillNotCome(t *testing.T) {
	t.Parallel()
	table := NewTable(nil, config.LeaseManagementConfig{TableName: "leases"}, TableOptions{})
	for status, want := range map[types.TableStatus]string{
		types.TableStatusActive: "true", types.TableStatusUpdating: "true", types.TableStatusCreating: "false", types.TableStatusDeleting: "false",
		types.TableStatusInaccessibleEncryptionCredentials: "use lease table leases: its status is INACCESSIBLE_ENCRYPTION_CREDENTIALS; give DynamoDB back the KMS key that the table is encrypted with",
		types.TableStatusArchived:                          "use lease table leases: its status is ARCHIVED; restore it, or set LeaseManagement.TableName to another name",
	} {
		ready, err := table.usable(&types.TableDescription{
			TableStatus: status, KeySchema: []types.KeySchemaElement{{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS}},
		})
		got := strconv.FormatBool(ready)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", status, got, want)
		}
	}
}

func TestTable_repeatsWhatPassesAndReportsIt(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]emulator.Effect{
		"throttled":   emulator.Throttle(),
		"refused":     emulator.Refuse(),
		"reply lost":  emulator.DropReply(),
		"reply cut":   emulator.CutBody(5),
		"failing":     emulator.Fail(500, "InternalServerError", "again"),
		"unavailable": emulator.Fail(503, "ServiceUnavailable", "again"),
		"hanging":     emulator.DelayReply(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newTableSetup(t, nil)
				held := s.held(t)
				s.server.Inject(emulator.Rule{Operation: "UpdateItem", Times: 3, Effect: effect})
				begin := time.Now()
				w, err := s.table.Renew(t.Context(), held, s.me, Renewal{})
				if err != nil {
					t.Fatal(err)
				}
				got, _, err := s.table.Get(t.Context(), held.Key)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(got, w.Lease); diff != "" {
					t.Errorf("table and belief differ (-table +belief):\n%s", diff)
				}
				if len(*s.retried) < 1 || (*s.retried)[0].What != "renew lease" || (*s.retried)[0].LeaseKey != "shardId-1" || (*s.retried)[0].Attempt != 1 || (*s.retried)[0].Err == nil {
					t.Errorf("retries reported: %+v", *s.retried)
				}
				if d, most := time.Since(begin), 3*time.Second+time.Second; d > most {
					t.Errorf("took %v, want at most three attempts of 1s and their pauses", d)
				}
			})
		})
	}
}

func TestTable_doesNotRepeatWhatStays(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"AccessDeniedException":       "allow this worker's role dynamodb:UpdateItem on table leases",
		"ResourceNotFoundException":   "there is no table leases in this account and region",
		"UnrecognizedClientException": "check the credentials, the region and this machine's clock",
		"ValidationException":         "ValidationException: as told",
	} {
		s := newTableSetup(t, nil)
		held := s.held(t)
		s.server.Inject(emulator.Rule{Operation: "UpdateItem", Effect: emulator.Fail(400, code, "as told")})
		_, err := s.table.Renew(t.Context(), held, s.me, Renewal{})
		if _, ok := errors.AsType[*PermanentError](err); !ok || errors.Is(err, ErrLeaseLost) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "renew lease shardId-1: ") {
			t.Errorf("%s: error is\n%v, want one with\n%s", code, err, want)
		}
		if n := s.server.Counts().Of(emulator.CountKey{Operation: "UpdateItem"}).Requests; n != 2 { // the take, and one
			t.Errorf("%s: %d requests, want 2", code, n)
		}
	}
}

func TestTable_givesASkewedClockThreeTries(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	held := s.held(t)
	remove := s.server.Inject(emulator.Rule{Operation: "UpdateItem", Effect: emulator.Fail(403, "InvalidSignatureException", "Signature expired")})
	if _, err := s.table.Renew(t.Context(), held, s.me, Renewal{}); len(*s.retried) != 2 || !strings.Contains(fmt.Sprint(err), "this machine's clock") {
		t.Errorf("retried %d times, error %v; want 2 and advice", len(*s.retried), err)
	}
	remove()
	if _, err := s.table.Renew(t.Context(), held, s.me, Renewal{}); err != nil {
		t.Error(err)
	}
}

// Cancelling is what a lease's deadline does.
func TestTable_endsWithItsContextAndSaysThatTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTableSetup(t, nil)
		held := s.held(t)
		remove := s.server.Inject(emulator.Rule{Operation: "UpdateItem", Effect: emulator.DelayReply(time.Hour)})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2500*time.Millisecond, errors.New("the lease ends"))
		defer cancel()
		begin := time.Now()
		_, err := s.table.Renew(ctx, held, s.me, Renewal{})
		if err == nil || errors.Is(err, ErrLeaseLost) || !strings.Contains(err.Error(), "renew lease shardId-1: outcome unknown after") || !strings.Contains(err.Error(), "the lease ends") {
			t.Errorf("error is %v", err)
		}
		if d := time.Since(begin); d != 2500*time.Millisecond {
			t.Errorf("ended after %v, want 2.5s", d)
		}
		remove()
		w, err := s.table.Renew(t.Context(), held, s.me, Renewal{})
		if err != nil || w.Recovered != ByThisCall {
			t.Errorf("recovered %v, error %v", w.Recovered, err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.table.Renew(cancelled, w.Lease, s.me, Renewal{}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not begun") {
			t.Errorf("error %v, want that it was not begun", err)
		}
	})
}

// selfRetrying is a client that repeats by itself whatever its caller asks for.
type selfRetrying struct{ *dynamodb.Client }

func (c selfRetrying) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return c.Client.UpdateItem(ctx, in)
}

func TestTable_staysRightWithAClientThatRepeatsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTableSetup(t, nil)
		held := s.held(t)
		s.table.api = selfRetrying{s.client}
		s.server.Inject(emulator.Rule{Operation: "UpdateItem", Times: 1, Effect: emulator.DropReply()})
		at := checkpoint.ExtendedSequenceNumber{SequenceNumber: "5"}
		w, err := s.table.Update(t.Context(), held, s.me, Update{Checkpoint: &at})
		if err != nil || w.Recovered != ByThisCall || w.Lease.Checkpoint != at || len(*s.retried) != 0 {
			t.Errorf("row %+v, recovered %v, %d retries of ours, error %v", w.Lease, w.Recovered, len(*s.retried), err)
		}
	})
}

func TestUpdate_refusesWhatIsNoCheckpoint(t *testing.T) {
	t.Parallel()
	s := newTableSetup(t, nil)
	held := s.held(t)
	bad := checkpoint.ExtendedSequenceNumber{SequenceNumber: "twelve"}
	for name, u := range map[string]Update{"nothing": {}, "no number": {Checkpoint: &bad}, "pending no number": {Pending: &checkpoint.Pending{At: bad}}} {
		if _, err := s.table.Update(t.Context(), held, s.me, u); err == nil || errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: error %v, want one that is no loss", name, err)
		}
	}
	if _, err := s.table.Create(t.Context(), Lease{Key: "shardId-2", Checkpoint: bad}); err == nil {
		t.Error("a row was created that nobody can read")
	}
}

func TestSegmentsFor_growsWithTheTable(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[float64]int{0: 1, 1 << 10: 1, 4<<20 - 1: 1, 4 << 20: 2, 40 << 20: 11, 1 << 30: 32} {
		if got := segmentsFor(bytes); got != want {
			t.Errorf("%v bytes are read in %d segments, want %d", bytes, got, want)
		}
	}
}

func BenchmarkList10000(b *testing.B) {
	client := dynamodb.NewFromConfig(emulator.New().AWSConfig())
	table := NewTable(client, config.LeaseManagementConfig{TableName: "leases", FailoverTime: 10 * time.Second, CreateTable: true}, TableOptions{})
	if err := table.Ensure(b.Context()); err != nil {
		b.Fatal(err)
	}
	const rows = 10_000
	for i := range rows {
		l := Lease{Key: fmt.Sprintf("shardId-%012d", i), Owner: fmt.Sprintf("host-%d/1/00000000", i%100), Counter: 9, Checkpoint: checkpoint.TrimHorizon}
		l.Tenure = &Tenure{Worker: l.Owner, Nonce: l.Owner + "/0123456789abcdef/1", At: 9, Failover: 10 * time.Second}
		if _, err := table.Create(b.Context(), l); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := table.List(b.Context())
		if err != nil || len(l.Leases) != rows {
			b.Fatal(len(l.Leases), err)
		}
		b.ReportMetric(float64(l.Pages), "pages")
		b.ReportMetric(l.ReadUnits, "units")
	}
}
