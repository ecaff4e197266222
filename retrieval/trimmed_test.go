package retrieval

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// bothModes runs f for polling and for fan-out; opened opens shard 0.
func bothModes(t *testing.T, f func(ctx context.Context, w *world, opened func(from checkpoint.ExtendedSequenceNumber) processor.RecordSource)) {
	t.Helper()
	t.Parallel()
	for _, mode := range []config.RetrievalMode{config.Polling, config.FanOut} {
		t.Run(string(mode), func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				f(ctx, w, func(from checkpoint.ExtendedSequenceNumber) processor.RecordSource {
					if mode == config.FanOut {
						return w.openFanOut(ctx, w.fanOut(), shard0, from)
					}
					return w.open(ctx, w.polling(), shard0, from)
				})
			})
		})
	}
}

func (w *world) trimmed() []config.TrimmedEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.trims)
}

// outage reads three records, lets two come while nobody reads, and two more when those before are trimmed. It returns the place
// after the three, and when the last two came.
func outage(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) (last checkpoint.ExtendedSequenceNumber, came time.Time) {
	w.t.Helper()
	w.put(3)
	s := opened(checkpoint.TrimHorizon)
	_, last = w.take(ctx, s, 3)
	s.Close()
	time.Sleep(time.Hour)
	w.put(2)
	time.Sleep(25 * time.Hour)
	came = time.Now()
	w.put(2)
	return last, came
}

func TestTrimmed_aPositionOlderThanRetentionIsToldAndReadingGoesOn(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		last, came := outage(ctx, w, opened)
		last.SubSequenceNumber = 3 // as if it were inside an aggregate
		s := opened(last)
		defer s.Close()
		got, first := w.take(ctx, s, 2)
		if !slices.Equal(got, numbers(5, 7)) {
			w.t.Errorf("got %v, want what is left", got)
		}
		want := []config.TrimmedEvent{{
			Worker: "w", LeaseKey: shard0, Stream: stream, ShardID: shard0, Position: last.SequenceNumber + "/3", FirstArrival: came.Truncate(time.Millisecond),
		}}
		events := w.trimmed()
		if len(events) == 1 && events[0].First != "" && strings.Compare(events[0].First, first.SequenceNumber) <= 0 {
			want[0].First = events[0].First
		}
		if diff := cmp.Diff(want, events); diff != "" {
			w.t.Errorf("what was told (-want +got):\n%s", diff)
		}
		w.put(1)
		w.take(ctx, s, 1)
		if n := len(w.trimmed()); n != 1 {
			w.t.Errorf("told %d times, want once", n)
		}
	})
}

func TestTrimmed_nothingIsHandedOverBehindTheGapIfItIsToFail(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		w.cfg.OnTrimmed = config.FailRun
		last, came := outage(ctx, w, opened)
		s := opened(last)
		defer s.Close()
		var err error
		for err == nil {
			var b processor.Batch
			if b, err = s.Next(ctx); len(b.Records) > 0 {
				w.t.Fatalf("%d records were handed over", len(b.Records))
			}
		}
		trimmed, ok := errors.AsType[*processor.TrimmedError](err)
		if !ok {
			w.t.Fatalf("%v, want a TrimmedError", err)
		}
		if diff := cmp.Diff([]config.TrimmedEvent{trimmed.TrimmedEvent}, w.trimmed()); diff != "" || !trimmed.Failed {
			w.t.Errorf("the error and what was told differ (-error +told):\n%s", diff)
		}
		for _, part := range []string{shard0, stream, last.SequenceNumber, trimmed.First, came.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano), "FailRun", "ContinueReading"} {
			if !strings.Contains(err.Error(), part) {
				w.t.Errorf("%q does not say %q", err, part)
			}
		}
	})
}

func TestTrimmed_aPositionThatIsStillThereIsNotTold(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		w.cfg.OnTrimmed = config.FailRun
		w.put(3)
		s := opened(checkpoint.TrimHorizon)
		_, last := w.take(ctx, s, 3)
		s.Close()
		time.Sleep(23 * time.Hour)
		w.put(2)
		s = opened(last)
		defer s.Close()
		if got, _ := w.take(ctx, s, 2); !slices.Equal(got, numbers(3, 5)) || len(w.trimmed()) != 0 {
			w.t.Errorf("got %v, told %v", got, w.trimmed())
		}
	})
}

