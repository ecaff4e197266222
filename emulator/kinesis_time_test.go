package emulator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

func TestKinesis_iteratorsExpireAfterFiveMinutes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		time.Sleep(5 * time.Minute)
		next := w.get(t, it).NextShardIterator
		time.Sleep(time.Second)
		_, err := w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		if _, ok := errors.AsType[*types.ExpiredIteratorException](err); !ok {
			t.Errorf("error %v, want ExpiredIteratorException", err)
		}
		w.get(t, next) // issued a second ago
	})
}

func TestKinesis_iteratorTTLCanBeSet(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		time.Sleep(11 * time.Second)
		_, err := w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		wantCode(t, "get", err, "ExpiredIteratorException")
	}, emulator.WithIteratorTTL(10*time.Second))
}

func TestKinesis_recordsAreTrimmedAfterTheRetentionPeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := w.put(t, "old")
		time.Sleep(12 * time.Hour)
		w.put(t, "new")
		time.Sleep(12*time.Hour + time.Minute)
		page := w.get(t, w.iterator(t, types.ShardIteratorTypeTrimHorizon))
		if len(page.Records) != 1 || string(page.Records[0].Data) != "new" {
			t.Errorf("%d records after 24 hours, want the new one alone", len(page.Records))
		}
		// A position that is trimmed continues with what there is.
		in := iteratorInput(firstShard, types.ShardIteratorTypeAtSequenceNumber)
		in.StartingSequenceNumber = first.SequenceNumber
		out, err := w.kinesis.GetShardIterator(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if page := w.get(t, out.ShardIterator); len(page.Records) != 1 {
			t.Errorf("%d records from the trimmed one on, want 1", len(page.Records))
		}
		if _, err := w.kinesis.IncreaseStreamRetentionPeriod(t.Context(), &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: aws.String("orders"), RetentionPeriodHours: aws.Int32(48)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour)
		if n := w.count(t); n != 1 {
			t.Errorf("%d records with 48 hours of retention, want 1", n)
		}
	})
}

func TestKinesis_closedShardsVanishAfterTheRetentionPeriod(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(t, "x")
		if _, err := w.kinesis.SplitShard(t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String("orders"), ShardToSplit: aws.String(firstShard), NewStartingHashKey: aws.String("170141183460469231731687303715884105728"),
		}); err != nil {
			t.Fatal(err)
		}
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		list := func(kind types.ShardFilterType) int {
			out, err := w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("orders"), ShardFilter: &types.ShardFilter{Type: kind}})
			if err != nil {
				t.Fatal(err)
			}
			return len(out.Shards)
		}
		time.Sleep(23 * time.Hour)
		if all, at := list(types.ShardFilterTypeFromTrimHorizon), list(types.ShardFilterTypeAtTrimHorizon); all != 3 || at != 1 {
			t.Errorf("%d shards, %d at the horizon; want 3 and 1", all, at)
		}
		time.Sleep(2 * time.Hour)
		if all, at := list(types.ShardFilterTypeFromTrimHorizon), list(types.ShardFilterTypeAtTrimHorizon); all != 2 || at != 2 {
			t.Errorf("a day after the split %d shards, %d at the horizon; want 2 and 2", all, at)
		}
		_, err := w.kinesis.GetShardIterator(t.Context(), iteratorInput(firstShard, types.ShardIteratorTypeTrimHorizon))
		wantCode(t, "iterator of the parent", err, "ResourceNotFoundException")
		_, err = w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		wantCode(t, "its old iterator", err, "ExpiredIteratorException")
	})
}

func TestKinesis_millisBehindLatestIsTheAgeOfWhatWasRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(t, "a")
		time.Sleep(time.Second)
		w.put(t, "b")
		time.Sleep(500 * time.Millisecond)
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		out, err := w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(1)})
		if err != nil {
			t.Fatal(err)
		}
		if got := *out.MillisBehindLatest; got != 1500 {
			t.Errorf("after a: %d ms behind, want 1500", got)
		}
		if got := *w.get(t, out.NextShardIterator).MillisBehindLatest; got != 0 {
			t.Errorf("after b: %d ms behind, want 0", got)
		}
		if got := *w.get(t, w.iterator(t, types.ShardIteratorTypeLatest)).MillisBehindLatest; got != 0 {
			t.Errorf("at LATEST: %d ms behind, want 0", got)
		}
	})
}

func TestKinesis_atTimestampRefusesTheFutureOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		in := iteratorInput(firstShard, types.ShardIteratorTypeAtTimestamp)
		in.Timestamp = aws.Time(time.Now())
		if _, err := w.kinesis.GetShardIterator(t.Context(), in); err != nil {
			t.Errorf("now: %v", err)
		}
		in.Timestamp = aws.Time(time.Now().Add(2 * time.Millisecond))
		_, err := w.kinesis.GetShardIterator(t.Context(), in)
		wantCode(t, "in 2 ms", err, "InvalidArgumentException")
	})
}

func TestKinesis_listTokensExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if err := w.CreateStream("wide", 3); err != nil {
			t.Fatal(err)
		}
		out, err := w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("wide"), MaxResults: aws.Int32(1)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{NextToken: out.NextToken}); err != nil {
			t.Errorf("after 5 min: %v", err)
		}
		time.Sleep(time.Second)
		_, err = w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{NextToken: out.NextToken})
		wantCode(t, "later", err, "ExpiredNextTokenException")
		_, err = w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{NextToken: aws.String("garbage")})
		wantCode(t, "garbage", err, "InvalidArgumentException")
	})
}

