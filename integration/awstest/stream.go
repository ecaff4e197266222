package awstest

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// streamTimeout bounds how long a stream takes to become ACTIVE: some ten seconds on AWS and on a busy LocalStack.
const streamTimeout = 2 * time.Minute

// CreateStream creates a stream of so many shards and waits until it can be used; the test fails if that takes more than
// two minutes. The stream is deleted when the test is over; a lease table that a worker created is not.
func (e *Environment) CreateStream(tb testing.TB, name string, shards int) {
	tb.Helper()
	client := kinesis.NewFromConfig(e.Config)
	ctx, cancel := context.WithTimeout(tb.Context(), streamTimeout)
	defer cancel()
	if _, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(int32(shards))}); err != nil {
		tb.Fatalf("awstest: create stream %s with %d shards: %v", name, shards, err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_, err := client.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: &name, EnforceConsumerDeletion: aws.Bool(true)})
		if err != nil {
			tb.Logf("awstest: delete stream %s: %v", name, err)
		}
	})
	wait := kinesis.NewStreamExistsWaiter(client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, 2*time.Second
	})
	if err := wait.Wait(ctx, &kinesis.DescribeStreamInput{StreamName: &name}, streamTimeout); err != nil {
		tb.Fatalf("awstest: wait for stream %s: %v", name, err)
	}
}