// The last record leaves the stream while its shard is read and nothing happens in it. Whatever interrupts the reading then, nothing is lost.
func TestTrimmed_aSilentShardThatIsReadAllTheTimeHasNoGap(t *testing.T) { //nolint:tparallel // bothModes says it
	if testing.Short() {
		t.Skip("too long under the race detector; go test without -short runs it")
	}
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		w.cfg.OnTrimmed = config.FailRun
		w.cfg.IdleTime, w.cfg.MaxIdleTime = time.Minute, time.Minute
		w.put(3)
		s := opened(checkpoint.TrimHorizon)
		_, last := w.take(ctx, s, 2+1)
		s.Close()
		s = opened(last) // reads on from a record that is trimmed later
		defer s.Close()
		time.Sleep(26 * time.Hour)
		mend := w.server.Inject(emulator.Rule{Client: "reader", Effect: emulator.Refuse()})
		time.Sleep(10 * time.Minute) // iterators and subscriptions end
		w.put(1)
		mend()
		w.take(ctx, s, 1)
		if told := w.trimmed(); len(told) != 0 {
			w.t.Errorf("told %v, want nothing", told)
		}
	})
}

// A processor stands still for longer than the retention period, while its reader has some batches in hand.
func TestTrimmed_whatAStuckProcessorHasMissedIsTold(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		s := opened(checkpoint.TrimHorizon)
		defer s.Close()
		for range 60 {
			w.put(1)
			time.Sleep(10 * time.Second)
		}
		time.Sleep(26 * time.Hour)
		w.put(1)
		var got []string
		var places []checkpoint.ExtendedSequenceNumber
		for !slices.Contains(got, "60") {
			b, err := s.Next(ctx)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, r := range b.Records {
				got, places = append(got, string(r.Data)), append(places, r.Position())
			}
			b.Release()
		}
		before := len(got) - 1
		if before == 0 || before > 55 || !slices.Equal(got[:before], numbers(0, before)) {
			w.t.Fatalf("got %v, want those that were in hand, and the last one", got)
		}
		told := w.trimmed()
		if len(told) != 1 || told[0].Position != places[before-1].SequenceNumber || told[0].First != places[before].SequenceNumber {
			w.t.Errorf("told %+v, want the gap between %s and %s", told, places[before-1], places[before])
		}
		w.put(1)
		if more, _ := w.take(ctx, s, 1); more[0] != strconv.Itoa(61) {
			w.t.Errorf("then came %v, want 61", more)
		}
	})
}

func TestTrimmed_aShardThatLeftRetentionUnreadIsTold(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		w.put(1)
		w.split(shard0)
		time.Sleep(25 * time.Hour)
		s := opened(checkpoint.TrimHorizon)
		if data, end := w.toEnd(ctx, s); len(data) != 0 || !end.Gone || len(end.Children) != 2 {
			w.t.Errorf("%v and %+v, want nothing, and the shard gone with two children", data, end)
		}
		s.Close()
		want := config.TrimmedEvent{Worker: "w", LeaseKey: shard0, Stream: stream, ShardID: shard0, Position: "TRIM_HORIZON", Gone: true}
		if diff := cmp.Diff([]config.TrimmedEvent{want}, w.trimmed()); diff != "" {
			w.t.Errorf("what was told (-want +got):\n%s", diff)
		}

		w.cfg.OnTrimmed = config.FailRun
		s = opened(checkpoint.TrimHorizon)
		defer s.Close()
		b, err := s.Next(ctx)
		if trimmed, ok := errors.AsType[*processor.TrimmedError](err); !ok || !trimmed.Gone || b.End != nil {
			w.t.Errorf("%+v, %v; want a TrimmedError, and not the end of the shard", b.End, err)
		}
	})
}

