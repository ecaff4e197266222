package emulator_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/shardlease/shardlease/emulator"
)

const firstShard = "shardId-000000000000"

// world is a server with a stream "orders" of one shard, and clients that do not retry.
type world struct {
	*emulator.Server
	kinesis  *kinesis.Client
	dynamodb *dynamodb.Client
}

// inBubble runs f in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, w *world), opts ...emulator.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, setup(t, opts...)) })
}

func setup(t *testing.T, opts ...emulator.Option) *world {
	t.Helper()
	w := &world{Server: emulator.New(opts...)}
	if err := w.CreateStream("orders", 1); err != nil {
		t.Fatal(err)
	}
	w.kinesis, w.dynamodb = clients(w.AWSConfig())
	return w
}

// clients are the SDK's, without retries.
func clients(cfg aws.Config) (*kinesis.Client, *dynamodb.Client) {
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return kinesis.NewFromConfig(cfg), dynamodb.NewFromConfig(cfg)
}

func (w *world) put(t *testing.T, texts ...string) (last *kinesis.PutRecordOutput) {
	t.Helper()
	for _, text := range texts {
		var err error
		if last, err = w.kinesis.PutRecord(t.Context(), putInput(text)); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func putInput(text string) *kinesis.PutRecordInput {
	return &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), Data: []byte(text)}
}

func iteratorInput(shard string, kind types.ShardIteratorType) *kinesis.GetShardIteratorInput {
	return &kinesis.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: &shard, ShardIteratorType: kind}
}

func (w *world) iterator(t *testing.T, kind types.ShardIteratorType) *string {
	t.Helper()
	out, err := w.kinesis.GetShardIterator(t.Context(), iteratorInput(firstShard, kind))
	if err != nil {
		t.Fatal(err)
	}
	return out.ShardIterator
}

func (w *world) get(t *testing.T, it *string) *kinesis.GetRecordsOutput {
	t.Helper()
	out, err := w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// count is how many records the first shard holds.
func (w *world) count(t *testing.T) int {
	t.Helper()
	return len(w.get(t, w.iterator(t, types.ShardIteratorTypeTrimHorizon)).Records)
}

// table makes the table "leases".
func (w *world) table(t *testing.T) {
	t.Helper()
	_, err := w.dynamodb.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("leases"), BillingMode: ddbtypes.BillingModePayPerRequest,
		AttributeDefinitions: []ddbtypes.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: "S"}},
		KeySchema:            []ddbtypes.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: "HASH"}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// create is a conditional put of a row into it.
func create(key string) *dynamodb.PutItemInput {
	return &dynamodb.PutItemInput{
		TableName: aws.String("leases"), Item: map[string]ddbtypes.AttributeValue{"leaseKey": &ddbtypes.AttributeValueMemberS{Value: key}},
		ConditionExpression: aws.String("attribute_not_exists(leaseKey)"),
	}
}

func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func wantCode(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("%s: error %v, want %s", what, err, want)
	}
}
