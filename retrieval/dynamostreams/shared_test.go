package dynamostreams_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	table "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// What a source knows of one stream it does not say of another: workers that share it would take a shard whose successors are not
// known yet for the last one, because the other's stream was disabled.
func TestSource_mayBeSharedByReadersOfDifferentStreams(t *testing.T) {
	t.Parallel()
	over(t, func(w *world) {
		out, err := w.db.CreateTable(w.ctx, &dynamodb.CreateTableInput{
			TableName: aws.String("bills"), BillingMode: table.BillingModePayPerRequest,
			AttributeDefinitions: []table.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: table.ScalarAttributeTypeS}},
			KeySchema:            []table.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: table.KeyTypeHash}},
			StreamSpecification:  &table.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: table.StreamViewTypeKeysOnly},
		})
		if err != nil {
			w.Fatal(err)
		}
		bills := *out.TableDescription.LatestStreamArn
		if _, err := w.db.UpdateTable(w.ctx, &dynamodb.UpdateTableInput{
			TableName: aws.String("bills"), StreamSpecification: &table.StreamSpecification{StreamEnabled: aws.Bool(false)},
		}); err != nil {
			w.Fatal(err)
		}
		for _, first := range []string{w.arn, bills} {
			for _, arn := range []string{first, w.arn, bills, first} {
				if _, err := w.source.ListShards(w.ctx, &kinesis.ListShardsInput{StreamARN: &arn}); err != nil {
					w.Fatal(err)
				}
			}
			if w.source.Ended(w.arn) || !w.source.Ended(bills) {
				w.Errorf("the source says of the stream that goes on: ended %t, and of the disabled one: %t", w.source.Ended(w.arn), w.source.Ended(bills))
			}
		}
	})
}
