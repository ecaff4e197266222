package leasetest

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// suite is one run against a server: one table, in which each case has a row of its own.
type suite struct {
	server   Server
	table    string
	failover time.Duration
	rows     atomic.Int64
}

// bundle is what a case works with.
type bundle struct {
	testing.TB
	suite  *suite
	key    string
	raw    *dynamodb.Client // without faults
	faults *faultyClient
	table  *leases.Table // through faults
	calm   *leases.Table // the same table without them, as another worker sees it
	me     leases.Tenure
}

func (s *suite) config() config.LeaseManagementConfig {
	return config.LeaseManagementConfig{TableName: s.table, FailoverTime: s.failover, CreateTable: true, RequestTimeout: time.Minute}
}

func (s *suite) bundle(tb testing.TB) *bundle {
	tb.Helper()
	n := s.rows.Add(1)
	b := &bundle{
		TB: tb, suite: s, key: fmt.Sprintf("shardId-%012d", n),
		raw: dynamodb.NewFromConfig(s.server.Config), faults: newFaultyClient(s.server.Config.HTTPClient),
	}
	cfg := s.server.Config.Copy()
	cfg.HTTPClient = b.faults
	b.table = leases.NewTable(dynamodb.NewFromConfig(cfg), s.config(), leases.TableOptions{Worker: "w1"})
	b.calm = leases.NewTable(b.raw, s.config(), leases.TableOptions{Worker: "w2"})
	b.me = leases.Tenure{Worker: "w1", Nonce: fmt.Sprintf("host1/11/00000000000000aa/%d", n), Failover: b.suite.failover, Max: 5, Zone: "a"}
	return b
}

// other is a tenure of another worker, twin one of another process with our worker id.
func (b *bundle) other() leases.Tenure {
	return leases.Tenure{Worker: "w2", Nonce: "host2/22/00000000000000bb/1", Failover: b.suite.failover}
}

func (b *bundle) twin() leases.Tenure {
	return leases.Tenure{Worker: "w1", Nonce: "host3/33/00000000000000cc/1", Failover: b.suite.failover}
}

// row is the row as it is, and must be there.
func (b *bundle) row() leases.Lease {
	b.Helper()
	l, found, err := b.calm.Get(b.Context(), b.key)
	if err != nil || !found {
		b.Fatalf("row %s: found %t, error %v", b.key, found, err)
	}
	return l
}

// create makes the row: unowned, at TRIM_HORIZON, with an attribute that nobody knows.
func (b *bundle) create() leases.Lease {
	b.Helper()
	created, err := b.calm.Create(b.Context(), leases.Lease{Key: b.key, Checkpoint: checkpoint.TrimHorizon, ParentShardIDs: []string{"p1", "p2"}})
	if err != nil || !created {
		b.Fatalf("create: created %t, error %v", created, err)
	}
	if err := b.update("SET #n = :n", "", map[string]string{"#n": "note"}, map[string]types.AttributeValue{":n": &types.AttributeValueMemberS{Value: "keep me"}}); err != nil {
		b.Fatal(err)
	}
	return b.row()
}

// held makes the row and takes it for this worker.
func (b *bundle) held() leases.Lease {
	b.Helper()
	w, err := b.calm.Take(b.Context(), b.create(), b.me)
	if err != nil {
		b.Fatal(err)
	}
	return w.Lease
}

// update is a raw UpdateItem of the row.
func (b *bundle) update(update, condition string, names map[string]string, values map[string]types.AttributeValue) error {
	b.Helper()
	in := &dynamodb.UpdateItemInput{
		TableName: &b.suite.table, Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: b.key}},
		UpdateExpression: &update, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}
	if condition != "" {
		in.ConditionExpression = &condition
	}
	_, err := b.raw.UpdateItem(b.Context(), in)
	return err
}

// takenBy lets another Go worker take the row.
func (b *bundle) takenBy(who leases.Tenure) {
	b.Helper()
	if _, err := b.calm.Take(b.Context(), b.row(), who); err != nil {
		b.Fatal(err)
	}
}

// java is a write as a Java worker sends it, in the legacy parameters: it moves the counter from what it is, and sets the
// owner.
func (b *bundle) java(worker string) {
	b.Helper()
	l := b.row()
	_, err := b.raw.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
		TableName: &b.suite.table, Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: b.key}},
		Expected: map[string]types.ExpectedAttributeValue{"leaseCounter": {Value: number(l.Counter)}},
		AttributeUpdates: map[string]types.AttributeValueUpdate{
			"leaseCounter": {Action: types.AttributeActionPut, Value: number(l.Counter + 1)},
			"leaseOwner":   {Action: types.AttributeActionPut, Value: &types.AttributeValueMemberS{Value: worker}},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
}

// asked lets another Go worker ask the owner to hand over: the counter stands.
func (b *bundle) asked(successor string) leases.Lease {
	b.Helper()
	l, err := b.calm.StartHandoff(b.Context(), b.row(), successor)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// markedAsJava3 sets the mark that a leader of KCL 3.x sets, which has no handoffTo.
func (b *bundle) markedAsJava3(successor string) {
	b.Helper()
	javaWorker{successor, "3.5"}.send(b, "start graceful handoff", b.row())
}

// completed brings the row where a hand-off to this worker was completed by w2, and returns it.
func (b *bundle) completed() leases.Lease {
	b.Helper()
	b.create()
	b.takenBy(b.other())
	l, err := b.calm.CompleteHandoff(b.Context(), b.asked(b.me.Worker), b.other())
	if err != nil {
		b.Fatal(err)
	}
	if !l.InTransit() || l.Owner != b.me.Worker {
		b.Fatalf("row is not in transit to this worker: %+v", l)
	}
	return l
}

// late lets late requests reach the server, and fails if one of them changes the row.
func (b *bundle) late() {
	b.Helper()
	before, there, err := b.calm.Get(b.Context(), b.key)
	if err != nil {
		b.Fatal(err)
	}
	if err := b.faults.deliver(b.Context()); err != nil {
		b.Fatal(err)
	}
	after, still, err := b.calm.Get(b.Context(), b.key)
	if err != nil {
		b.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" || there != still {
		b.Errorf("a late request changed the row (-before +after):\n%s", diff)
	}
}

// note fails unless the attribute that nobody knows is still there.
func (b *bundle) note() {
	b.Helper()
	out, err := b.raw.GetItem(b.Context(), &dynamodb.GetItemInput{
		TableName: &b.suite.table, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: b.key}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if s, ok := out.Item["note"].(*types.AttributeValueMemberS); !ok || s.Value != "keep me" {
		b.Errorf("the attribute note is %v, want it kept", out.Item["note"])
	}
}

// same compares what this worker believes with the table.
func (b *bundle) same(belief leases.Lease) {
	b.Helper()
	if diff := cmp.Diff(b.row(), belief); diff != "" {
		b.Errorf("table and belief differ (-table +belief):\n%s", diff)
	}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func randomName(prefix string) string { return prefix + "-" + rand.Text()[:10] }
