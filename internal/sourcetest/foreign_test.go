package sourcetest_test

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/awshttp"
	"github.com/shardlease/shardlease/internal/sourcetest"
)

// kinds are the foreign servers that we know, with what each has.
var kinds = map[string]func() sourcetest.Features{
	"aws":           sourcetest.Everything,
	"kinesis-local": kinesisLocal,
	"localstack":    localStack,
	"kinesalite":    kinesalite,
	"ministack":     ministack,
}

// kinesisLocal is kinesis-mock, the npm package kinesis-local 0.6.2.
func kinesisLocal() sourcetest.Features {
	f := sourcetest.Everything()
	f.InvalidIterator = false // 500
	f.InvalidSequence = false // ResourceNotFoundException
	f.TimeBehind = false      // the spread of the records' times
	f.EmptyBatchRefused, f.LongBatchRefused, f.LargeBatchRefused, f.LargeRecordRefused = false, false, false, false
	f.SplitAtStartRefused = false // leaves a child without hash keys
	f.SubscribeToShard, f.UnknownConsumer, f.SubscriptionsExclude, f.SubscriptionsEndShard = false, false, false, false
	f.FilterResolution = time.Second
	f.Filters = slices.DeleteFunc(f.Filters, func(k types.ShardFilterType) bool { return k == types.ShardFilterTypeAtTrimHorizon })
	return f
}

// localStack is LocalStack 4.14.0, whose streams are those of kinesis-local 0.5.2, with subscriptions of its own.
func localStack() sourcetest.Features {
	f := kinesisLocal()
	f.SubscribeToShard = true
	return f
}

// kinesalite is the npm package of that name, 3.3.3.
func kinesalite() sourcetest.Features {
	return sourcetest.Features{
		InvalidIterator: true, InvalidSequence: true, FutureTimestamp: true,
		EmptyBatchRefused: true, LongBatchRefused: true, LargeRecordRefused: true, LargeHashKeyRefused: true,
		SplitAtStartRefused: true, MergeOfStrangersRefused: true, Retention: true, Resharding: true,
		// It ignores every filter and lists all shards, which is what these ask for.
		Filters: []types.ShardFilterType{types.ShardFilterTypeFromTrimHorizon, types.ShardFilterTypeFromTimestamp},
	}
}

// ministack is the Python package of that name, 1.5.33.
func ministack() sourcetest.Features {
	f := sourcetest.Everything()
	f.Resharding, f.ChildShards, f.EndAtOnce = false, false, false // a split or a merge deletes the parents with their records
	f.SplitAtStartRefused, f.SplitOfClosedRefused = false, false   // refused, by other errors
	f.MergeOfStrangersRefused = false
	f.Retention = false // wrong periods are refused, by other errors
	f.ListShardsPages, f.NextTokenAlone = false, false
	f.Filters = []types.ShardFilterType{types.ShardFilterTypeAtLatest, types.ShardFilterTypeAfterShardId}
	f.InvalidIterator = false // ExpiredIteratorException
	f.InvalidSequence, f.FutureTimestamp, f.PageBytes = false, false, false
	f.EmptyBatchRefused, f.LargeHashKeyRefused = false, false
	return f
}

// TestForeignServer_behavesAsKinesisDoes runs the suite against the server at SHARDLEASE_KINESIS_ENDPOINT; SHARDLEASE_KINESIS_KIND says which
// of the servers we know it is (aws by default).
func TestForeignServer_behavesAsKinesisDoes(t *testing.T) {
	endpoint, kind := os.Getenv("SHARDLEASE_KINESIS_ENDPOINT"), os.Getenv("SHARDLEASE_KINESIS_KIND")
	if endpoint == "" {
		t.Log("no foreign server: SHARDLEASE_KINESIS_ENDPOINT is not set")
		return
	}
	if kind == "" {
		kind = "aws"
	}
	features, known := kinds[kind]
	if !known {
		t.Fatalf("SHARDLEASE_KINESIS_KIND is %q, want one of %v", kind, slices.Sorted(maps.Keys(kinds)))
	}
	sourcetest.Run(t, awshttp.Prepare(aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: &endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("000000000000", "secret", ""),
	}), features())
}

// TestForeignServer_behavesAsDynamoDBStreamsDo runs the suite against the server at SHARDLEASE_DYNAMODBSTREAMS_ENDPOINT, which serves DynamoDB
// as well. None that we know passes whole (docs/dynamodb-streams.md): it is for looking at one, and for the service itself.
func TestForeignServer_behavesAsDynamoDBStreamsDo(t *testing.T) {
	endpoint := os.Getenv("SHARDLEASE_DYNAMODBSTREAMS_ENDPOINT")
	if endpoint == "" {
		t.Log("no foreign server: SHARDLEASE_DYNAMODBSTREAMS_ENDPOINT is not set")
		return
	}
	sourcetest.RunTableStreams(t, awshttp.Prepare(aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("000000000000", "secret", ""),
	}), nil)
}
