package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/shardsync"
)

// fanOut makes one that reads by the client "reader", whose consumer is called "audit".
func (w *world) fanOut() *FanOut {
	w.cfg.FanOut.ConsumerName = "audit"
	if w.cfg.FanOut.SilenceTimeout == 0 {
		w.cfg.FanOut.SilenceTimeout = 35 * time.Second
	}
	return NewFanOut(kinesis.NewFromConfig(w.server.ClientConfig("reader")), w.polling())
}

func (w *world) openFanOut(ctx context.Context, f *FanOut, shard string, from checkpoint.ExtendedSequenceNumber) *source {
	w.t.Helper()
	s, err := f.Open(ctx, Start{Stream: stream, ShardID: shard, LeaseKey: shard, From: from})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.(*source)
}

// subscribing is a fault of SubscribeToShard that strikes so many times; 0: always.
func subscribing(e emulator.Effect, times int) emulator.Rule {
	return emulator.Rule{Client: "reader", Operation: "SubscribeToShard", Times: times, Effect: e}
}

// registering is a fault of a call by which the consumer is looked for or registered.
func registering(operation string, e emulator.Effect) emulator.Rule {
	return emulator.Rule{Client: "reader", Operation: operation, Times: 3, Effect: e}
}

// fanOutFaults are the rows of the table in docs/fan-out.md, whose names a test holds to these.
var fanOutFaults = map[string]struct {
	rule   emulator.Rule
	within time.Duration // from the fault until the records are there
	calls  int64         // of SubscribeToShard at most
}{
	"nothing":                      {emulator.Rule{Operation: "none"}, 2 * time.Second, 3},
	"throttled":                    {subscribing(emulator.Throttle(), 3), 40 * time.Second, 8},
	"throttled by the limit":       {subscribing(emulator.Fail(400, "LimitExceededException", "one a second"), 3), 40 * time.Second, 8},
	"500":                          {subscribing(emulator.Fail(500, "InternalFailureException", "down"), 3), 25 * time.Second, 8},
	"503 without a body":           {subscribing(emulator.Fail(503, "", ""), 3), 25 * time.Second, 8},
	"connection refused":           {subscribing(emulator.Refuse(), 3), 25 * time.Second, 8},
	"connection reset":             {subscribing(emulator.DropReply(), 3), 50 * time.Second, 12},
	"no answer":                    {subscribing(emulator.Delay(time.Hour), 2), 80 * time.Second, 8},
	"another subscription":         {subscribing(emulator.Fail(400, "ResourceInUseException", "another active subscription"), 3), 80 * time.Second, 8},
	"credentials expired":          {subscribing(emulator.Fail(400, "ExpiredTokenException", "expired"), 3), 25 * time.Second, 8},
	"access denied":                {subscribing(emulator.Fail(400, "AccessDeniedException", "no"), 3), 40 * time.Second, 8},
	"KMS access denied":            {subscribing(emulator.Fail(400, "KMSAccessDeniedException", "no key"), 3), 40 * time.Second, 8},
	"KMS key disabled":             {subscribing(emulator.Fail(400, "KMSDisabledException", "no key"), 3), 40 * time.Second, 8},
	"KMS throttled":                {subscribing(emulator.Fail(400, "KMSThrottlingException", "slower"), 3), 40 * time.Second, 8},
	"cut before an event":          {subscribing(emulator.CutEventAfter(0), 2), 40 * time.Second, 8},
	"cut in an event":              {subscribing(emulator.CutEventAfter(3), 2), 40 * time.Second, 8},
	"cut in the first message":     {subscribing(emulator.CutBody(20), 2), 40 * time.Second, 8},
	"ended early":                  {subscribing(emulator.EndAfter(2), 2), 40 * time.Second, 8},
	"ended before an event":        {subscribing(emulator.EndAfter(0), 2), 40 * time.Second, 8},
	"garbage":                      {subscribing(emulator.GarbageAfter(2), 2), 40 * time.Second, 8},
	"garbage first":                {subscribing(emulator.GarbageAfter(0), 2), 40 * time.Second, 8},
	"an unknown event":             {subscribing(emulator.UnknownEventAfter(1), 0), 4 * time.Second, 3},
	"silence":                      {subscribing(emulator.SilenceAfter(12), 1), 20 * time.Second, 8},
	"silence from the beginning":   {subscribing(emulator.SilenceAfter(0), 1), 60 * time.Second, 8},
	"exception: internal":          {subscribing(emulator.ExceptionAfter(2, "InternalFailureException", "down"), 2), 40 * time.Second, 8},
	"exception: KMS":               {subscribing(emulator.ExceptionAfter(2, "KMSAccessDeniedException", "no key"), 2), 60 * time.Second, 8},
	"exception: taken over":        {subscribing(emulator.ExceptionAfter(2, "ResourceInUseException", "another subscription"), 2), 60 * time.Second, 8},
	"exception: not known":         {subscribing(emulator.ExceptionAfter(2, "SomethingNewException", "?"), 2), 60 * time.Second, 8},
	"registration throttled":       {registering("RegisterStreamConsumer", emulator.Throttle()), 30 * time.Second, 3},
	"the look for it is throttled": {registering("DescribeStreamConsumer", emulator.Throttle()), 30 * time.Second, 3},
	"another worker registers it":  {registering("RegisterStreamConsumer", emulator.Fail(400, "ResourceInUseException", "it is being registered")), 30 * time.Second, 3},
	"no ARN to be had":             {registering("DescribeStreamSummary", emulator.Throttle()), 30 * time.Second, 3},
}

