package emulator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// TestKinesis_refusesByName goes past the SDK, which would not send most of these. The server has the stream "orders".
func TestKinesis_refusesByName(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const split = `{"StreamName":"orders","ShardToSplit":"shardId-000000000000","NewStartingHashKey":"`
	for _, c := range []struct {
		operation, body string
		code            string
		says            string // what the message has to name
	}{
		{"DeleteTheInternet", `{}`, "UnknownOperationException", "DeleteTheInternet"},
		{"", `{}`, "UnknownOperationException", ""},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"k","Data":"aGk=","Priority":1}`, "SerializationException", "Priority"},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"k","Data":"aGk=","DryRun":true}`, "SerializationException", "DryRun"},
		{"PutRecords", `{"StreamName":"orders","Records":[{"PartitionKey":"k","Data":"aGk=","Priority":1}]}`, "SerializationException", "Priority"},
		{"PutRecords", `{"StreamName":"orders","Topic":"x","Records":[]}`, "SerializationException", "Topic"},
		{"PutRecords", `{"StreamName":"orders","Records":[{"PartitionKey":"k","Data":"###"}]}`, "SerializationException", "Data"},
		{"PutRecords", `{"StreamName":"orders","Records":[`, "SerializationException", "too early"},
		{"PutRecords", `{"StreamName":"orders","Records":[]} x`, "SerializationException", "the end"},
		{"PutRecords", `{"StreamName":"orders","Records":[]}`, "ValidationException", "0 Records"},
		{"PutRecords", `{"StreamName":"orders","Records":[{"PartitionKey":"a","Data":"aGk="},{"PartitionKey":"","Data":"aGk="}]}`, "ValidationException", "Records[1]"},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"k"}`, "ValidationException", "Data"},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"` + strings.Repeat("k", 257) + `","Data":"aGk="}`, "ValidationException", "257"},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"k","Data":"aGk=","ExplicitHashKey":"-1"}`, "ValidationException", "-1"},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"k","Data":"aGk=","ExplicitHashKey":"340282366920938463463374607431768211456"}`, "InvalidArgumentException", "340282366920938463463374607431768211456"},
		{"SplitShard", split + `01"}`, "ValidationException", "01"},
		{"SplitShard", split + `340282366920938463463374607431768211456"}`, "InvalidArgumentException", "340282366920938463463374607431768211456"},
		{"PutRecord", `{"StreamName":"orders","PartitionKey":"k","Data":"aGk=","SequenceNumberForOrdering":"5"}`, "InvalidArgumentException", `"5"`},
		{"PutRecord", `not JSON`, "SerializationException", ""},
		{"ListShards", `{}`, "InvalidArgumentException", "StreamName"},
		{"ListShards", `{"StreamName":17}`, "SerializationException", "StreamName"},
		{"ListShards", `{"StreamName":"or ders"}`, "ValidationException", "or ders"},
		{"ListShards", `{"StreamARN":"arn:aws:kinesis:eu-west-1:000000000000:stream/orders"}`, "ResourceNotFoundException", "eu-west-1"},
		{"ListShards", `{"StreamARN":"orders"}`, "InvalidArgumentException", "orders"},
		{"ListShards", `{"StreamName":"a","StreamARN":"arn:aws:kinesis:us-east-1:000000000000:stream/orders"}`, "InvalidArgumentException", "different"},
		{"ListShards", `{"StreamName":"orders","StreamId":"x"}`, "InvalidArgumentException", "StreamId"},
		{"ListShards", `{"StreamName":"orders","MaxResults":0}`, "ValidationException", "MaxResults is 0"},
		{"ListShards", `{"StreamName":"orders","StreamCreationTimestamp":1}`, "ResourceNotFoundException", "1970"},
		{"ListShards", `{"StreamName":"orders","ShardFilter":{"Type":"SOME"}}`, "ValidationException", "SOME"},
		{"ListShards", `{"StreamName":"orders","ShardFilter":{"Type":"AFTER_SHARD_ID"}}`, "InvalidArgumentException", "ShardId"},
		{"ListShards", `{"StreamName":"orders","ShardFilter":{"Type":"AT_LATEST","ShardId":"x"}}`, "InvalidArgumentException", "ShardId"},
		{"ListShards", `{"StreamName":"orders","ShardFilter":{"Type":"AT_TIMESTAMP"}}`, "InvalidArgumentException", "Timestamp"},
		{"ListShards", `{"StreamName":"orders","ShardFilter":{"Type":"AT_LATEST","Timestamp":1}}`, "InvalidArgumentException", "Timestamp"},
		{"GetShardIterator", `{"StreamName":"orders","ShardId":"shardId-000000000000","ShardIteratorType":"NEXT"}`, "ValidationException", "NEXT"},
		{"GetShardIterator", `{"StreamName":"orders","ShardId":"shardId-000000000000","ShardIteratorType":"AT_TIMESTAMP"}`, "InvalidArgumentException", "Timestamp"},
		{"GetShardIterator", `{"StreamName":"orders","ShardId":"shardId-000000000000","ShardIteratorType":"AT_TIMESTAMP","Timestamp":"noon"}`, "SerializationException", "noon"},
		{"GetShardIterator", `{"StreamName":"orders","ShardId":"shardId-000000000000","ShardIteratorType":"AT_SEQUENCE_NUMBER"}`, "InvalidArgumentException", "sequence number"},
		{"GetShardIterator", `{"StreamName":"orders","ShardId":"shard-0","ShardIteratorType":"LATEST"}`, "ResourceNotFoundException", "shard-0"},
		{"GetRecords", `{"ShardIterator":"AAAA"}`, "InvalidArgumentException", "ShardIterator"},
		{"SplitShard", split + `0"}`, "InvalidArgumentException", "shardId-000000000000"},
		{"SplitShard", split + `1"}`, "InvalidArgumentException", "above 0 + 1"},
		{"SplitShard", split + `340282366920938463463374607431768211455"}`, "InvalidArgumentException", "below"},
		{"SplitShard", split + `x"}`, "ValidationException", `"x"`},
		{"MergeShards", `{"StreamName":"orders","ShardToMerge":"shardId-000000000000","AdjacentShardToMerge":"shardId-000000000000"}`, "InvalidArgumentException", "not adjacent"},
		{"UpdateShardCount", `{"StreamName":"orders","TargetShardCount":3,"ScalingType":"UNIFORM_SCALING"}`, "LimitExceededException", "3"},
		{"UpdateShardCount", `{"StreamName":"orders","TargetShardCount":2}`, "ValidationException", "ScalingType"},
		{"CreateStream", `{"StreamName":"new"}`, "InvalidArgumentException", "ShardCount"},
		{"CreateStream", `{"StreamName":"new","ShardCount":10001}`, "ValidationException", "10001"},
		{"CreateStream", `{"StreamName":"new","StreamModeDetails":{"StreamMode":"ON_DEMAND"},"ShardCount":2}`, "InvalidArgumentException", "ShardCount is 2"},
		{"CreateStream", `{"StreamName":"new","ShardCount":1,"WarmThroughputMiBps":5}`, "SerializationException", "WarmThroughputMiBps"},
		{"IncreaseStreamRetentionPeriod", `{"StreamName":"orders","RetentionPeriodHours":8761}`, "InvalidArgumentException", "8761"},
		{"StartStreamEncryption", `{"StreamName":"orders","EncryptionType":"ROT13","KeyId":"k"}`, "ValidationException", "ROT13"},
		{"StartStreamEncryption", `{"StreamName":"orders","EncryptionType":"KMS"}`, "ValidationException", "KeyId"},
		{"UpdateStreamMode", `{"StreamARN":"arn:aws:kinesis:us-east-1:000000000000:stream/orders","StreamModeDetails":{"StreamMode":"SOME"}}`, "ValidationException", "SOME"},
		{"RegisterStreamConsumer", `{"StreamARN":"arn:aws:kinesis:us-east-1:000000000000:stream/orders","ConsumerName":""}`, "ValidationException", "ConsumerName"},
		{"DescribeStreamConsumer", `{}`, "InvalidArgumentException", "ConsumerARN"},
		{"DescribeStreamConsumer", `{"ConsumerARN":"x"}`, "InvalidArgumentException", `"x"`},
		{"DescribeStreamConsumer", `{"ConsumerARN":"arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/nobody:1"}`, "ResourceNotFoundException", "nobody"},
		{"SubscribeToShard", `{"ConsumerARN":"x","ShardId":"y"}`, "ValidationException", "StartingPosition"},
		{"SubscribeToShard", `{"Consumer":"x"}`, "SerializationException", "Consumer"},
		{"AddTagsToStream", `{"StreamName":"orders","Tags":{"":"x"}}`, "ValidationException", "tag key"},
		{"DescribeStream", `{"StreamName":"none"}`, "ResourceNotFoundException", "none"},
	} {
		got, err := w.post(t.Context(), t, "Kinesis_20131202."+c.operation, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), `"__type":"`+c.code+`"`) || !strings.Contains(strings.ReplaceAll(string(got.body), `\"`, `"`), c.says) {
			t.Errorf("%s %.100s: %d %s; want 400, %s naming %s", c.operation, c.body, got.status, got.body, c.code, c.says)
		}
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d records stored by refused calls", n)
	}
}

