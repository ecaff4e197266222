package emulator_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// subscribe registers a consumer of the first shard and opens a subscription.
func (w *world) subscribe(ctx context.Context, t *testing.T) (*kinesis.SubscribeToShardEventStream, *string) {
	t.Helper()
	stream, err := w.kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String("orders")})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := w.kinesis.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{
		StreamARN: stream.StreamDescriptionSummary.StreamARN, ConsumerName: aws.String("reader"),
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.subscriber().SubscribeToShard(ctx, subscribeInput(consumer.Consumer.ConsumerARN))
	if err != nil {
		t.Fatal(err)
	}
	return out.GetStream(), consumer.Consumer.ConsumerARN
}

// subscriber is a new client: smithy-go 1.28.9 keeps the decoder of event streams in the client, without a lock, so that
// two streams of one client race.
func (w *world) subscriber() *kinesis.Client { return kinesis.New(w.kinesis.Options()) }

func subscribeInput(consumer *string) *kinesis.SubscribeToShardInput {
	return &kinesis.SubscribeToShardInput{
		ConsumerARN: consumer, ShardId: aws.String(firstShard),
		StartingPosition: &types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon},
	}
}

// event waits for the next one that has records.
func event(t *testing.T, stream *kinesis.SubscribeToShardEventStream) types.SubscribeToShardEvent {
	t.Helper()
	for e := range stream.Events() {
		if v := e.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent).Value; len(v.Records) > 0 {
			return v
		}
	}
	t.Fatalf("the subscription ended: %v", stream.Err())
	return types.SubscribeToShardEvent{}
}

func TestTransport_deliversEventsWhileTheRequestGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		stream, _ := w.subscribe(t.Context(), t)
		defer stream.Close()
		for _, want := range []string{"a", "b", strings.Repeat("large", 20_000)} {
			w.put(t, want)
			if got := string(event(t, stream).Records[0].Data); got != want {
				t.Fatalf("got %d bytes, want %d", len(got), len(want))
			}
		}
	})
}

func TestTransport_endsASubscriptionWhoseContextIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, _ := w.subscribe(ctx, t)
		w.put(t, "a")
		event(t, stream)
		start := time.Now()
		cancel()
		for range stream.Events() { // ends
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the subscription ended after %s, want at once", took)
		}
		_ = stream.Close()
		// The bubble itself fails if the server's side goes on.
	})
}

func TestTransport_endsASubscriptionThatIsClosedWithoutBeingRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		stream, _ := w.subscribe(t.Context(), t)
		for range 20 { // more events than fit between server and reader
			w.put(t, strings.Repeat("x", 10_000))
			synctest.Wait()
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTransport_returnsPromptlyWhenTheContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		defer w.Inject(emulator.Rule{Operation: "PutRecord", Effect: emulator.Freeze()})()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := w.kinesis.PutRecord(ctx, putInput("never"))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("after %s: %v, want the deadline after 3s", time.Since(start), err)
		}
		if n := w.count(t); n != 0 {
			t.Errorf("%d records were stored, want none", n)
		}
	})
}

func TestTransport_refusesAContextThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.kinesis.PutRecord(ctx, putInput("never")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
}

// answer is what came back to a request without the SDK.
type answer struct {
	status int
	header http.Header
	body   []byte // up to where it broke off, if it did
}

// post sends a request without the SDK.
func (w *world) post(ctx context.Context, t *testing.T, target string, body io.Reader) (answer, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://emulator.invalid", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	return w.do(r)
}

func (w *world) do(r *http.Request) (answer, error) {
	resp, err := w.AWSConfig().HTTPClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body}, err
}

func TestTransport_takesABodyThatComesBitByBit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, body := io.Pipe()
		go func() {
			for _, part := range []string{`{"Stream`, `Name":"orders","PartitionKey":"k",`, `"Data":"aGk="}`} {
				time.Sleep(time.Second) // virtual
				_, _ = io.WriteString(body, part)
			}
			_ = body.Close()
		}()
		got, err := w.post(t.Context(), t, "Kinesis_20131202.PutRecord", r)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != http.StatusOK || w.count(t) != 1 {
			t.Errorf("status %d and %d records, want 200 and 1", got.status, w.count(t))
		}
	})
}

func TestTransport_givesUpABodyThatNeverComes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r, body := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.post(ctx, t, "Kinesis_20131202.PutRecord", r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the deadline", err)
		}
		if _, err := io.WriteString(body, "x"); err == nil {
			t.Error("the body is still open, want it closed")
		}
	})
}

func TestTransport_answersCarryTheServersDateAndARequestID(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ids := map[string]bool{}
		for _, target := range []string{"Kinesis_20131202.ListStreams", "DynamoDB_20120810.ListTables", "Nothing.AtAll"} {
			time.Sleep(time.Hour) // virtual
			got, err := w.post(t.Context(), t, target, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if want := time.Now().UTC().Format(http.TimeFormat); got.header.Get("Date") != want {
				t.Errorf("%s: Date %q, want %q", target, got.header.Get("Date"), want)
			}
			id := got.header.Get("X-Amzn-Requestid")
			if id == "" || ids[id] {
				t.Errorf("%s: request id %q, want a new one", target, id)
			}
			ids[id] = true
			if crc := got.header.Get("X-Amz-Crc32"); (crc != "") != strings.HasPrefix(target, "DynamoDB") {
				t.Errorf("%s: X-Amz-Crc32 %q", target, crc)
			}
		}
	})
}
