package emulator_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/emulator"
)

func Example() {
	ctx := context.Background()
	server := emulator.New()
	if err := server.CreateStream("orders", 4); err != nil {
		fmt.Println(err)
		return
	}
	client := kinesis.NewFromConfig(server.AWSConfig())
	_, err := client.PutRecord(ctx, &kinesis.PutRecordInput{
		StreamName: aws.String("orders"), PartitionKey: aws.String("customer-17"), Data: []byte("two apples"),
	})
	fmt.Println(err)
	fmt.Println(server.Counts().Of(emulator.CountKey{Operation: "PutRecord"}).Requests)
	// Output:
	// <nil>
	// 1
}

// A reply that is lost makes the SDK send the request again: the record is there twice.
func ExampleServer_Inject() {
	ctx := context.Background()
	server := emulator.New()
	if err := server.CreateStream("orders", 1); err != nil {
		fmt.Println(err)
		return
	}
	remove := server.Inject(emulator.Rule{Operation: "PutRecord", Times: 1, Effect: emulator.DropReply()})
	defer remove()
	client := kinesis.NewFromConfig(server.AWSConfig())
	_, err := client.PutRecord(ctx, &kinesis.PutRecordInput{
		StreamName: aws.String("orders"), PartitionKey: aws.String("customer-17"), Data: []byte("two apples"),
	})
	fmt.Println(err)
	fmt.Println(server.Counts().Of(emulator.CountKey{Operation: "PutRecord"}).Requests)
	// Output:
	// <nil>
	// 2
}
