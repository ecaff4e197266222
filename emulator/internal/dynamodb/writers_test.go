package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }
func n(v int) types.AttributeValue    { return &types.AttributeValueMemberN{Value: strconv.Itoa(v)} }

// inParallel runs f in each of many goroutines and waits for them.
func inParallel(t *testing.T, many int, f func(worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range many {
		wg.Go(func() {
			if err := f(w); err != nil {
				t.Errorf("worker %d: %v", w, err)
			}
		})
	}
	wg.Wait()
}

func counterOf(ctx context.Context, c *sdk.Client, key string) (int, error) {
	out, err := c.GetItem(ctx, &sdk.GetItemInput{TableName: aws.String("APP"), Key: map[string]types.AttributeValue{"leaseKey": s(key)}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return 0, err
	}
	v, ok := out.Item["leaseCounter"].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("item %s is %v", key, out.Item)
	}
	return strconv.Atoi(v.Value)
}

// TestWriters_neverShareAWin lets many clients raise one counter by compare and set: each value is won by exactly one.
func TestWriters_neverShareAWin(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	const workers, wins = 16, 60
	ctx := t.Context()
	if _, err := connect(service).PutItem(ctx, &sdk.PutItemInput{TableName: aws.String("APP"), Item: map[string]types.AttributeValue{"leaseKey": s("k"), "leaseCounter": n(0)}}); err != nil {
		t.Fatal(err)
	}
	var won [workers*wins + 1]atomic.Int32
	var lost atomic.Int64
	inParallel(t, workers, func(int) error {
		c := connect(service)
		seen := 0
		for mine := 0; mine < wins; {
			out, err := c.UpdateItem(ctx, &sdk.UpdateItemInput{
				TableName: aws.String("APP"), Key: map[string]types.AttributeValue{"leaseKey": s("k")},
				UpdateExpression: aws.String("SET leaseCounter = :next"), ConditionExpression: aws.String("leaseCounter = :seen"),
				ExpressionAttributeValues:           map[string]types.AttributeValue{":seen": n(seen), ":next": n(seen + 1)},
				ReturnValues:                        types.ReturnValueUpdatedNew,
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
			})
			var counter map[string]types.AttributeValue
			if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
				lost.Add(1)
				counter = failed.Item
			} else if err != nil {
				return err
			} else {
				mine++
				won[seen+1].Add(1)
				counter = out.Attributes
			}
			v, ok := counter["leaseCounter"].(*types.AttributeValueMemberN)
			if !ok {
				return fmt.Errorf("no counter in %v", counter)
			}
			if seen, err = strconv.Atoi(v.Value); err != nil {
				return err
			}
		}
		return nil
	})
	for i := 1; i <= workers*wins; i++ {
		if got := won[i].Load(); got != 1 {
			t.Errorf("counter %d was won %d times", i, got)
		}
	}
	if got, err := counterOf(ctx, connect(service), "k"); err != nil || got != workers*wins {
		t.Errorf("counter is %d, %v, want %d", got, err, workers*wins)
	}
	t.Logf("%d wins, %d losses", workers*wins, lost.Load())
}

// TestWriters_loseNoAddition mixes ADD, transactions and legacy ADD on the same two rows; a reader sees them grow together.
func TestWriters_loseNoAddition(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	ctx := t.Context()
	const workers, each = 12, 50
	key := func(k string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"leaseKey": s(k)}
	}
	one := map[string]types.AttributeValue{":one": n(1)}
	add := func(k string) types.TransactWriteItem {
		return types.TransactWriteItem{Update: &types.Update{TableName: aws.String("APP"), Key: key(k), UpdateExpression: aws.String("ADD leaseCounter :one"), ExpressionAttributeValues: one}}
	}
	inParallel(t, workers, func(w int) error {
		c := connect(service)
		for range each {
			var err error
			switch w % 4 {
			case 0:
				_, err = c.TransactWriteItems(ctx, &sdk.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{add("a"), add("b")}})
			case 1:
				_, err = c.UpdateItem(ctx, &sdk.UpdateItemInput{TableName: aws.String("APP"), Key: key("a"), UpdateExpression: aws.String("ADD leaseCounter :one"), ExpressionAttributeValues: one})
			case 2:
				_, err = c.UpdateItem(ctx, &sdk.UpdateItemInput{
					TableName: aws.String("APP"), Key: key("b"),
					AttributeUpdates: map[string]types.AttributeValueUpdate{"leaseCounter": {Action: types.AttributeActionAdd, Value: n(1)}},
				})
			case 3:
				var out *sdk.ScanOutput
				if out, err = c.Scan(ctx, &sdk.ScanInput{TableName: aws.String("APP"), ConsistentRead: aws.Bool(true)}); err == nil && len(out.Items) > 2 {
					err = fmt.Errorf("scan gave %d items", len(out.Items))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, k := range []string{"a", "b"} {
		if got, err := counterOf(ctx, connect(service), k); err != nil || got != workers/4*each*2 {
			t.Errorf("counter of %s is %d, %v, want %d", k, got, err, workers/4*each*2)
		}
	}
}

// TestSDK_understandsEveryErrorItHasATypeFor looks at the errors through the SDK's eyes.
func TestSDK_understandsEveryErrorItHasATypeFor(t *testing.T) {
	t.Parallel()
	service := withLeases(t)
	c := connect(service)
	ctx := t.Context()
	_, err := c.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: aws.String("NIX")})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("a missing table: %v", err)
	}
	_, err = c.CreateTable(ctx, &sdk.CreateTableInput{
		TableName: aws.String("APP"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if _, ok := errors.AsType[*types.ResourceInUseException](err); !ok {
		t.Errorf("a second creation: %v", err)
	}
	_, err = c.TransactWriteItems(ctx, &sdk.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{ConditionCheck: &types.ConditionCheck{
		TableName: aws.String("APP"), Key: map[string]types.AttributeValue{"leaseKey": s("a")}, ConditionExpression: aws.String("attribute_exists(leaseKey)"),
	}}}})
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || len(canceled.CancellationReasons) != 1 || aws.ToString(canceled.CancellationReasons[0].Code) != "ConditionalCheckFailed" || canceled.ErrorMessage() == "" {
		t.Errorf("a cancelled transaction: %v", err)
	}
	out, err := c.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: aws.String("APP")})
	if err != nil {
		t.Fatal(err)
	}
	if d := out.Table; d.TableStatus != types.TableStatusActive || d.CreationDateTime == nil || d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("table %+v", d)
	}
}
