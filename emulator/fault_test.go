package emulator_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

func TestInject_eachEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		effect  emulator.Effect
		check   func(error) bool
		stored  int
		takes   time.Duration
		timeout time.Duration
	}{
		{name: "none", check: func(err error) bool { return err == nil }, stored: 1},
		{name: "delay", effect: emulator.Delay(time.Minute), check: func(err error) bool { return err == nil }, stored: 1, takes: time.Minute},
		{
			name: "delay beyond the deadline is not applied", effect: emulator.Delay(time.Minute), timeout: time.Second,
			check: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, takes: time.Second,
		},
		{name: "late reply", effect: emulator.DelayReply(time.Minute), check: func(err error) bool { return err == nil }, stored: 1, takes: time.Minute},
		{
			name: "reply beyond the deadline was applied", effect: emulator.DelayReply(time.Minute), timeout: time.Second,
			check: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, stored: 1, takes: time.Second,
		},
		{name: "throttle", effect: emulator.Throttle(), check: func(err error) bool {
			_, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err)
			return ok
		}},
		{name: "fail", effect: emulator.Fail(500, "InternalFailure", "broken"), check: func(err error) bool { return code(err) == "InternalFailure" }},
		{name: "refuse", effect: emulator.Refuse(), check: func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{name: "drop the reply", effect: emulator.DropReply(), check: func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }, stored: 1},
		{name: "cut the body", effect: emulator.CutBody(5), check: func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }, stored: 1},
		{
			name: "freeze", effect: emulator.Freeze(), timeout: time.Hour,
			check: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, takes: time.Hour,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				remove := w.Inject(emulator.Rule{Operation: "PutRecord", Effect: c.effect})
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				start := time.Now()
				if _, err := w.kinesis.PutRecord(ctx, putInput("x")); !c.check(err) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(start); took != c.takes {
					t.Errorf("it took %s, want %s", took, c.takes)
				}
				if n := w.count(t); n != c.stored {
					t.Errorf("%d records stored, want %d", n, c.stored)
				}
				remove()
				remove() // does nothing
				w.put(t, "after")
			})
		})
	}
}

func TestInject_throttlesAsTheServiceDoes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.table(t)
		defer w.Inject(emulator.Rule{Effect: emulator.Throttle()})()
		_, err := w.dynamodb.PutItem(t.Context(), create("a"))
		wantCode(t, "PutItem", err, "ProvisionedThroughputExceededException")
		_, err = w.dynamodb.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("leases")})
		wantCode(t, "DescribeTable", err, "ThrottlingException")
		_, err = w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("orders")})
		wantCode(t, "ListShards", err, "LimitExceededException")
		if n := w.Counts().Of(emulator.CountKey{}).Throttled; n != 3 {
			t.Errorf("%d throttled, want 3", n)
		}
	})
}

func TestInject_theSDKRetriesALostReplyAndTheRecordIsThereTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.Inject(emulator.Rule{Operation: "PutRecord", Times: 1, Effect: emulator.DropReply()})
		if _, err := kinesis.NewFromConfig(w.AWSConfig()).PutRecord(t.Context(), putInput("x")); err != nil {
			t.Fatal(err)
		}
		if n := w.count(t); n != 2 {
			t.Errorf("%d records, want 2", n)
		}
	})
}

func TestInject_strikesOnlyWhatTheRuleNames(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.table(t)
		other, _ := clients(w.ClientConfig("other"))
		refused := func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
		for _, c := range []struct {
			name string
			rule emulator.Rule
			want string // which of the four calls below are refused
		}{
			{"all", emulator.Rule{}, "1111"},
			{"client", emulator.Rule{Client: "other"}, "0100"},
			{"service", emulator.Rule{Service: emulator.Kinesis}, "1110"},
			{"operation", emulator.Rule{Operation: "ListStreams"}, "0010"},
			{"operation of the other service", emulator.Rule{Service: emulator.DynamoDB, Operation: "ListStreams"}, "0000"},
			{"match", emulator.Rule{Match: func(body []byte) bool { return bytes.Contains(body, []byte(`"orders"`)) }}, "1100"},
		} {
			c.rule.Effect = emulator.Refuse()
			remove := w.Inject(c.rule)
			_, err1 := w.kinesis.PutRecord(t.Context(), putInput("x"))
			_, err2 := other.PutRecord(t.Context(), putInput("x"))
			_, err3 := w.kinesis.ListStreams(t.Context(), &kinesis.ListStreamsInput{})
			_, err4 := w.dynamodb.ListTables(t.Context(), &dynamodb.ListTablesInput{})
			remove()
			got := []byte("0000")
			for i, err := range []error{err1, err2, err3, err4} {
				if refused(err) {
					got[i] = '1'
				}
			}
			if string(got) != c.want {
				t.Errorf("%s: refused %s, want %s", c.name, got, c.want)
			}
		}
	})
}

