package retrieval

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/shardsync"
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

func TestPolling_deliversEachRecordOnceWhateverFails(t *testing.T) {
	t.Parallel()
	faults := map[string]emulator.Effect{
		"throttled":    emulator.Throttle(),
		"refused":      emulator.Refuse(),
		"reply lost":   emulator.DropReply(),
		"body cut":     emulator.CutBody(200),
		"500":          emulator.Fail(http.StatusInternalServerError, "InternalFailure", ""),
		"no access":    emulator.Fail(http.StatusBadRequest, "AccessDeniedException", "not authorized to perform kinesis:GetRecords"),
		"key disabled": emulator.Fail(http.StatusBadRequest, "KMSDisabledException", ""),
		"expired":      emulator.Fail(http.StatusBadRequest, "ExpiredIteratorException", ""),
		"invalid":      emulator.Fail(http.StatusBadRequest, "InvalidArgumentException", ""),
		"too slow":     emulator.Delay(time.Minute),
	}
	for name, effect := range faults {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.cfg.MaxRecords = 50
				w.put(1000)
				w.server.Inject(emulator.Rule{Client: "reader", Service: emulator.Kinesis, Probability: 0.5, Seed: 7, Effect: effect})
				s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				got, _ := w.take(ctx, s, 1000)
				if diff := cmp.Diff(numbers(0, 1000), got); diff != "" {
					t.Error(diff)
				}
				n := w.retried()
				if len(n) == 0 {
					t.Error("nothing was retried")
				}
				for _, r := range n {
					if r.LeaseKey != shard0 || r.Worker != "w" || r.Attempt < 1 || r.Err == nil {
						t.Errorf("retry %+v", r)
					}
				}
			})
		})
	}
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

func TestPolling_endsAShardWithItsChildren(t *testing.T) {
	t.Parallel()
	reshard := map[string]func(w *world) []string{
		"split": func(w *world) []string {
			w.split(shard0)
			return []string{shard2, "shardId-000000000003"}
		},
		"merge": func(w *world) []string {
			w.merge(shard0, shard1)
			return []string{shard2}
		},
	}
	servers := map[string]func(*kinesis.GetRecordsOutput){
		"names children": nil,
		"names none":     func(out *kinesis.GetRecordsOutput) { out.ChildShards = nil },
		"names halves": func(out *kinesis.GetRecordsOutput) {
			for i := range out.ChildShards {
				out.ChildShards[i].ParentShards = nil
			}
		},
	}
	for name, change := range reshard {
		for server, alter := range servers {
			t.Run(name+"/"+server, func(t *testing.T) {
				bubble(t, 2, func(ctx context.Context, w *world) {
					w.putKeyed(100, func(int) string { return "d" }) // all in one of the shards
					children := change(w)
					w.api = &altered{KinesisAPI: w.api, getRecords: alter}
					p := w.polling()
					s := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
					got, end := w.toEnd(ctx, s)
					s2 := w.open(ctx, p, shard1, checkpoint.TrimHorizon)
					if name == "merge" {
						more, _ := w.toEnd(ctx, s2)
						got = append(got, more...)
					} else if len(got) == 0 {
						got, _ = w.take(ctx, s2, 100)
					}
					if diff := cmp.Diff(numbers(0, 100), got); diff != "" {
						t.Error(diff)
					}
					var ids []string
					for _, c := range end.Children {
						ids = append(ids, c.ID)
						want := []string{shard0}
						if name == "merge" {
							want = []string{shard0, shard1}
						}
						if parents := slices.Sorted(slices.Values(c.ParentIDs)); !slices.Equal(parents, want) || c.StartingHashKey == "" || c.EndingHashKey == "" {
							t.Errorf("child %+v, want parents %v", c, want)
						}
					}
					if !slices.Equal(ids, children) || end.Gone {
						t.Errorf("end %+v, want children %v", end, children)
					}
					again, err := s.Next(ctx)
					if err != nil || again.End != end {
						t.Errorf("Next after the end: %+v, %v", again, err)
					}
					s.Close()
					s2.Close()
				})
			})
		}
	}
}

func TestPolling_takesNoBrokenReplyForTheEnd(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.MaxRecords = 10
		w.put(100)
		n := 0
		w.api = &altered{KinesisAPI: w.api, getRecords: func(out *kinesis.GetRecordsOutput) {
			if n++; n%3 == 0 {
				out.NextShardIterator = nil
			}
		}}
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		got, _ := w.take(ctx, s, 100)
		if diff := cmp.Diff(numbers(0, 100), got); diff != "" {
			t.Error(diff)
		}
	})
}

// A listing may show a shard closed before it shows the shard's children.
func TestPolling_waitsForTheChildrenOfAClosedShard(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.split(shard0)
		listings := 0
		w.api = &altered{
			KinesisAPI: w.api,
			getRecords: func(out *kinesis.GetRecordsOutput) { out.ChildShards = nil },
			listShards: func(_ *kinesis.ListShardsInput, out *kinesis.ListShardsOutput) {
				if listings++; listings < 5 { // first none of the children, then one
					out.Shards = out.Shards[:1+listings/3]
				}
			},
		}
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		if _, end := w.toEnd(ctx, s); len(end.Children) != 2 || listings != 5 {
			t.Errorf("end %+v after %d listings", end, listings)
		}
	})
}

