// Command tablestream reads what happens to the items of a DynamoDB table:
//
//	go run ./tablestream            read the stream of the table orders, until it is interrupted
//	go run ./tablestream 17 paid    write an item instead: order 17 is paid now
//
// Against "shardlease emulator", or AWS, as the SDK's usual variables say. It makes the table if there is none. Start it
// twice, and the processes share the shards of the table's stream.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/dynamostreams"
)

// table is the name of the table that is read. The leases are in another one, named like the application.
const table = "orders"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	cloud, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	db := dynamodb.NewFromConfig(cloud)
	arn, err := streamOf(ctx, db)
	switch {
	case err != nil:
		return err
	case len(args) == 2:
		return put(ctx, db, args[0], args[1])
	case len(args) != 0:
		return fmt.Errorf("%q is neither nothing nor an order and its state, as in: tablestream 17 paid", args)
	}
	cfg := config.Default("orders-changes", "")
	cfg.StreamARN = arn
	cfg.Logger = slog.Default()
	w, err := shardlease.New(cfg, cloud, processor.Each(audit),
		shardlease.WithSource(dynamostreams.New(dynamodbstreams.NewFromConfig(cloud))))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// audit prints one change of an item.
func audit(_ context.Context, r processor.Record) error {
	e, err := dynamostreams.EventOf(r)
	if err != nil {
		return err
	}
	fmt.Printf("%s order %s: %s -> %s\n", e.Name, text(e.Keys, "id"), text(e.OldImage, "state"), text(e.NewImage, "state"))
	return nil
}

// text is a string of an item, or nothing where there is none.
func text(item map[string]types.AttributeValue, name string) string {
	if s, ok := item[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return "nothing"
}

// streamOf returns the ARN of the table's stream, and makes the table if there is none. The worker waits until it is there.
func streamOf(ctx context.Context, db *dynamodb.Client) (arn string, err error) {
	_, err = db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	})
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return "", err
	}
	out, err := db.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		return "", err
	}
	if out.Table.LatestStreamArn == nil {
		return "", fmt.Errorf("table %s has no stream: enable one, with new and old images", table)
	}
	return *out.Table.LatestStreamArn, nil
}

// put writes an item.
func put(ctx context.Context, db *dynamodb.Client, id, state string) error {
	_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: map[string]types.AttributeValue{
		"id": &types.AttributeValueMemberS{Value: id}, "state": &types.AttributeValueMemberS{Value: state},
	}})
	return err
}
