package containers_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/integration/containers"
)

// needEngine skips the test where there is no container engine, or fails it where there must be one. The context it returns bounds
// the test, and the pulling of its image.
func needEngine(t *testing.T) context.Context {
	t.Helper()
	must, err := containers.Required()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	switch err := containers.Engine(ctx); {
	case err == nil:
	case must:
		t.Fatalf("%s is set, and %v; %s", containers.RequireEnv, err, containers.Howto)
	default:
		t.Skipf("NOT RUN: %v; %s; %s=1 makes this a failure", err, containers.Howto, containers.RequireEnv)
	}
	return ctx
}

// started logs what runs and stops it when the test is over: afterwards it must be gone.
func started(t *testing.T, began time.Time, s *containers.Server, err error) *containers.Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s answers at %s after %v", s, s.Endpoint, time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		client := http.Client{Timeout: 2 * time.Second}
		if resp, err := client.Get(s.Endpoint); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s still answers at %s after it was stopped", s, s.Endpoint)
		}
	})
	return s
}

func cloud(s *containers.Server) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &s.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("000000000000", "test", ""),
	}
}

func TestLocalStack_servesKinesisAndDynamoDB(t *testing.T) {
	t.Parallel()
	ctx := needEngine(t)
	began := time.Now()
	s, err := containers.LocalStack(ctx, containers.Settings{})
	started(t, began, s, err)
	putAndGet(ctx, t, cloud(s))
	conditionalWrites(ctx, t, cloud(s))
}

func TestDynamoDBLocal_servesDynamoDB(t *testing.T) {
	t.Parallel()
	ctx := needEngine(t)
	began := time.Now()
	s, err := containers.DynamoDBLocal(ctx, containers.Settings{})
	started(t, began, s, err)
	conditionalWrites(ctx, t, cloud(s))
}

func TestLocalStack_namesAnImageThatCannotBeHad(t *testing.T) {
	t.Parallel()
	ctx := needEngine(t)
	const image = "localstack.invalid/localstack:4.99.0"
	s, err := containers.LocalStack(ctx, containers.Settings{Image: image})
	if s != nil || err == nil || errors.Is(err, containers.ErrNoEngine) || !strings.Contains(err.Error(), image) {
		t.Errorf("got %v, %v; want an error that names %s and is not %v", s, err, image, containers.ErrNoEngine)
	}
}

// conditionalWrites creates a table as a worker would and has two owners want one row: only the first gets it.
func conditionalWrites(ctx context.Context, t *testing.T, cfg aws.Config) {
	t.Helper()
	db, table := dynamodb.NewFromConfig(cfg), aws.String("leases")
	if _, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            table,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	}); err != nil {
		t.Fatalf("create a table: %v", err)
	}
	wait := dynamodb.NewTableExistsWaiter(db, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	if err := wait.Wait(ctx, &dynamodb.DescribeTableInput{TableName: table}, time.Minute); err != nil {
		t.Fatalf("wait for the table: %v", err)
	}
	take := func(owner string) error {
		_, err := db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: table, ConditionExpression: aws.String("attribute_not_exists(leaseKey)"),
			Item: map[string]types.AttributeValue{
				"leaseKey":   &types.AttributeValueMemberS{Value: "shardId-000000000000"},
				"leaseOwner": &types.AttributeValueMemberS{Value: owner},
			},
		})
		return err
	}
	if err := take("a"); err != nil {
		t.Fatalf("the first owner's write: %v", err)
	}
	if err := take("b"); err == nil {
		t.Error("the second owner's write succeeded, want ConditionalCheckFailedException")
	} else if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); !refused {
		t.Errorf("the second owner's write: %v, want ConditionalCheckFailedException", err)
	}
}

// putAndGet puts a record into a new stream and reads it.
func putAndGet(ctx context.Context, t *testing.T, cfg aws.Config) {
	t.Helper()
	client, stream := kinesis.NewFromConfig(cfg), aws.String("orders")
	if _, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: stream, ShardCount: aws.Int32(1)}); err != nil {
		t.Fatalf("create a stream: %v", err)
	}
	wait := kinesis.NewStreamExistsWaiter(client, func(o *kinesis.StreamExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	if err := wait.Wait(ctx, &kinesis.DescribeStreamInput{StreamName: stream}, time.Minute); err != nil {
		t.Fatalf("wait for the stream: %v", err)
	}
	put, err := client.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: stream, PartitionKey: aws.String("k"), Data: []byte("hello")})
	if err != nil {
		t.Fatalf("put a record: %v", err)
	}
	it, err := client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: stream, ShardId: put.ShardId, ShardIteratorType: kinesistypes.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		t.Fatalf("get an iterator: %v", err)
	}
	got, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
	if err != nil {
		t.Fatalf("get records: %v", err)
	}
	if len(got.Records) != 1 || string(got.Records[0].Data) != "hello" || *got.Records[0].SequenceNumber != *put.SequenceNumber {
		t.Errorf("read %+v, want the record %s with data hello", got.Records, *put.SequenceNumber)
	}
}
