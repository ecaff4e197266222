package sourcetest

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var streamCases = []testCase{
	{name: "a summary tells status, creation and open shards", run: func(tb testing.TB, e *env) {
		s := e.summary(tb, e.stream(tb, 3))
		if s.StreamStatus != types.StreamStatusActive || aws.ToInt32(s.OpenShardCount) != 3 || s.StreamCreationTimestamp == nil || aws.ToString(s.StreamARN) == "" {
			tb.Errorf("summary %+v, want ACTIVE with 3 shards, a creation time and an ARN", s)
		}
	}},
	{name: "a stream that exists cannot be created", run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		_, err := e.CreateStream(tb.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
		wantCode(tb, "create", err, "ResourceInUseException")
	}},
	{name: "a stream without ShardCount has shards", has: func(f Features) bool { return f.OnDemand }, run: func(tb testing.TB, e *env) {
		name := fmt.Sprintf("sourcetest-%d-ondemand", e.run)
		if _, err := e.CreateStream(tb.Context(), &kinesis.CreateStreamInput{StreamName: &name, StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}}); err != nil {
			tb.Fatal(err)
		}
		e.deleteLater(tb, name)
		e.active(tb, name)
		wantRing(tb, e.shards(tb, name, nil))
		if got := e.summary(tb, name).StreamModeDetails; got == nil || got.StreamMode != types.StreamModeOnDemand {
			tb.Errorf("StreamModeDetails is %+v, want ON_DEMAND", got)
		}
	}},
	{name: "StreamARN serves in the place of StreamName", has: func(f Features) bool { return f.StreamARN }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		arn := e.summary(tb, name).StreamARN
		put, err := e.PutRecord(tb.Context(), &kinesis.PutRecordInput{StreamARN: arn, PartitionKey: aws.String("k"), Data: []byte("x")})
		if err != nil {
			tb.Fatalf("put: %v", err)
		}
		list, err := e.ListShards(tb.Context(), &kinesis.ListShardsInput{StreamARN: arn})
		if err != nil || len(list.Shards) != 1 {
			tb.Fatalf("list: %v, %v", list, err)
		}
		it, err := e.GetShardIterator(tb.Context(), &kinesis.GetShardIteratorInput{StreamARN: arn, ShardId: put.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		if err != nil {
			tb.Fatalf("iterator: %v", err)
		}
		out, err := e.GetRecords(tb.Context(), &kinesis.GetRecordsInput{StreamARN: arn, ShardIterator: it.ShardIterator})
		if err != nil || len(out.Records) != 1 {
			tb.Errorf("get records: %v, %v", out, err)
		}
		if _, err := e.DescribeStreamSummary(tb.Context(), &kinesis.DescribeStreamSummaryInput{StreamARN: arn}); err != nil {
			tb.Errorf("describe: %v", err)
		}
	}},
	{name: "the retention period grows and shrinks", has: func(f Features) bool { return f.Retention }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		grow := func(hours int32) error {
			_, err := e.IncreaseStreamRetentionPeriod(tb.Context(), &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: &name, RetentionPeriodHours: &hours})
			return err
		}
		shrink := func(hours int32) error {
			_, err := e.DecreaseStreamRetentionPeriod(tb.Context(), &kinesis.DecreaseStreamRetentionPeriodInput{StreamName: &name, RetentionPeriodHours: &hours})
			return err
		}
		if err := grow(48); err != nil {
			tb.Fatal(err)
		}
		e.active(tb, name)
		if got := aws.ToInt32(e.summary(tb, name).RetentionPeriodHours); got != 48 {
			tb.Errorf("%d hours, want 48", got)
		}
		wantCode(tb, "increase to less", grow(30), "InvalidArgumentException")
		wantCode(tb, "decrease to more", shrink(72), "InvalidArgumentException")
		wantCode(tb, "below 24 hours", shrink(23), "InvalidArgumentException", "ValidationException")
		if err := shrink(24); err != nil {
			tb.Error(err)
		}
	}},
}