func TestKinesis_controlCallsTakeTheirTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		name := aws.String("slow")
		status := func() types.StreamStatus {
			t.Helper()
			out, err := w.kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: name})
			if err != nil {
				t.Fatal(err)
			}
			return out.StreamDescriptionSummary.StreamStatus
		}
		want := func(s types.StreamStatus) {
			t.Helper()
			if got := status(); got != s {
				t.Errorf("status %s, want %s", got, s)
			}
		}
		if _, err := w.kinesis.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(1)}); err != nil {
			t.Fatal(err)
		}
		want(types.StreamStatusCreating)
		_, err := w.kinesis.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("k"), Data: []byte("x")})
		wantCode(t, "put while CREATING", err, "ResourceNotFoundException")
		_, err = w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: name})
		wantCode(t, "list while CREATING", err, "ResourceInUseException")
		time.Sleep(10 * time.Second)
		want(types.StreamStatusActive)

		split := func() error {
			_, err := w.kinesis.SplitShard(t.Context(), &kinesis.SplitShardInput{StreamName: name, ShardToSplit: aws.String(firstShard), NewStartingHashKey: aws.String("1000")})
			return err
		}
		if err := split(); err != nil {
			t.Fatal(err)
		}
		want(types.StreamStatusUpdating)
		wantCode(t, "split while UPDATING", split(), "ResourceInUseException")
		time.Sleep(10 * time.Second)
		want(types.StreamStatusActive)
		wantCode(t, "split of a closed shard", split(), "InvalidArgumentException")

		remove := func() error {
			_, err := w.kinesis.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: name})
			return err
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		want(types.StreamStatusDeleting)
		wantCode(t, "delete while DELETING", remove(), "ResourceInUseException")
		_, err = w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: name})
		wantCode(t, "list while DELETING", err, "ResourceInUseException")
		time.Sleep(10 * time.Second)
		_, err = w.kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: name})
		wantCode(t, "describe when deleted", err, "ResourceNotFoundException")
		if _, err := w.kinesis.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: name, ShardCount: aws.Int32(1)}); err != nil {
			t.Errorf("create anew: %v", err)
		}
	}, emulator.WithControlDelay(10*time.Second))
}

func TestKinesis_aStreamMadeAnewIsAnotherOne(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		old := w.put(t, "old")
		it := w.iterator(t, types.ShardIteratorTypeTrimHorizon)
		if _, err := w.kinesis.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String("orders")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := w.CreateStream("orders", 1); err != nil {
			t.Fatal(err)
		}
		_, err := w.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it})
		wantCode(t, "old iterator", err, "ResourceNotFoundException")
		in := iteratorInput(firstShard, types.ShardIteratorTypeAtSequenceNumber)
		in.StartingSequenceNumber = old.SequenceNumber
		_, err = w.kinesis.GetShardIterator(t.Context(), in)
		wantCode(t, "old sequence number", err, "InvalidArgumentException")
		if next := w.put(t, "new"); *next.SequenceNumber <= *old.SequenceNumber {
			t.Errorf("sequence number %s after %s, want more", *next.SequenceNumber, *old.SequenceNumber)
		}
	})
}

func TestKinesis_subscriptionsEndAfterFiveMinutes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		start := time.Now()
		stream, _ := w.subscribe(t.Context(), t)
		defer stream.Close()
		beats := 0
		for range stream.Events() {
			beats++
		}
		if took := time.Since(start); took != 5*time.Minute || stream.Err() != nil {
			t.Errorf("ended after %s with %v, want 5m and no error", took, stream.Err())
		}
		if beats < 298 || beats > 300 {
			t.Errorf("%d empty events, want one a second", beats)
		}
	})
}

func TestKinesis_aSubscriptionIsTakenOverAfterFiveSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first, consumer := w.subscribe(t.Context(), t)
		defer first.Close()
		time.Sleep(4 * time.Second)
		_, err := w.subscriber().SubscribeToShard(t.Context(), subscribeInput(consumer))
		wantCode(t, "after 4 s", err, "ResourceInUseException")
		time.Sleep(time.Second)
		second, err := w.subscriber().SubscribeToShard(t.Context(), subscribeInput(consumer))
		if err != nil {
			t.Fatalf("after 5 s: %v", err)
		}
		defer second.GetStream().Close()
		for range first.Events() { // ends
		}
		wantCode(t, "the first one", first.Err(), "ResourceInUseException")
		w.put(t, "x")
		event(t, second.GetStream())
	})
}

func TestKinesis_subscriptionsEndWithTheirConsumerAndTheirStream(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, w *world, consumer *string) error{
		"consumer": func(ctx context.Context, w *world, consumer *string) error {
			_, err := w.kinesis.DeregisterStreamConsumer(ctx, &kinesis.DeregisterStreamConsumerInput{ConsumerARN: consumer})
			return err
		},
		"stream": func(ctx context.Context, w *world, _ *string) error {
			_, err := w.kinesis.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: aws.String("orders"), EnforceConsumerDeletion: aws.Bool(true)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				stream, consumer := w.subscribe(t.Context(), t)
				defer stream.Close()
				if err := end(t.Context(), w, consumer); err != nil {
					t.Fatal(err)
				}
				for range stream.Events() { // ends
				}
				wantCode(t, "the subscription", stream.Err(), "ResourceNotFoundException")
			})
		})
	}
}