func TestPolling_endsAShardThatLeftTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		splits []string // one a day
		known  bool     // the lease knows its hash keys
		want   error
	}{
		"its children are listed":                       {splits: []string{shard0}},
		"only their children are":                       {splits: []string{shard0, "shardId-000000000001", "shardId-000000000002"}, known: true},
		"only their children are, its keys are unknown": {splits: []string{shard0, "shardId-000000000001", "shardId-000000000002"}, want: shardsync.ErrOtherHistory},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				start := Start{Stream: stream, ShardID: shard0, LeaseKey: shard0, From: checkpoint.TrimHorizon}
				if c.known {
					start.HashKeyRange = hashkey.Full()
				}
				for _, id := range c.splits {
					w.split(id)
					time.Sleep(25 * time.Hour)
				}
				s, err := w.polling().Open(ctx, start)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				b, err := s.Next(ctx)
				if !errors.Is(err, c.want) || c.want == nil && (b.End == nil || !b.End.Gone) {
					t.Errorf("Next: %+v, %v, want an end or %v", b, err, c.want)
				}
			})
		})
	}
}

// A lease of another stream's shard is not finished because this stream never had such a shard.
func TestPolling_doesNotEndAShardThatTheStreamNeverHad(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.polling(), "shardId-000000000099", checkpoint.TrimHorizon)
		defer s.Close()
		if b, err := s.Next(ctx); !errors.Is(err, shardsync.ErrOtherHistory) {
			t.Errorf("Next: %+v, %v, want an error that says that this is another stream", b, err)
		}
	})
}

// The stream may come back under its name with other records: to finish the lease would leave them unread.
func TestPolling_failsWhenTheStreamIsDeleted(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(5)
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.take(ctx, s, 5)
		if _, err := w.user.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: aws.String(stream)}); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := s.Next(ctx)
			if err == nil && b.End == nil {
				continue
			}
			if !errors.Is(err, shardsync.ErrStreamNotFound) || !strings.Contains(err.Error(), stream) {
				t.Errorf("Next: %+v, %v", b, err)
			}
			break
		}
	})
}

// An odd NotFound for a shard that is listed is no end.
func TestPolling_goesOnWhenTheListingKnowsTheShard(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(5)
		w.server.Inject(emulator.Rule{Client: "reader", Operation: "GetRecords", Times: 2, Effect: emulator.Fail(400, "ResourceNotFoundException", "?")})
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.take(ctx, s, 5)
	})
}

func TestPolling_readsAnIdleShardOnceASecondAndSaysHowFarItIs(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.polling(), shard0, checkpoint.Latest)
		defer s.Close()
		start, batches := time.Now(), 0
		for time.Since(start) < 5*time.Minute {
			b, err := s.Next(ctx)
			if err != nil || len(b.Records) != 0 {
				t.Fatal(b, err)
			}
			b.Release()
			batches++
		}
		n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests
		if n < 260 || n > 310 || batches < 260 {
			t.Errorf("%d reads and %d batches in 5 minutes of silence", n, batches)
		}
		// Records end the silence: the next reads come after the idle time.
		w.put(1)
		if _, err := s.Next(ctx); err != nil {
			t.Fatal(err)
		}
		before := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests
		time.Sleep(400 * time.Millisecond)
		synctest.Wait()
		if n := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"}).Requests - before; n < 1 || n > 3 {
			t.Errorf("%d reads in 400 ms after a record", n)
		}
	})
}

// Five reads a second and two megabytes: with the service's limits a reader that was refused once keeps to them.
func TestPolling_keepsToTheLimitsOnceItWasRefused(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.MaxRecords = 10
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.put(800)
		got, _ := w.take(ctx, s, 800)
		if diff := cmp.Diff(numbers(0, 800), got); diff != "" {
			t.Error(diff)
		}
		c := w.server.Counts().Of(emulator.CountKey{Client: "reader", Operation: "GetRecords"})
		if c.Throttled == 0 || c.Throttled > 8 {
			t.Errorf("%d of %d reads were refused", c.Throttled, c.Requests)
		}
	}, emulator.WithLimits())
}

func TestPolling_closeEndsAReaderThatWaitsForAnything(t *testing.T) {
	t.Parallel()
	waits := map[string]func(ctx context.Context, w *world, p *Polling){
		"a reply": func(_ context.Context, w *world, _ *Polling) {
			w.server.Inject(emulator.Rule{Client: "reader", Effect: emulator.Freeze()})
		},
		"a retry": func(_ context.Context, w *world, _ *Polling) {
			w.server.Inject(emulator.Rule{Client: "reader", Effect: emulator.Fail(400, "AccessDeniedException", "")})
		},
		"the idle time": func(context.Context, *world, *Polling) {},
		"the consumer":  func(_ context.Context, w *world, _ *Polling) { w.put(5000) },
		"the byte budget": func(_ context.Context, w *world, p *Polling) {
			p.budget.used = p.budget.total
			w.put(500)
		},
	}
	for name, prepare := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.cfg.MaxRecords = 100
				p := w.polling()
				prepare(ctx, w, p)
				s := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				at := time.Now()
				s.Close()
				if d := time.Since(at); d != 0 {
					t.Errorf("Close took %v", d)
				}
				if _, err := s.Next(ctx); err == nil {
					t.Error("Next works after Close")
				}
			})
		})
	}
}

func TestPolling_endsWithItsContext(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		cause := errors.New("lease lost")
		ctx, cancel := context.WithCancelCause(ctx)
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		cancel(cause)
		if _, err := s.Next(ctx); !errors.Is(err, cause) {
			t.Errorf("Next: %v", err)
		}
		synctest.Wait()
		if _, err := s.Next(w.t.Context()); !errors.Is(err, cause) {
			t.Errorf("Next: %v", err)
		}
	})
}

var _ processor.RecordSource = (*source)(nil)
