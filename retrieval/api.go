package retrieval

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// KinesisAPI is what this package needs of Kinesis. *kinesis.Client has it. It must be safe for concurrent use.
type KinesisAPI interface {
	DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error)
	GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
	GetShardIterator(context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	ListShards(context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
}

var _ KinesisAPI = (*kinesis.Client)(nil)

// ourRetries are the options of every call: retries are ours. It is a slice, so that passing it allocates nothing.
var ourRetries = []func(*kinesis.Options){func(o *kinesis.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 0
}}

// optional is a request's field that is left out if it is empty.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
