package retrieval

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

func TestPolling_resumesAtTheRecordAfterACheckpoint(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(1000)
		w.cfg.MaxRecords = 7
		p := w.polling()
		s := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
		got, at := w.take(ctx, s, 700)
		s.Close()
		s = w.open(ctx, p, shard0, at)
		more, _ := w.take(ctx, s, 300)
		s.Close()
		if diff := cmp.Diff(numbers(0, 1000), append(got, more...)); diff != "" {
			t.Error(diff)
		}
		if held := p.budget.used; held != 0 {
			t.Errorf("%d bytes are held after both sources were closed", held)
		}
		if n := w.retried(); len(n) != 0 {
			t.Errorf("retries: %+v", n)
		}
	})
}

func TestPolling_startsAtItsPin(t *testing.T) {
	t.Parallel()
	for _, from := range []checkpoint.ExtendedSequenceNumber{checkpoint.Latest, checkpoint.AtTimestamp} {
		t.Run(from.SequenceNumber, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(10)
				time.Sleep(time.Minute)
				pin := time.Now()
				w.put(10)
				time.Sleep(time.Hour)
				s, err := w.polling().Open(ctx, Start{Stream: stream, ShardID: shard0, From: from, StartAt: pin})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				got, _ := w.take(ctx, s, 10)
				if diff := cmp.Diff(numbers(10, 20), got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestPolling_waitsForAPinThatTheServiceTakesForTheFuture(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.server.Inject(emulator.Rule{
			Client: "reader", Operation: "GetShardIterator", Times: 5,
			Effect: emulator.Fail(400, "InvalidArgumentException", "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."),
		})
		s, err := w.polling().Open(ctx, Start{Stream: stream, ShardID: shard0, From: checkpoint.Latest, StartAt: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w.put(3)
		w.take(ctx, s, 3)
		if n := w.retried(); len(n) != 5 || !strings.Contains(n[0].Err.Error(), "start at AT_TIMESTAMP") {
			t.Errorf("retries: %+v", n)
		}
	})
}

func TestPolling_openRefusesWhatIsNoPlaceToStart(t *testing.T) {
	t.Parallel()
	p := NewPolling(nil, config.RetrievalConfig{}, PollingOptions{})
	for _, from := range []checkpoint.ExtendedSequenceNumber{{}, {SequenceNumber: "x"}, checkpoint.ShardEnd} {
		_, err := p.Open(t.Context(), Start{Stream: stream, ShardID: shard0, From: from})
		if err == nil || !strings.Contains(err.Error(), shard0) {
			t.Errorf("Open(%v): %v", from, err)
		}
	}
}

// The consumer is so slow that the reader's next iterator is older than five minutes.
func TestPolling_remakesAnExpiredIteratorAfterTheLastRecord(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.MaxRecords, w.cfg.MaxPendingBatches = 10, 1
		w.put(100)
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		var got []string
		for range 10 {
			time.Sleep(6 * time.Minute)
			more, _ := w.take(ctx, s, 10)
			got = append(got, more...)
		}
		if diff := cmp.Diff(numbers(0, 100), got); diff != "" {
			t.Error(diff)
		}
		expired := 0
		for _, r := range w.retried() {
			if faultOf(r.Err) == badIterator {
				expired++
			}
		}
		if expired < 5 {
			t.Errorf("%d iterators expired; the test wants more of them", expired)
		}
	})
}

func TestPolling_remakesAnExpiredIteratorBeforeTheFirstRecord(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]checkpoint.ExtendedSequenceNumber{"LATEST": checkpoint.Latest, "TRIM_HORIZON": checkpoint.TrimHorizon} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				first := 0
				if from == checkpoint.Latest {
					first = w.put(5)
					time.Sleep(time.Minute)
				}
				heal := w.server.Inject(emulator.Rule{Client: "reader", Operation: "GetRecords", Effect: emulator.Throttle()})
				s := w.open(ctx, w.polling(), shard0, from)
				defer s.Close()
				time.Sleep(10 * time.Second)
				w.put(10)
				time.Sleep(10 * time.Minute)
				heal()
				got, _ := w.take(ctx, s, 10)
				if diff := cmp.Diff(numbers(first, first+10), got); diff != "" {
					t.Error(diff)
				}
				if !slices.ContainsFunc(w.retries, func(r config.RetryEvent) bool { return faultOf(r.Err) == badIterator }) {
					t.Error("no iterator expired")
				}
			})
		})
	}
}

// A checkpoint in the middle of an aggregate: the record itself must be read again for its remaining user records.
func TestPolling_remakesTheIteratorAtTheCheckpointUntilARecordAfterItWasSeen(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(1)
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		_, at := w.take(ctx, s, 1)
		s.Close()
		var asked []types.ShardIteratorType
		w.api = &altered{KinesisAPI: w.api, getShardIterator: func(in *kinesis.GetShardIteratorInput) { asked = append(asked, in.ShardIteratorType) }}
		w.server.Inject(emulator.Rule{
			Client: "reader", Operation: "GetRecords", Skip: 3, Times: 1,
			Effect: emulator.Fail(400, "ExpiredIteratorException", "Iterator expired."),
		})
		s = w.open(ctx, w.polling(), shard0, at)
		time.Sleep(5 * time.Second)
		w.put(1)
		w.take(ctx, s, 1)
		w.server.Inject(emulator.Rule{
			Client: "reader", Operation: "GetRecords", Times: 1,
			Effect: emulator.Fail(400, "ExpiredIteratorException", "Iterator expired."),
		})
		w.put(1)
		w.take(ctx, s, 1)
		s.Close()
		want := []types.ShardIteratorType{"AT_SEQUENCE_NUMBER", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Error(diff)
		}
	})
}

// Some servers answer 500 to an iterator that they do not accept.
func TestPolling_remakesAnIteratorThatKeepsFailing(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(5)
		var first string
		w.api = &altered{KinesisAPI: w.api}
		w.server.Inject(emulator.Rule{
			Client: "reader", Operation: "GetRecords", Effect: emulator.Fail(500, "InternalFailure", "bad iterator"),
			Match: func(body []byte) bool {
				if first == "" {
					first = string(body)
				}
				return string(body) == first
			},
		})
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.take(ctx, s, 5)
		if n := len(w.retried()); n != renewAfter {
			t.Errorf("%d retries, want %d", n, renewAfter)
		}
	})
}
