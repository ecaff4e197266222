package shardlease_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/dynamostreams"
)

// One worker reads what happens to the items of a table. It talks to the emulator over HTTP, as it would to the one that
// "shardlease emulator" serves.
func ExampleWithSource() {
	url, closeServer, err := emulator.New().Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer closeServer()
	cloud := aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, HTTPClient: &http.Client{},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	db := dynamodb.NewFromConfig(cloud)
	made, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, state := range []string{"placed", "paid", "sent"} {
		if _, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("orders"), Item: map[string]types.AttributeValue{
			"id": &types.AttributeValueMemberS{Value: "17"}, "state": &types.AttributeValueMemberS{Value: state},
		}}); err != nil {
			fmt.Println(err)
			return
		}
	}

	cfg := config.Default("orders-changes", "")
	cfg.StreamARN = *made.TableDescription.LatestStreamArn
	state := func(image map[string]types.AttributeValue) string {
		s, _ := image["state"].(*types.AttributeValueMemberS)
		if s == nil {
			return "nothing"
		}
		return s.Value
	}
	worker, err := shardlease.New(cfg, cloud, processor.Each(func(_ context.Context, r processor.Record) error {
		e, err := dynamostreams.EventOf(r)
		if err != nil {
			return err
		}
		fmt.Printf("%s order %s: %s -> %s\n", strings.ToLower(string(e.Name)), e.Keys["id"].(*types.AttributeValueMemberS).Value, state(e.OldImage), state(e.NewImage))
		if state(e.NewImage) == "sent" {
			stop()
		}
		return nil
	}), shardlease.WithSource(dynamostreams.New(dynamodbstreams.NewFromConfig(cloud))))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := worker.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	// Output:
	// insert order 17: nothing -> placed
	// modify order 17: placed -> paid
	// modify order 17: paid -> sent
}
