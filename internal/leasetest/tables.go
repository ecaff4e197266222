package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/leases"
)

// tables are the cases of Ensure.
func (s *suite) tables(t *testing.T) {
	t.Parallel()
	ensure := func(b *bundle, change func(*config.LeaseManagementConfig)) (*leases.Table, string, error) {
		cfg := s.config()
		cfg.TableName = randomName("shardlease-ensure")
		change(&cfg)
		table := leases.NewTable(b.raw, cfg, leases.TableOptions{})
		return table, cfg.TableName, table.Ensure(b.Context())
	}
	describe := func(b *bundle, name string) *types.TableDescription {
		b.Helper()
		out, err := b.raw.DescribeTable(b.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			b.Fatal(err)
		}
		return out.Table
	}
	t.Run("several workers make one table", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		cfg := s.config()
		cfg.TableName = randomName("shardlease-ensure")
		var g errgroup.Group
		for range 4 {
			g.Go(func() error { return leases.NewTable(b.raw, cfg, leases.TableOptions{}).Ensure(b.Context()) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		drop(t, b.raw, cfg.TableName)
		cfg.CreateTable = false // it is there
		if err := leases.NewTable(b.raw, cfg, leases.TableOptions{}).Ensure(b.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a lost reply to CreateTable", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		cfg := s.config()
		cfg.TableName = randomName("shardlease-ensure")
		client := s.server.Config.Copy()
		client.HTTPClient = b.faults
		b.faults.strike("CreateTable", fault{drop: true})
		if err := leases.NewTable(dynamodb.NewFromConfig(client), cfg, leases.TableOptions{}).Ensure(b.Context()); err != nil {
			t.Error(err)
		}
		drop(t, b.raw, cfg.TableName)
	})
	t.Run("provisioned, with tags", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		_, name, err := ensure(b, func(c *config.LeaseManagementConfig) {
			c.BillingMode, c.ReadCapacity, c.WriteCapacity = config.Provisioned, 12, 13
			c.Tags = map[string]string{"team": "orders"}
		})
		if err != nil {
			t.Fatal(err)
		}
		drop(t, b.raw, name)
		d := describe(b, name)
		if p := d.ProvisionedThroughput; p == nil || aws.ToInt64(p.ReadCapacityUnits) != 12 || aws.ToInt64(p.WriteCapacityUnits) != 13 {
			t.Errorf("throughput %+v, want 12 and 13", d.ProvisionedThroughput)
		}
		tags, err := b.raw.ListTagsOfResource(b.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: d.TableArn})
		declared(t, "Tags", s.server.Features.Tags, err == nil && len(tags.Tags) == 1)
	})
	t.Run("deletion protection", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		_, name, err := ensure(b, func(c *config.LeaseManagementConfig) { c.DeletionProtection = true })
		if err != nil {
			t.Fatal(err)
		}
		drop(t, b.raw, name)
		_, err = b.raw.DeleteTable(b.Context(), &dynamodb.DeleteTableInput{TableName: &name})
		declared(t, "DeletionProtection", s.server.Features.DeletionProtection, err != nil)
		if err == nil {
			return
		}
		if _, err := b.raw.UpdateTable(b.Context(), &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(false)}); err != nil {
			t.Error(err)
		}
	})
	t.Run("point-in-time recovery", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		_, name, err := ensure(b, func(c *config.LeaseManagementConfig) { c.PointInTimeRecovery = true })
		drop(t, b.raw, name)
		declared(t, "PointInTimeRecovery", s.server.Features.PointInTimeRecovery, err == nil)
		if err != nil {
			if _, ok := errors.AsType[*leases.PermanentError](err); !ok || !strings.Contains(err.Error(), "or set LeaseManagement.PointInTimeRecovery to false") {
				t.Errorf("error %v, want one that says what to do", err)
			}
			return
		}
		out, err := b.raw.DescribeContinuousBackups(b.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
		if err != nil || out.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled {
			t.Errorf("backups %+v, error %v", out, err)
		}
	})
	t.Run("missing, and not to be made", func(t *testing.T) {
		t.Parallel()
		_, name, err := ensure(s.bundle(t), func(c *config.LeaseManagementConfig) { c.CreateTable = false })
		want := "use lease table " + name + ": it does not exist in this account and region; create it with the string partition key leaseKey, or set LeaseManagement.CreateTable, or check LeaseManagement.TableName and the region"
		if _, ok := errors.AsType[*leases.PermanentError](err); !ok || err.Error() != want {
			t.Errorf("error is\n%v, want\n%s", err, want)
		}
	})
	t.Run("a table of another schema", func(t *testing.T) {
		t.Parallel()
		b := s.bundle(t)
		name := randomName("shardlease-alien")
		alien(b, name, "wid", "leaseKey")
		_, _, err := ensure(b, func(c *config.LeaseManagementConfig) { c.TableName = name })
		want := "use lease table " + name + ": its key is wid (HASH, S), leaseKey (RANGE, S), want leaseKey (HASH, S); it is another kind of table: set LeaseManagement.TableName (the default is ApplicationName) to a name of its own"
		if err == nil || err.Error() != want {
			t.Errorf("error is\n%v, want\n%s", err, want)
		}
	})
}