func TestInject_skipsCountsAndThrowsDice(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		struck := func(rule emulator.Rule, calls int) (at []int) {
			rule.Operation, rule.Effect = "ListStreams", emulator.Refuse()
			defer w.Inject(rule)()
			for i := range calls {
				if _, err := w.kinesis.ListStreams(t.Context(), &kinesis.ListStreamsInput{}); err != nil {
					at = append(at, i)
				}
			}
			return at
		}
		if got := struck(emulator.Rule{Skip: 2, Times: 3}, 10); !slices.Equal(got, []int{2, 3, 4}) {
			t.Errorf("after 2, 3 times: struck %v, want 2, 3, 4", got)
		}
		half := struck(emulator.Rule{Probability: 0.5, Seed: 7}, 200)
		if len(half) < 70 || len(half) > 130 {
			t.Errorf("half of 200 calls: struck %d", len(half))
		}
		if again := struck(emulator.Rule{Probability: 0.5, Seed: 7}, 200); !slices.Equal(half, again) {
			t.Error("the same seed strikes other calls")
		}
		if other := struck(emulator.Rule{Probability: 0.5, Seed: 8}, 200); slices.Equal(half, other) {
			t.Error("another seed strikes the same calls")
		}
	})
}

func TestInject_addsRulesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, e := range []emulator.Effect{emulator.Delay(time.Second), emulator.Delay(2 * time.Second), emulator.Throttle(), emulator.Refuse()} {
			w.Inject(emulator.Rule{Effect: e})
		}
		start := time.Now()
		_, err := w.kinesis.PutRecord(t.Context(), putInput("x"))
		wantCode(t, "put", err, "ProvisionedThroughputExceededException")
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %s, want both delays, 3s", took)
		}
	})
}

func TestInject_frozenClientGoesOnWhenItsRuleIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		other, _ := clients(w.ClientConfig("other"))
		release := w.Inject(emulator.Rule{Client: "other", Effect: emulator.Freeze()})
		done := make(chan error, 1)
		go func() {
			_, err := other.PutRecord(t.Context(), putInput("frozen"))
			done <- err
		}()
		synctest.Wait()
		w.put(t, "free")
		if n := w.count(t); n != 1 {
			t.Errorf("%d records while frozen, want 1", n)
		}
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := w.count(t); n != 2 {
			t.Errorf("%d records after the thaw, want 2", n)
		}
	})
}

func TestInject_breaksASubscription(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(t, "a")
		w.Inject(emulator.Rule{Operation: "SubscribeToShard", Times: 1, Effect: emulator.CutBody(200)})
		stream, consumer := w.subscribe(t.Context(), t)
		for e := range stream.Events() {
			if v := e.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent).Value; len(v.Records) > 0 {
				t.Error("an event beyond the cut came through")
			}
		}
		// The SDK (smithy-go 1.28.9, internal/eventstream) takes a cut within an event for a good end.
		if err := stream.Err(); err != nil {
			t.Errorf("the stream ended with %v; want what the SDK makes of a cut, nil", err)
		}
		_ = stream.Close()
		w.Inject(emulator.Rule{Operation: "SubscribeToShard", Times: 1, Effect: emulator.DropReply()})
		time.Sleep(10 * time.Second) // virtual
		if _, err := w.subscriber().SubscribeToShard(t.Context(), subscribeInput(consumer)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("error %v, want a reset connection", err)
		}
		w.Inject(emulator.Rule{Operation: "SubscribeToShard", Times: 1, Effect: emulator.CutBody(200)})
		time.Sleep(10 * time.Second) // virtual
		got, err := w.post(t.Context(), t, "Kinesis_20131202.SubscribeToShard", strings.NewReader(
			`{"ConsumerARN":"`+*consumer+`","ShardId":"`+firstShard+`","StartingPosition":{"Type":"TRIM_HORIZON"}}`))
		if len(got.body) != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes and %v, want 200 and an unexpected end", len(got.body), err)
		}
	})
}