func TestKinesis_refusesOtherMediaTypes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://emulator.invalid", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "Kinesis_20131202.ListStreams")
	r.Header.Set("Content-Type", "text/plain")
	got, err := w.do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got.status != http.StatusUnsupportedMediaType || !strings.Contains(string(got.body), "text/plain") {
		t.Errorf("%d %s, want 415 naming text/plain", got.status, got.body)
	}
}

func TestKinesis_describesStreamsInPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 4 {
		if err := w.CreateStream(fmt.Sprintf("s%d", i), 5); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for p := kinesis.NewListStreamsPaginator(w.kinesis, &kinesis.ListStreamsInput{Limit: aws.Int32(2)}); p.HasMorePages(); {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(out.StreamNames) > 2 || len(out.StreamSummaries) != len(out.StreamNames) {
			t.Errorf("%d names and %d summaries, want at most 2 of each", len(out.StreamNames), len(out.StreamSummaries))
		}
		names = append(names, out.StreamNames...)
	}
	if want := []string{"orders", "s0", "s1", "s2", "s3"}; !slices.Equal(names, want) {
		t.Errorf("streams %v, want %v", names, want)
	}
	in := &kinesis.DescribeStreamInput{StreamName: aws.String("s0"), Limit: aws.Int32(2)}
	var ids []string
	for {
		out, err := w.kinesis.DescribeStream(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range out.StreamDescription.Shards {
			ids = append(ids, *s.ShardId)
			in.ExclusiveStartShardId = s.ShardId
		}
		if !*out.StreamDescription.HasMoreShards {
			break
		}
	}
	if len(ids) != 5 {
		t.Errorf("shards %v, want 5", ids)
	}
	limits, err := w.kinesis.DescribeLimits(t.Context(), &kinesis.DescribeLimitsInput{})
	if err != nil || *limits.OpenShardCount != 21 {
		t.Errorf("limits %+v, %v; want 21 open shards", limits, err)
	}
}

func TestKinesis_keepsSettings(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, name := t.Context(), aws.String("orders")
	summary := func(in *kinesis.DescribeStreamSummaryInput) *types.StreamDescriptionSummary {
		t.Helper()
		out, err := w.kinesis.DescribeStreamSummary(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		return out.StreamDescriptionSummary
	}
	s := summary(&kinesis.DescribeStreamSummaryInput{StreamName: name})
	byID := summary(&kinesis.DescribeStreamSummaryInput{StreamId: s.StreamId})
	if *byID.StreamName != "orders" || s.EncryptionType != types.EncryptionTypeNone || s.StreamModeDetails.StreamMode != types.StreamModeProvisioned {
		t.Errorf("summary %+v", s)
	}
	if _, err := w.kinesis.StartStreamEncryption(ctx, &kinesis.StartStreamEncryptionInput{StreamName: name, EncryptionType: types.EncryptionTypeKms, KeyId: aws.String("alias/k")}); err != nil {
		t.Fatal(err)
	}
	if put := w.put(t, "x"); put.EncryptionType != types.EncryptionTypeKms {
		t.Errorf("EncryptionType of a put is %s, want KMS", put.EncryptionType)
	}
	if got := w.get(t, w.iterator(t, types.ShardIteratorTypeTrimHorizon)).Records[0].EncryptionType; got != types.EncryptionTypeKms {
		t.Errorf("EncryptionType of a record is %s, want KMS", got)
	}
	if _, err := w.kinesis.UpdateStreamMode(ctx, &kinesis.UpdateStreamModeInput{StreamARN: s.StreamARN, StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}}); err != nil {
		t.Fatal(err)
	}
	s = summary(&kinesis.DescribeStreamSummaryInput{StreamARN: s.StreamARN})
	if s.EncryptionType != types.EncryptionTypeKms || *s.KeyId != "alias/k" || s.StreamModeDetails.StreamMode != types.StreamModeOnDemand {
		t.Errorf("summary %+v, want KMS with alias/k and ON_DEMAND", s)
	}
	_, err := w.kinesis.UpdateShardCount(ctx, &kinesis.UpdateShardCountInput{StreamName: name, TargetShardCount: aws.Int32(2), ScalingType: types.ScalingTypeUniformScaling})
	wantCode(t, "UpdateShardCount of an on-demand stream", err, "InvalidArgumentException")
	if _, err := w.kinesis.StopStreamEncryption(ctx, &kinesis.StopStreamEncryptionInput{StreamName: name, EncryptionType: types.EncryptionTypeKms, KeyId: aws.String("alias/k")}); err != nil {
		t.Fatal(err)
	}
	if put := w.put(t, "x"); put.EncryptionType != types.EncryptionTypeNone {
		t.Errorf("EncryptionType of a put is %s, want NONE", put.EncryptionType)
	}
}

func TestKinesis_keepsTags(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx, name := t.Context(), aws.String("orders")
	if _, err := w.kinesis.AddTagsToStream(ctx, &kinesis.AddTagsToStreamInput{StreamName: name, Tags: map[string]string{"a": "1", "b": "2"}}); err != nil {
		t.Fatal(err)
	}
	s, err := w.kinesis.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: name})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := w.kinesis.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{
		StreamARN: s.StreamDescriptionSummary.StreamARN, ConsumerName: aws.String("c"), Tags: map[string]string{"of": "consumer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.kinesis.TagResource(ctx, &kinesis.TagResourceInput{ResourceARN: s.StreamDescriptionSummary.StreamARN, Tags: map[string]string{"c": "3"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.kinesis.RemoveTagsFromStream(ctx, &kinesis.RemoveTagsFromStreamInput{StreamName: name, TagKeys: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	list, err := w.kinesis.ListTagsForStream(ctx, &kinesis.ListTagsForStreamInput{StreamName: name, Limit: aws.Int32(1)})
	if err != nil || len(list.Tags) != 1 || *list.Tags[0].Key != "b" || !*list.HasMoreTags {
		t.Errorf("tags %+v, %v; want b and more", list, err)
	}
	if _, err := w.kinesis.UntagResource(ctx, &kinesis.UntagResourceInput{ResourceARN: s.StreamDescriptionSummary.StreamARN, TagKeys: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	for arn, want := range map[*string]string{s.StreamDescriptionSummary.StreamARN: "c=3", consumer.Consumer.ConsumerARN: "of=consumer"} {
		out, err := w.kinesis.ListTagsForResource(ctx, &kinesis.ListTagsForResourceInput{ResourceARN: arn})
		if err != nil || len(out.Tags) != 1 || *out.Tags[0].Key+"="+*out.Tags[0].Value != want {
			t.Errorf("tags of %s: %+v, %v; want %s", *arn, out, err, want)
		}
	}
	many := map[string]string{}
	for i := range 50 {
		many[strconv.Itoa(i)] = ""
	}
	_, err = w.kinesis.AddTagsToStream(ctx, &kinesis.AddTagsToStreamInput{StreamName: name, Tags: many})
	wantCode(t, "51 tags", err, "InvalidArgumentException")
}

func TestKinesis_scalesToEqualShards(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, want := range []int32{2, 3, 4, 7, 5, 3, 2, 1} {
		if _, err := w.kinesis.UpdateShardCount(t.Context(), &kinesis.UpdateShardCountInput{
			StreamName: aws.String("orders"), TargetShardCount: &want, ScalingType: types.ScalingTypeUniformScaling,
		}); err != nil {
			t.Fatalf("to %d: %v", want, err)
		}
		out, err := w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("orders"), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}})
		if err != nil || len(out.Shards) != int(want) {
			t.Fatalf("to %d: %d shards, %v", want, len(out.Shards), err)
		}
		w.put(t, "x")
	}
}

