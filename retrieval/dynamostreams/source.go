package dynamostreams

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/retrieval"
)

// API is what a source needs of DynamoDB Streams. *dynamodbstreams.Client has it. It must be safe for concurrent use.
type API interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

var _ API = (*dynamodbstreams.Client)(nil)

// Source reads streams of tables. Several workers may share one, also if they read different streams. Its methods are those of Kinesis'
// client, for package retrieval; they are safe for concurrent use. The client's own retries are switched off call by call, since the
// worker retries by itself.
type Source struct {
	api   API
	ended sync.Map // by a stream's ARN: whether it had ended, as last told
}

var _ retrieval.LineageAPI = (*Source)(nil)

// New makes a source that reads through api. It does no I/O. With nil, shardlease.New refuses the source.
func New(api API) *Source { return &Source{api: api} }

// Check says what is wrong with the source: it has no client. shardlease.New asks it, so that a client that is nil does not crash the
// program at the first request.
func (s *Source) Check() error {
	if v := reflect.ValueOf(s.api); !v.IsValid() {
		return errors.New("dynamostreams.New was given nil, want a client of DynamoDB Streams")
	} else if v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("dynamostreams.New was given a nil %T, want a client of DynamoDB Streams", s.api)
	}
	return nil
}

// ourRetries are the options of every call: retries are the worker's.
var ourRetries = []func(*dynamodbstreams.Options){func(o *dynamodbstreams.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 0
}}

// Region implements retrieval.LineageAPI.
func (s *Source) Region() string {
	if c, ok := s.api.(*dynamodbstreams.Client); ok && c != nil {
		return c.Options().Region
	}
	return ""
}

// Permissions implements retrieval.LineageAPI.
func (*Source) Permissions() string {
	return "dynamodb:DescribeStream, dynamodb:GetShardIterator and dynamodb:GetRecords"
}

// WhenMissing implements retrieval.LineageAPI.
func (*Source) WhenMissing() string {
	return "check the ARN, the region and the account: DescribeTable tells the table's stream as LatestStreamArn, another one each time that " +
		"the stream is enabled; a stream that was disabled, or whose table was deleted, is gone after a day"
}

// Ended implements retrieval.LineageAPI: the stream was disabled, or its table deleted. Then its shards are closed and have no
// children; they can be read for another day.
func (s *Source) Ended(arn string) bool {
	ended, _ := s.ended.Load(arn)
	return ended == true
}

// ended tells from a description what [Source.Ended] does.
func ended(d *types.StreamDescription) bool {
	return d.StreamStatus == types.StreamStatusDisabled || d.StreamStatus == types.StreamStatusDisabling
}

// describe is DescribeStream.
func (s *Source) describe(ctx context.Context, in *dynamodbstreams.DescribeStreamInput) (*dynamodbstreams.DescribeStreamOutput, error) {
	out, err := s.api.DescribeStream(ctx, in, ourRetries...)
	if err != nil {
		return nil, err
	}
	if out.StreamDescription == nil {
		return nil, errors.New("describe stream: the service answers without a description")
	}
	s.ended.Store(aws.ToString(in.StreamArn), ended(out.StreamDescription))
	return out, nil
}

// DescribeStreamSummary says whether the stream can be read, and when it was created.
func (s *Source) DescribeStreamSummary(ctx context.Context, in *kinesis.DescribeStreamSummaryInput, _ ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error) {
	out, err := s.describe(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: in.StreamARN, Limit: aws.Int32(1)})
	if err != nil {
		return nil, err
	}
	d := out.StreamDescription
	status := kinesistypes.StreamStatusActive // a disabled one can be read on for a day
	if d.StreamStatus == types.StreamStatusEnabling {
		status = kinesistypes.StreamStatusCreating
	}
	return &kinesis.DescribeStreamSummaryOutput{
		StreamDescriptionSummary: &kinesistypes.StreamDescriptionSummary{
			StreamName: d.TableName, StreamARN: d.StreamArn, StreamStatus: status, StreamCreationTimestamp: d.CreationRequestDateTime,
		},
		ResultMetadata: out.ResultMetadata,
	}, nil
}