// alien makes a table of given string keys and waits for it.
func alien(b *bundle, name string, keys ...string) {
	b.Helper()
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest}
	for i, k := range keys {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &k, AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &k, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
	}
	if _, err := b.raw.CreateTable(b.Context(), in); err != nil {
		b.Fatal(err)
	}
	drop(b.TB.(*testing.T), b.raw, name)
	waiter := dynamodb.NewTableExistsWaiter(b.raw, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 50 * time.Millisecond })
	if err := waiter.Wait(b.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
		b.Fatal(err)
	}
}

// reads are the cases of List.
func (s *suite) reads(t *testing.T) {
	t.Parallel()
	b := s.bundle(t)
	name := randomName("shardlease-list")
	open := func(change func(*config.LeaseManagementConfig)) *leases.Table {
		cfg := s.config()
		cfg.TableName = name
		change(&cfg)
		return leases.NewTable(b.raw, cfg, leases.TableOptions{})
	}
	table := open(func(*config.LeaseManagementConfig) {})
	if err := table.Ensure(b.Context()); err != nil {
		t.Fatal(err)
	}
	drop(t, b.raw, name)
	const rows, pad = 20, 80 << 10 // more than a page, which is 1 MB
	var want []string
	for i := range rows {
		key := fmt.Sprintf("shardId-%02d", i)
		want = append(want, key)
		if _, err := table.Create(b.Context(), leases.Lease{Key: key, Checkpoint: checkpoint.TrimHorizon}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.raw.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
			TableName: &name, Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}},
			UpdateExpression: aws.String("SET #p = :p"), ExpressionAttributeNames: map[string]string{"#p": "pad"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":p": &types.AttributeValueMemberS{Value: strings.Repeat("x", pad)}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	eventualRight, consistentRight := true, true
	for _, consistent := range []bool{false, true} {
		for _, segments := range []int{0, 1, 4} {
			l, err := open(func(c *config.LeaseManagementConfig) { c.ScanSegments, c.ConsistentReads = segments, consistent }).List(b.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range l.Leases {
				got = append(got, x.Key)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%d segments: leases %v, want %v", segments, got, want)
			}
			if l.Pages < max(2, segments) {
				t.Errorf("%d segments: %d pages, want at least %d", segments, l.Pages, max(2, segments))
			}
			units := float64(rows*pad) / 4096
			if !consistent {
				units /= 2
			}
			right := l.ReadUnits >= units && l.ReadUnits <= 1.2*units+float64(segments)
			if consistent {
				consistentRight = consistentRight && right
			} else {
				eventualRight = eventualRight && right
			}
			if !right {
				t.Logf("%d segments, consistent %t: %v read units, should be about %v", segments, consistent, l.ReadUnits, units)
			}
		}
	}
	out, err := b.raw.Scan(b.Context(), &dynamodb.ScanInput{TableName: &name, Limit: aws.Int32(1), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
	if err != nil {
		t.Fatal(err)
	}
	says := out.ConsumedCapacity != nil && aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) > 0
	if !says && (!eventualRight || !consistentRight) {
		t.Error("the server does not say what a Scan cost, and the estimate is wrong")
	}
	declared(t, "ConsumedCapacity", s.server.Features.ConsumedCapacity, says && eventualRight)
	declared(t, "ConsistentCapacity", s.server.Features.ConsistentCapacity, says && eventualRight && consistentRight)
}

// modes are the cases of CheckMode.
func (s *suite) modes(t *testing.T) {
	t.Parallel()
	put := func(b *bundle, table, key, version string) {
		b.Helper()
		_, err := b.raw.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
			key: &types.AttributeValueMemberS{Value: "Migration3.0"}, "cv": &types.AttributeValueMemberS{Value: version},
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, legacy := range []bool{false, true} {
		b := s.bundle(t)
		cfg := s.config()
		cfg.TableName = randomName("shardlease-mode")
		table := leases.NewTable(b.raw, cfg, leases.TableOptions{})
		if err := table.Ensure(b.Context()); err != nil {
			t.Fatal(err)
		}
		drop(t, b.raw, cfg.TableName)
		if err := table.CheckMode(b.Context(), cfg.TableName, false); err != nil {
			t.Errorf("without the row: %v", err)
		}
		place, key := cfg.TableName, "leaseKey"
		if legacy {
			place, key = cfg.TableName+"-CoordinatorState", "key"
			alien(b, place, key)
		}
		for version, is := range map[string]bool{
			"CLIENT_VERSION_2X": false, "CLIENT_VERSION_UPGRADE_FROM_2X": false, "CLIENT_VERSION_INIT": false,
			"CLIENT_VERSION_3X": true, "CLIENT_VERSION_3X_WITH_ROLLBACK": true,
		} {
			put(b, place, key, version)
			err := table.CheckMode(b.Context(), cfg.TableName, false)
			mode, found := errors.AsType[*leases.KCL3ModeError](err)
			if found != is || !is && err != nil || is && (mode.Version != version || mode.Table != place) {
				t.Errorf("%s in %s: error %v; want one %t", version, place, err, is)
			}
		}
	}
}

// features checks what the server declares and no other case does.
func (s *suite) features(t *testing.T) {
	t.Parallel()
	f := s.server.Features
	b := s.bundle(t)
	held := b.held()
	names := map[string]string{"#t": "tenure", "#at": "at", "#n": "leaseCounter", "#m": "mark"}
	one := map[string]types.AttributeValue{":1": &types.AttributeValueMemberN{Value: "1"}}
	holds := b.update("SET #m = :1", "#t.#at = #n", names, one) == nil
	b.java("w9")
	refused := b.update("SET #m = :1", "#t.#at = #n", names, one)
	_, failed := errors.AsType[*types.ConditionalCheckFailedException](refused)
	declared(t, "ComparesPaths", f.ComparesPaths, holds && failed)

	before := b.faults.count("GetItem")
	if _, err := b.table.Renew(b.Context(), held, b.me, leases.Renewal{}); !errors.Is(err, leases.ErrLeaseLost) {
		t.Errorf("error %v, want lease lost", err)
	}
	declared(t, "OldItemOnFailure", f.OldItemOnFailure, b.faults.count("GetItem") == before)

	key := map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: b.key}}
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	_, err := b.raw.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{ConditionCheck: &types.ConditionCheck{TableName: &s.table, Key: key, ConditionExpression: aws.String("attribute_exists(leaseKey)")}},
	}})
	declared(t, "Transactions", f.Transactions, err == nil)
}