// Each fault strikes a reader at its first subscription, and one that has read ten records when it subscribes again; ten more come, and
// then the shard is split: all must come once, in order, and then the end. Registrations are looked for before the first one only.
func TestFanOut_survivesEachFault(t *testing.T) {
	t.Parallel()
	for name, c := range fanOutFaults {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(10)
				w.server.Inject(c.rule)
				s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				began := time.Now()
				got, _ := w.take(ctx, s, 10)
				w.goesOnInspiteOf(ctx, s, got, began, c.within, c.calls)
			})
		})
		if c.rule.Operation != "SubscribeToShard" {
			continue
		}
		t.Run(name+", later", func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(10)
				s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				got, _ := w.take(ctx, s, 10)
				struck := w.server.Counts().Of(subscriptions)
				w.server.Inject(c.rule)
				for deadline := time.Now().Add(6 * time.Minute); w.server.Counts().Of(subscriptions).Requests == struck.Requests; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("there was no second subscription")
					}
				}
				w.goesOnInspiteOf(ctx, s, got, time.Now(), c.within, c.calls+struck.Requests)
			})
		})
	}
}

var subscriptions = emulator.CountKey{Client: "reader", Operation: "SubscribeToShard"}

// goesOnInspiteOf puts ten more records in the midst of a fault that began to strike at a given time, and splits the shard.
func (w *world) goesOnInspiteOf(ctx context.Context, s *source, got []string, began time.Time, within time.Duration, calls int64) {
	w.t.Helper()
	time.Sleep(15 * time.Second)
	w.put(10)
	more, _ := w.take(ctx, s, 10)
	if took := time.Since(began) - 15*time.Second; took > within {
		w.t.Errorf("it took %v, want at most %v", took, within)
	}
	w.split(shard0)
	last, end := w.toEnd(ctx, s)
	if diff := cmp.Diff(numbers(0, 20), slices.Concat(got, more, last)); diff != "" {
		w.t.Errorf("records (-want +got):\n%s", diff)
	}
	if end.Gone || len(end.Children) != 2 {
		w.t.Errorf("the end is %+v, want two children", end)
	}
	if n := w.server.Counts().Of(subscriptions).Requests; n > calls {
		w.t.Errorf("%d subscriptions, want at most %d", n, calls)
	}
}

// A service that sends something new sends it with each subscription to each shard.
func TestFanOut_warnsOnceOfEventsThatItDoesNotKnow(t *testing.T) {
	bubble(t, 3, func(ctx context.Context, w *world) {
		w.server.Inject(subscribing(emulator.UnknownEventAfter(1), 0))
		f := w.fanOut()
		var warnings atomic.Int64
		f.polling.log = countWarnings(&warnings)
		for _, shard := range []string{shard0, shard1, shard2} {
			defer w.openFanOut(ctx, f, shard, checkpoint.TrimHorizon).Close()
		}
		time.Sleep(15 * time.Minute)
		if n := w.server.Counts().Of(subscriptions).Requests; warnings.Load() != 1 || n < 9 {
			t.Errorf("%d warnings in %d subscriptions, want one in at least 9", warnings.Load(), n)
		}
	})
}

func TestFanOut_endsWithTheStream(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.put(1)
		w.take(ctx, s, 1)
		if _, err := w.user.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: aws.String(stream), EnforceConsumerDeletion: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := s.Next(ctx)
			if err == nil && b.End == nil {
				b.Release()
				continue
			}
			if !errors.Is(err, shardsync.ErrStreamNotFound) {
				t.Errorf("%+v, %v; want that there is no such stream", b.End, err)
			}
			return
		}
	})
}

func TestFanOut_endsAtAShardThatLeftRetention(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(1)
		w.split(shard0)
		time.Sleep(25 * time.Hour)
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		if data, end := w.toEnd(ctx, s); len(data) != 0 || !end.Gone || len(end.Children) != 2 {
			t.Errorf("%v and %+v, want nothing, and the shard gone with two children", data, end)
		}
	})
}