func TestKinesis_takesTwentyConsumers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	arn := aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/orders")
	for i := range 21 {
		_, err := w.kinesis.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String(fmt.Sprintf("c%02d", i))})
		if i < 20 && err != nil {
			t.Fatal(err)
		}
		if i == 20 {
			wantCode(t, "consumer 21", err, "LimitExceededException")
		}
	}
	var n int
	for p := kinesis.NewListStreamConsumersPaginator(w.kinesis, &kinesis.ListStreamConsumersInput{StreamARN: arn, MaxResults: aws.Int32(8)}); p.HasMorePages(); {
		out, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(out.Consumers)
	}
	if n != 20 {
		t.Errorf("%d consumers listed, want 20", n)
	}
	_, err := w.kinesis.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String("orders")})
	wantCode(t, "delete a stream with consumers", err, "ResourceInUseException")
}

func TestWithLimits_throttlesAShard(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		batch := make([]types.PutRecordsRequestEntry, 500)
		for i := range batch {
			batch[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), Data: []byte("x")}
		}
		put := func() int32 {
			out, err := w.kinesis.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: aws.String("orders"), Records: batch})
			if err != nil {
				t.Fatal(err)
			}
			if n := *out.FailedRecordCount; n > 0 && *out.Records[499].ErrorCode != "ProvisionedThroughputExceededException" {
				t.Errorf("%d failed with %s", n, *out.Records[499].ErrorCode)
			}
			return *out.FailedRecordCount
		}
		if a, b, c := put(), put(), put(); a != 0 || b != 0 || c != 500 {
			t.Errorf("of 1500 records in no time %d, %d, %d failed; want 0, 0, 500", a, b, c)
		}
		_, err := w.kinesis.PutRecord(t.Context(), putInput("x"))
		wantCode(t, "put", err, "ProvisionedThroughputExceededException")
		time.Sleep(100 * time.Millisecond)
		if n := put(); n != 400 {
			t.Errorf("a tenth of a second later %d of 500 failed, want 400", n)
		}
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		for range 5 {
			w.get(t, it)
		}
		_, err = w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		wantCode(t, "sixth read in a second", err, "ProvisionedThroughputExceededException")
		time.Sleep(200 * time.Millisecond)
		w.get(t, it)
		for range 19 {
			if _, err := w.kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("orders")}); err != nil {
				t.Fatal(err)
			}
		}
		for err = nil; err == nil; {
			_, err = w.kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("orders")})
		}
		wantCode(t, "twenty-first summary in a second", err, "LimitExceededException")
	}, emulator.WithLimits())
}

func TestWithLimits_aLargePageStopsTheShardUntilItIsPaidFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 10 {
			w.put(t, strings.Repeat("x", 1<<20-1))
			time.Sleep(time.Second)
		}
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		if n := len(w.get(t, it).Records); n != 10 {
			t.Fatalf("%d records, want 10", n)
		}
		_, err := w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		wantCode(t, "at once", err, "ProvisionedThroughputExceededException")
		time.Sleep(3 * time.Second)
		_, err = w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		wantCode(t, "after 3 s", err, "ProvisionedThroughputExceededException")
		time.Sleep(1100 * time.Millisecond)
		w.get(t, it)
	}, emulator.WithLimits())
}
