package sourcetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// consumer registers one of this name and waits until it is ACTIVE.
func (e *env) consumer(tb testing.TB, stream, name string) *string {
	tb.Helper()
	out, err := e.RegisterStreamConsumer(tb.Context(), &kinesis.RegisterStreamConsumerInput{StreamARN: e.summary(tb, stream).StreamARN, ConsumerName: &name})
	if err != nil {
		tb.Fatalf("register consumer: %v", err)
	}
	eventually(tb, "consumer is ACTIVE", func(ctx context.Context) bool {
		d, err := e.DescribeStreamConsumer(ctx, &kinesis.DescribeStreamConsumerInput{ConsumerARN: out.Consumer.ConsumerARN})
		if err != nil {
			tb.Fatalf("describe consumer: %v", err)
		}
		return d.ConsumerDescription.ConsumerStatus == types.ConsumerStatusActive
	})
	return out.Consumer.ConsumerARN
}

// subscribe opens a subscription that ends with the test, on a client of its own: smithy-go 1.28.9 keeps the decoder of
// event streams in the client, without a lock, so that two streams of one client race.
func (e *env) subscribe(tb testing.TB, consumer *string, shard string, from types.StartingPosition) *kinesis.SubscribeToShardEventStream {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	client := kinesis.NewFromConfig(e.cfg)
	out, err := client.SubscribeToShard(ctx, &kinesis.SubscribeToShardInput{ConsumerARN: consumer, ShardId: &shard, StartingPosition: &from})
	if err != nil {
		tb.Fatalf("subscribe to %s: %v", shard, err)
	}
	tb.Cleanup(func() { _ = out.GetStream().Close() })
	return out.GetStream()
}

// receive reads events until n records have come, or the stream ends.
func receive(tb testing.TB, stream *kinesis.SubscribeToShardEventStream, n int) (records []types.Record, last types.SubscribeToShardEvent) {
	tb.Helper()
	for event := range stream.Events() {
		e, ok := event.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent)
		if !ok {
			tb.Fatalf("event of the kind %T", event)
		}
		records, last = append(records, e.Value.Records...), e.Value
		if len(records) >= n {
			return records, last
		}
	}
	tb.Fatalf("the subscription ended after %d records with %v, want %d", len(records), stream.Err(), n)
	return nil, last
}

var fanoutCases = []testCase{
	{name: "a consumer is registered, listed and deregistered", has: func(f Features) bool { return f.Consumers }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		arn := e.consumer(tb, name, "reader")
		stream := e.summary(tb, name).StreamARN
		list, err := e.ListStreamConsumers(tb.Context(), &kinesis.ListStreamConsumersInput{StreamARN: stream})
		if err != nil || len(list.Consumers) != 1 || *list.Consumers[0].ConsumerARN != *arn {
			tb.Fatalf("list: %+v, %v; want %s alone", list, err, *arn)
		}
		_, err = e.RegisterStreamConsumer(tb.Context(), &kinesis.RegisterStreamConsumerInput{StreamARN: stream, ConsumerName: aws.String("reader")})
		wantCode(tb, "register again", err, "ResourceInUseException")
		if _, err := e.DeregisterStreamConsumer(tb.Context(), &kinesis.DeregisterStreamConsumerInput{ConsumerARN: arn}); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "the consumer is gone", func(ctx context.Context) bool {
			_, err := e.DescribeStreamConsumer(ctx, &kinesis.DescribeStreamConsumerInput{ConsumerARN: arn})
			return code(err) == "ResourceNotFoundException"
		})
	}},
	{name: "a subscription gives old and new records and resumes where it was", has: func(f Features) bool { return f.SubscribeToShard }, run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		consumer := e.consumer(tb, name, "reader")
		stream := e.subscribe(tb, consumer, shard, types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		records, _ := receive(tb, stream, 10)
		e.put(tb, name, "k", "live")
		more, last := receive(tb, stream, 1)
		if got := fmt.Sprint(texts(append(records, more...))); got != "[r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 live]" {
			tb.Errorf("got %s", got)
		}
		_ = stream.Close()
		e.put(tb, name, "k", "next")
		// Another consumer: the first one's subscription is not old enough to be followed by a second.
		records, _ = receive(tb, e.subscribe(tb, e.consumer(tb, name, "other"), shard, types.StartingPosition{
			Type: types.ShardIteratorTypeAfterSequenceNumber, SequenceNumber: last.ContinuationSequenceNumber,
		}), 1)
		if string(records[0].Data) != "next" {
			tb.Errorf("resumed with %s, want next", records[0].Data)
		}
	}},
	{name: "a subscription ends with its shard and names the children", has: func(f Features) bool { return f.SubscriptionsEndShard }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		e.put(tb, name, "k", "only")
		parent := e.shards(tb, name, nil)[0]
		stream := e.subscribe(tb, e.consumer(tb, name, "reader"), *parent.ShardId, types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		receive(tb, stream, 1)
		e.split(tb, name, parent)
		var children []types.ChildShard
		for event := range stream.Events() {
			e, ok := event.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent)
			if !ok {
				tb.Fatalf("event of the kind %T", event)
			}
			children = e.Value.ChildShards
		}
		if err := stream.Err(); err != nil {
			tb.Error(err)
		}
		if len(children) != 2 {
			tb.Errorf("%d ChildShards in the last event, want 2", len(children))
		}
	}},
	{name: "a second subscription is refused within five seconds", has: func(f Features) bool { return f.SubscriptionsExclude }, run: func(tb testing.TB, e *env) {
		name, shard, _ := ten(tb, e)
		consumer := e.consumer(tb, name, "reader")
		first := e.subscribe(tb, consumer, shard, types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		_, err := kinesis.NewFromConfig(e.cfg).SubscribeToShard(tb.Context(), &kinesis.SubscribeToShardInput{
			ConsumerARN: consumer, ShardId: &shard, StartingPosition: &types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon},
		})
		wantCode(tb, "subscribe again", err, "ResourceInUseException")
		receive(tb, first, 10) // is not disturbed by that
	}},
	{name: "a subscription of a consumer that does not exist is ResourceNotFoundException", has: func(f Features) bool { return f.UnknownConsumer }, run: func(tb testing.TB, e *env) {
		name := e.stream(tb, 1)
		arn := *e.summary(tb, name).StreamARN + "/consumer/nobody:1700000000"
		_, err := kinesis.NewFromConfig(e.cfg).SubscribeToShard(tb.Context(), &kinesis.SubscribeToShardInput{
			ConsumerARN: &arn, ShardId: aws.String("shardId-000000000000"), StartingPosition: &types.StartingPosition{Type: types.ShardIteratorTypeLatest},
		})
		wantCode(tb, "subscribe", err, "ResourceNotFoundException")
	}},
}
