package emulator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

func TestInject_strikesASubscriptionAfterSomeOfItsEvents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect  emulator.Effect
		events  int // that come before the end
		unknown int
		code    string
		failed  bool          // the stream ends with an error
		lasts   time.Duration // until the end
	}{
		"silence":       {effect: emulator.SilenceAfter(2), events: 2, lasts: time.Minute, failed: true},
		"a cut":         {effect: emulator.CutEventAfter(2), events: 2, lasts: 3 * time.Second}, // taken for an end by the SDK
		"garbage":       {effect: emulator.GarbageAfter(2), events: 2, lasts: 3 * time.Second, failed: true},
		"unknown event": {effect: emulator.UnknownEventAfter(2), events: 60, unknown: 1, lasts: time.Minute, failed: true},
		"end":           {effect: emulator.EndAfter(2), events: 2, lasts: 3 * time.Second},
		"exception": {
			effect: emulator.ExceptionAfter(2, "KMSThrottlingException", "slower"), events: 2, lasts: 3 * time.Second,
			failed: true, code: "KMSThrottlingException",
		},
		"nothing before": {effect: emulator.EndAfter(-1), events: 0, lasts: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.Inject(emulator.Rule{Operation: "SubscribeToShard", Times: 1, Effect: c.effect})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Millisecond)
				defer cancel()
				began := time.Now()
				stream, _ := w.subscribe(ctx, t)
				defer stream.Close()
				var events, unknown int
				for e := range stream.Events() {
					if _, ok := e.(*types.UnknownUnionMember); ok {
						unknown++
					} else {
						events++
					}
				}
				if events != c.events || unknown != c.unknown {
					t.Errorf("%d events and %d unknown ones, want %d and %d", events, unknown, c.events, c.unknown)
				}
				if got := time.Since(began).Truncate(time.Second); got != c.lasts {
					t.Errorf("it lasted %v, want %v", got, c.lasts)
				}
				if err := stream.Err(); (err != nil) != c.failed || code(err) != c.code {
					t.Errorf("it ended with %v, want an error: %v, of code %q", err, c.failed, c.code)
				}
			})
		})
	}
}

func TestKinesis_limitsConsumersByTheModeOfTheStream(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		name := aws.String("large")
		if _, err := w.kinesis.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: name, StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		register := func(i int) error {
			_, err := w.kinesis.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{
				StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/large"), ConsumerName: aws.String(fmt.Sprintf("c%d", i)),
			})
			return err
		}
		for i := range 50 {
			if i%5 == 0 { // as many may be CREATING at a time
				if i > 0 {
					wantCode(t, "one more while five are CREATING", register(i), "LimitExceededException")
				}
				time.Sleep(time.Second)
			}
			if err := register(i); err != nil {
				t.Fatalf("consumer %d: %v", i+1, err)
			}
		}
		time.Sleep(time.Second)
		if err := register(50); code(err) != "LimitExceededException" {
			t.Errorf("consumer 51: %v, want LimitExceededException", err)
		}
	}, emulator.WithControlDelay(time.Second))
}
