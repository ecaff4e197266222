package emulator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

func TestServer_servesBothServicesToTheSDKInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New(emulator.WithControlDelay(time.Second))
		if err := server.CreateStream("orders", 2); err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		k := kinesis.NewFromConfig(server.AWSConfig())
		put, err := k.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("a"), Data: []byte("hello")})
		if err != nil {
			t.Fatal(err)
		}
		it, err := k.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: put.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Records) != 1 || string(got.Records[0].Data) != "hello" {
			t.Fatalf("records = %v, want the one that was put", got.Records)
		}
		d := dynamodb.NewFromConfig(server.AWSConfig())
		if _, err := d.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName: aws.String("leases"), BillingMode: ddbtypes.BillingModePayPerRequest,
			AttributeDefinitions: []ddbtypes.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: "S"}},
			KeySchema:            []ddbtypes.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: "HASH"}},
		}); err != nil {
			t.Fatal(err)
		}
		if err := dynamodb.NewTableExistsWaiter(d).Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("leases")}, time.Minute); err != nil {
			t.Fatal(err)
		}
	})
}