func TestCounts_perClientAndOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.table(t)
		w.ResetCounts()
		_, other := clients(w.ClientConfig("other"))
		if _, err := other.PutItem(t.Context(), create("a")); err != nil {
			t.Fatal(err)
		}
		_, err := w.dynamodb.PutItem(t.Context(), create("a"))
		wantCode(t, "second creation", err, "ConditionalCheckFailedException")
		_, err = w.dynamodb.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("leases"), ConsistentRead: aws.Bool(true)})
		if err != nil {
			t.Fatal(err)
		}
		w.put(t, "x")
		w.Inject(emulator.Rule{Operation: "PutRecord", Effect: emulator.DropReply()})
		_, _ = w.kinesis.PutRecord(t.Context(), putInput("x"))

		counts := w.Counts()
		for _, c := range []struct {
			key  emulator.CountKey
			want emulator.Count
		}{
			{emulator.CountKey{}, emulator.Count{Requests: 5, Errors: 2, FailedConditions: 1, ReadUnits: 1, WriteUnits: 2}},
			{emulator.CountKey{Client: "other"}, emulator.Count{Requests: 1, WriteUnits: 1}},
			{emulator.CountKey{Operation: "PutItem"}, emulator.Count{Requests: 2, Errors: 1, FailedConditions: 1, WriteUnits: 2}},
			{emulator.CountKey{Service: emulator.Kinesis}, emulator.Count{Requests: 2, Errors: 1}},
			{emulator.CountKey{Client: "nobody"}, emulator.Count{}},
		} {
			if got := counts.Of(c.key); got != c.want {
				t.Errorf("%+v: %+v, want %+v", c.key, got, c.want)
			}
		}
		w.ResetCounts()
		if got := w.Counts().Of(emulator.CountKey{}); got != (emulator.Count{}) {
			t.Errorf("after the reset: %+v", got)
		}
	})
}

func TestObserve_showsRequestsWithTheirAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var events []emulator.Event
		remove := w.Observe(func(e emulator.Event) { events = append(events, e) })
		w.put(t, "x")
		_, err := w.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: aws.String("other")})
		wantCode(t, "list", err, "ResourceNotFoundException")
		undo := w.Inject(emulator.Rule{Effect: emulator.DropReply()})
		_, _ = w.kinesis.PutRecord(t.Context(), putInput("y"))
		undo()
		remove()
		w.put(t, "z")
		if len(events) != 3 {
			t.Fatalf("%d events, want 3", len(events))
		}
		for i, want := range []struct {
			operation, code, request, response string
			status                             int
		}{
			{"PutRecord", "", `"PartitionKey"`, `"SequenceNumber"`, http.StatusOK},
			{"ListShards", "ResourceNotFoundException", `"other"`, "ResourceNotFoundException", http.StatusBadRequest},
			{"PutRecord", "", `"PartitionKey"`, `"SequenceNumber"`, 0},
		} {
			e := events[i]
			if e.Client != "default" || e.Service != emulator.Kinesis || e.Operation != want.operation || e.Code != want.code || e.Status != want.status ||
				!bytes.Contains(e.Request, []byte(want.request)) || !bytes.Contains(e.Response, []byte(want.response)) {
				t.Errorf("event %d: %s %s %s status %d code %q, %s → %s", i, e.Client, e.Service, e.Operation, e.Status, e.Code, e.Request, e.Response)
			}
		}
	})
}
