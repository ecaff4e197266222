package sourcetest

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var streamCases = []testCase{
	{name: "a summary tells status, creation and open shards", run: func(t *testing.T, e *env) {
		s := e.summary(t, e.stream(t, 3))
		if s.StreamStatus != types.StreamStatusActive || aws.ToInt32(s.OpenShardCount) != 3 || s.StreamCreationTimestamp == nil || aws.ToString(s.StreamARN) == "" {
			t.Errorf("summary %+v, want ACTIVE with 3 shards, a creation time and an ARN", s)
		}
	}},
	{name: "a stream that exists cannot be created", run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		_, err := e.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
		wantCode(t, "create", err, "ResourceInUseException")
	}},
	{name: "a stream without ShardCount has shards", has: func(f Features) bool { return f.OnDemand }, run: func(t *testing.T, e *env) {
		name := fmt.Sprintf("sourcetest-%d-ondemand", e.run)
		if _, err := e.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}}); err != nil {
			t.Fatal(err)
		}
		e.deleteLater(t, name)
		e.active(t, name)
		wantRing(t, e.shards(t, name, nil))
		if got := e.summary(t, name).StreamModeDetails; got == nil || got.StreamMode != types.StreamModeOnDemand {
			t.Errorf("StreamModeDetails is %+v, want ON_DEMAND", got)
		}
	}},
	{name: "StreamARN serves in the place of StreamName", has: func(f Features) bool { return f.StreamARN }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		arn := e.summary(t, name).StreamARN
		put, err := e.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamARN: arn, PartitionKey: aws.String("k"), Data: []byte("x")})
		if err != nil {
			t.Fatalf("put: %v", err)
		}
		list, err := e.ListShards(t.Context(), &kinesis.ListShardsInput{StreamARN: arn})
		if err != nil || len(list.Shards) != 1 {
			t.Fatalf("list: %v, %v", list, err)
		}
		it, err := e.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{StreamARN: arn, ShardId: put.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		if err != nil {
			t.Fatalf("iterator: %v", err)
		}
		out, err := e.GetRecords(t.Context(), &kinesis.GetRecordsInput{StreamARN: arn, ShardIterator: it.ShardIterator})
		if err != nil || len(out.Records) != 1 {
			t.Errorf("get records: %v, %v", out, err)
		}
		if _, err := e.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamARN: arn}); err != nil {
			t.Errorf("describe: %v", err)
		}
	}},
	{name: "the retention period grows and shrinks", has: func(f Features) bool { return f.Retention }, run: func(t *testing.T, e *env) {
		name := e.stream(t, 1)
		grow := func(hours int32) error {
			_, err := e.IncreaseStreamRetentionPeriod(t.Context(), &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: &name, RetentionPeriodHours: &hours})
			return err
		}
		shrink := func(hours int32) error {
			_, err := e.DecreaseStreamRetentionPeriod(t.Context(), &kinesis.DecreaseStreamRetentionPeriodInput{StreamName: &name, RetentionPeriodHours: &hours})
			return err
		}
		if err := grow(48); err != nil {
			t.Fatal(err)
		}
		e.active(t, name)
		if got := aws.ToInt32(e.summary(t, name).RetentionPeriodHours); got != 48 {
			t.Errorf("%d hours, want 48", got)
		}
		wantCode(t, "increase to less", grow(30), "InvalidArgumentException")
		wantCode(t, "decrease to more", shrink(72), "InvalidArgumentException")
		wantCode(t, "below 24 hours", shrink(23), "InvalidArgumentException", "ValidationException")
		if err := shrink(24); err != nil {
			t.Error(err)
		}
	}},
}