// ListShards lists shards, a page of DescribeStream at a time; it knows no filters. While the stream is disabled, shards that nothing
// follows are shown as open: they end like any others, but what they hold is still to be read by who begins now.
func (s *Source) ListShards(ctx context.Context, in *kinesis.ListShardsInput, _ ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	arn, after := aws.ToString(in.StreamARN), ""
	if in.NextToken != nil {
		arn, after, _ = strings.Cut(*in.NextToken, " ")
	}
	out, err := s.describe(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, ExclusiveStartShardId: optional(after)})
	if err != nil {
		return nil, err
	}
	listed := &kinesis.ListShardsOutput{ResultMetadata: out.ResultMetadata}
	over := ended(out.StreamDescription)
	for _, x := range out.StreamDescription.Shards {
		shard := kinesistypes.Shard{ShardId: x.ShardId, ParentShardId: x.ParentShardId}
		if r := x.SequenceNumberRange; r != nil {
			shard.SequenceNumberRange = &kinesistypes.SequenceNumberRange{StartingSequenceNumber: r.StartingSequenceNumber}
			if !over {
				shard.SequenceNumberRange.EndingSequenceNumber = r.EndingSequenceNumber
			}
		}
		listed.Shards = append(listed.Shards, shard)
	}
	if last := aws.ToString(out.StreamDescription.LastEvaluatedShardId); last != "" {
		listed.NextToken = aws.String(arn + " " + last)
	}
	return listed, nil
}

// GetShardIterator makes an iterator. At a record that the service has trimmed it begins with the oldest one that is left: whoever reads
// sees by the first record that something is missing; after such a record, where that could not be seen, it fails. There is no iterator at a time.
// AT_TIMESTAMP, which a worker asks for where InitialPosition is LATEST (the time of the first start is what that becomes), begins with
// the oldest record, and GetRecords leaves out what is older than the time.
func (s *Source) GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	it := iterator{shard: aws.ToString(in.ShardId)}
	ask := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: in.StreamARN, ShardId: in.ShardId, ShardIteratorType: types.ShardIteratorType(in.ShardIteratorType), SequenceNumber: in.StartingSequenceNumber,
	}
	if in.Timestamp != nil {
		it.since, ask.ShardIteratorType = in.Timestamp.Unix(), types.ShardIteratorTypeTrimHorizon
	}
	out, err := s.api.GetShardIterator(ctx, ask, ourRetries...)
	if _, trimmed := errors.AsType[*types.TrimmedDataAccessException](err); trimmed && ask.ShardIteratorType == types.ShardIteratorTypeAtSequenceNumber {
		ask.ShardIteratorType, ask.SequenceNumber = types.ShardIteratorTypeTrimHorizon, nil
		out, err = s.api.GetShardIterator(ctx, ask, ourRetries...)
	}
	if err != nil {
		return nil, err
	}
	if it.inner = aws.ToString(out.ShardIterator); it.inner == "" {
		return nil, errors.New("get shard iterator: the service answers without one")
	}
	return &kinesis.GetShardIteratorOutput{ShardIterator: aws.String(it.String()), ResultMetadata: out.ResultMetadata}, nil
}

// iterator is one of the service, with what the service does not remember.
type iterator struct {
	shard string
	since int64 // records created before this second are to be left out; 0: none
	asked int   // how often the shards that follow were asked for, and none was known
	inner string
}

// read is the inner iterator of a shard of which everything was read, and of which is not known yet what follows it.
const read = "-"

func (i iterator) String() string {
	return fmt.Sprintf("%s %d %d %s", i.shard, i.since, i.asked, i.inner)
}

func parseIterator(s string) (i iterator, err error) {
	if n, err := fmt.Sscanf(s, "%s %d %d %s", &i.shard, &i.since, &i.asked, &i.inner); n != 4 || err != nil {
		return iterator{}, fmt.Errorf("iterator %q is not one of this source", s)
	}
	return i, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