func TestFanOut_readsOnBehindWhatWasTrimmed(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(3)
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		_, last := w.take(ctx, s, 3)
		s.Close()
		time.Sleep(time.Hour)
		w.put(2)
		time.Sleep(25 * time.Hour)
		w.put(2)
		s = w.openFanOut(ctx, w.fanOut(), shard0, last)
		defer s.Close()
		if got, _ := w.take(ctx, s, 2); !slices.Equal(got, numbers(5, 7)) {
			t.Errorf("got %v, want what is left", got)
		}
	})
}

func TestFanOut_registersAnewWhenItsConsumerIsRemoved(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.put(1)
		w.take(ctx, s, 1)
		if _, err := w.user.DeregisterStreamConsumer(ctx, &kinesis.DeregisterStreamConsumerInput{
			StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + stream), ConsumerName: aws.String("audit"),
		}); err != nil {
			t.Fatal(err)
		}
		w.put(1)
		began := time.Now()
		if got, _ := w.take(ctx, s, 1); !slices.Equal(got, numbers(1, 2)) {
			t.Errorf("got %v, want the second record", got)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	}, emulator.WithControlDelay(2*time.Second))
}

func TestFanOut_fallsBackToPollingWithOneWarning(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"DescribeStreamConsumer", "RegisterStreamConsumer", "SubscribeToShard"} {
		t.Run(operation, func(t *testing.T) {
			bubble(t, 3, func(ctx context.Context, w *world) {
				w.put(90)
				w.server.Inject(emulator.Rule{Client: "reader", Operation: operation, Effect: emulator.Fail(400, "AccessDeniedException", "no")})
				w.cfg.FanOut.FallBackToPolling = true
				f := w.fanOut()
				var warnings atomic.Int64
				f.polling.log = countWarnings(&warnings)
				got := 0
				for _, shard := range []string{shard0, shard1, shard2} {
					s := w.openFanOut(ctx, f, shard, checkpoint.TrimHorizon)
					defer s.Close()
					for {
						b, err := s.Next(ctx)
						if err != nil {
							t.Fatal(err)
						}
						got += len(b.Records)
						b.Release()
						if len(b.Records) == 0 {
							break
						}
					}
				}
				if got != 90 || warnings.Load() != 1 {
					t.Errorf("%d records and %d warnings, want 90 and one", got, warnings.Load())
				}
			})
		})
	}
}

func TestFanOut_fallsBackWhereTheStreamHasAllTheConsumersItCanHave(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(30)
		summary, err := w.user.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(stream)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range fewConsumers {
			if _, err := w.user.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{
				StreamARN: summary.StreamDescriptionSummary.StreamARN, ConsumerName: aws.String(fmt.Sprint("another-", i)),
			}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) // five at most are created at a time
		}
		w.cfg.FanOut.FallBackToPolling = true
		f := w.fanOut()
		var warnings atomic.Int64
		f.polling.log = countWarnings(&warnings)
		s := w.openFanOut(ctx, f, shard0, checkpoint.TrimHorizon)
		defer s.Close()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if got, _ := w.take(ctx, s, 30); len(got) != 30 || warnings.Load() != 1 {
			t.Errorf("%d records and %d warnings, want 30 and one", len(got), warnings.Load())
		}
	})
}

func TestFanOut_withoutAFallBackItWaitsForThePermission(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(1)
		allow := w.server.Inject(emulator.Rule{Client: "reader", Operation: "RegisterStreamConsumer", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
		f := w.fanOut()
		s := w.openFanOut(ctx, f, shard0, checkpoint.TrimHorizon)
		defer s.Close()
		time.Sleep(10 * time.Minute)
		events := w.retried()
		if n := len(events); n < 15 || n > 60 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if ev := events[len(events)-1]; ev.What != "register the stream's consumer" || code(ev.Err) != "AccessDeniedException" {
			t.Errorf("the last one is %+v", ev)
		}
		allow()
		w.take(ctx, s, 1)
		if n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests; n != 0 {
			t.Errorf("%d reads by polling", n)
		}
	})
}

func TestFanOut_namesWhatFillsAStreamsConsumersAndHowToRemoveIt(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		arn := aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/" + stream)
		for i := range 20 {
			if _, err := w.user.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("left-" + string(rune('a'+i)))}); err != nil {
				t.Fatal(err)
			}
		}
		s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.put(1)
		time.Sleep(5 * time.Second)
		events := w.retried()
		if len(events) == 0 {
			t.Fatal("no try was reported")
		}
		for _, want := range []string{"left-a, left-b", "shardlease consumers deregister --stream orders NAME", "LimitExceededException"} {
			if text := events[0].Err.Error(); !contains(text, want) {
				t.Errorf("%q is not in %q", want, text)
			}
		}
		if _, err := w.user.DeregisterStreamConsumer(ctx, &kinesis.DeregisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("left-c")}); err != nil {
			t.Fatal(err)
		}
		w.take(ctx, s, 1)
	})
}