// All that was left in the shard was trimmed before somebody came to read it, and its end comes without a record.
func TestTrimmed_aShardThatEndsWithoutTheLastRecordIsToldOf(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		w.put(3)
		s := opened(checkpoint.TrimHorizon)
		_, last := w.take(ctx, s, 3)
		s.Close()
		w.put(2)
		time.Sleep(2 * time.Hour)
		w.split(shard0)
		time.Sleep(23 * time.Hour)
		s = opened(last)
		defer s.Close()
		_, end := w.toEnd(ctx, s)
		want := []config.TrimmedEvent{{Worker: "w", LeaseKey: shard0, Stream: stream, ShardID: shard0, Position: last.SequenceNumber}}
		if diff := cmp.Diff(want, w.trimmed()); diff != "" || end.Gone {
			w.t.Errorf("what was told at the end %+v (-want +got):\n%s", end, diff)
		}
	})
}

// A consumer that is slower than its producers falls behind until what it should read next is trimmed, page by page, while its iterators are
// good. Each gap in what it is handed must be told, with the two records around it. Beside those there may be one where the record
// before was trimmed and nothing else yet.
func TestTrimmed_eachGapOfAReaderAtTheEdgeOfRetentionIsTold(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.MaxRecords, w.cfg.MaxPendingBatches = 1, 1
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		type gap struct{ position, first string }
		var want []gap
		none := map[gap]bool{} // nothing lies between
		last, before, read := -1, "", 0
		for minute := range 41 * 60 {
			w.put(1)
			time.Sleep(time.Minute)
			if minute%4 != 0 {
				continue
			}
			for _, r := range w.read(ctx, s, 1) {
				n, err := strconv.Atoi(string(r.Data))
				if err != nil || n <= last {
					t.Fatalf("after record %d comes %q", last, r.Data)
				}
				if n > last+1 {
					want = append(want, gap{before, r.SequenceNumber})
				} else {
					none[gap{before, r.SequenceNumber}] = true
				}
				last, before = n, r.SequenceNumber
				read++
			}
		}
		var got []gap
		harmless := 0
		for _, e := range w.trimmed() {
			if g := (gap{e.Position, e.First}); none[g] {
				harmless++
			} else {
				got = append(got, g)
			}
		}
		if len(got) == len(want)+1 { // of the batch that is read ahead
			got = got[:len(want)]
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(gap{})); diff != "" || len(want) < 100 || harmless > 1 {
			t.Errorf("%d gaps in %d records, and %d told where none is (-want +told):\n%s", len(want), read, harmless, diff)
		}
		expired := 0
		for _, r := range w.retried() {
			if faultOf(r.Err) == badIterator {
				expired++
			}
		}
		if expired > 10 {
			t.Errorf("%d iterators expired, want the gaps to lie between reads with good ones", expired)
		}
	})
}

// Behind by more than a day in a stream that keeps a week, nothing is lost and nothing told, and the way through a stretch without
// records is not begun again and again.
func TestTrimmed_aReaderFarBehindInAStreamThatKeepsLongerHasNoGap(t *testing.T) {
	bothModes(t, func(ctx context.Context, w *world, opened func(checkpoint.ExtendedSequenceNumber) processor.RecordSource) {
		if _, err := w.user.IncreaseStreamRetentionPeriod(ctx, &kinesis.IncreaseStreamRetentionPeriodInput{StreamName: aws.String(stream), RetentionPeriodHours: aws.Int32(168)}); err != nil {
			w.t.Fatal(err)
		}
		w.cfg.OnTrimmed, w.cfg.MaxRecords = config.FailRun, 7
		w.put(100)
		time.Sleep(30 * time.Hour)
		w.put(100)
		time.Sleep(30 * time.Hour)
		w.put(100)
		s := opened(checkpoint.TrimHorizon)
		defer s.Close()
		began := time.Now()
		got, _ := w.take(ctx, s, 300)
		if diff := cmp.Diff(numbers(0, 300), got); diff != "" {
			w.t.Errorf("records (-want +got):\n%s", diff)
		}
		if took := time.Since(began); took > 20*time.Second || len(w.trimmed()) != 0 {
			w.t.Errorf("it took %v, and told was %v; want a few seconds, and nothing", took, w.trimmed())
		}
	})
}
