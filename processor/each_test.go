package processor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

// collecting returns an Each that calls f, and where it puts the numbers of the records it was called with.
func collecting(f func(ctx context.Context, r Record) error) (*[]string, Factory) {
	var got []string
	return &got, Each(func(ctx context.Context, r Record) error {
		got = append(got, r.SequenceNumber)
		if f == nil {
			return nil
		}
		return f(ctx, r)
	})
}

func TestEach_checkpointsAfterEachBatchAndAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 3), numbered(4, 5), lastOf(Batch{}))
		got, f := collecting(nil)
		b.options.Factory = f
		b.start()
		if out := b.end(); out != (Outcome{Reason: ShardEnd, Finished: true}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "records", strings.Fields("1 2 3 4 5"), *got)
		diff(t, "checkpoints", []string{"3", "5", "SHARD_END"}, b.lease.checkpoints())
	})
}

func TestEach_goesOnAtTheRecordThatFailed(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]any{"error": errors.New("boom"), "panic": "boom"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 4), numbered(5, 6))
				f1, f3 := failing(with), failing(with, with)
				got, f := collecting(func(_ context.Context, r Record) error {
					switch r.SequenceNumber {
					case "1":
						return f1()
					case "3":
						return f3()
					}
					return nil
				})
				b.options.Factory = f
				b.start()
				pass(time.Minute)
				diff(t, "records", strings.Fields("1 1 2 3 3 3 4 5 6"), *got)
				// 2 is written once, although 3 fails twice.
				diff(t, "checkpoints", []string{"2", "4", "6"}, b.lease.checkpoints())
				for _, r := range b.retries() {
					if name == "error" && !strings.HasSuffix(r, "of shard shard-1: boom") {
						t.Errorf("the error does not name its record: %s", r)
					}
				}
				b.consumer.RequestShutdown()
				b.end()
			})
		})
	}
}

// A panic leaves no time to checkpoint; what was handled before it is made durable at the stop.
func TestEach_checkpointsWhatIsDoneOfABatchWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 4))
		_, b.options.Factory = collecting(func(_ context.Context, r Record) error {
			if r.SequenceNumber == "3" {
				b.consumer.RequestShutdown()
				panic("boom")
			}
			return nil
		})
		b.start()
		if out := b.end(); out != (Outcome{Reason: Requested}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "checkpoints", []string{"2"}, b.lease.checkpoints())
	})
}

func TestEach_repeatsOnlyTheCheckpointIfThatFailed(t *testing.T) {
	t.Parallel()
	for name, poison := range map[string]string{"of a whole batch": "", "of a part": "3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 4), numbered(5, 5))
				throttled := errors.New("throttled")
				b.lease.refuseWith(throttled)
				boom := failing(errors.New("boom"))
				got, f := collecting(func(_ context.Context, r Record) error {
					if r.SequenceNumber == poison {
						return boom()
					}
					return nil
				})
				b.options.Factory = f
				b.start()
				pass(time.Minute)
				want := "1 2 3 4"
				if poison != "" {
					want = "1 2 3" // 3 is not tried again before 2 is durable
				}
				diff(t, "records while the table is throttled", strings.Fields(want), *got)
				if r := b.retries(); len(r) < 3 || !strings.Contains(r[1], "throttled") {
					t.Errorf("retries %q", r)
				}
				b.lease.refuseWith(nil)
				pass(time.Minute)
				want = "1 2 3 4 5"
				if poison != "" {
					want = "1 2 3 3 4 5"
				}
				diff(t, "records", strings.Fields(want), *got)
				if c := b.lease.checkpoints(); !slices.Equal(c[len(c)-2:], []string{"4", "5"}) {
					t.Errorf("checkpoints %q", c)
				}
				b.consumer.RequestShutdown()
				b.end()
			})
		})
	}
}

func TestEach_endsQuietlyWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]string{"between records": "2", "before the checkpoint": "4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 4), numbered(5, 6))
				got, f := collecting(func(_ context.Context, r Record) error {
					if r.SequenceNumber == lose {
						b.lease.lose()
					}
					return nil
				})
				b.options.Factory = f
				b.start()
				if out := b.end(); out != (Outcome{Reason: LeaseLost}) {
					t.Errorf("outcome %+v", out)
				}
				if last := (*got)[len(*got)-1]; last != lose {
					t.Errorf("record %s was handed over after the loss", last)
				}
				diff(t, "retries", nil, b.retries())
				diff(t, "checkpoints", nil, b.lease.checkpoints())
			})
		})
	}
}

func TestEach_saysThatItsFunctionIsNil(t *testing.T) {
	t.Parallel()
	p := Each(nil)(Shard{})
	if err := p.Initialize(t.Context(), InitializationInput{}); err == nil || err.Error() != "processor.Each was given a nil function" {
		t.Errorf("got %v", err)
	}
}

// onlyProcess is a processor as users write them with Base.
type onlyProcess struct {
	Base
	seen *[]string
}

func (p onlyProcess) ProcessRecords(_ context.Context, in ProcessRecordsInput) error {
	for _, r := range in.Records {
		*p.seen = append(*p.seen, r.SequenceNumber)
	}
	return nil
}

func TestBase_checkpointsAtTheEndAndAtAStop(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		last Batch
		want string
	}{
		"end":  {lastOf(numbered(3, 3)), "SHARD_END"},
		"stop": {numbered(3, 3), "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 2), tt.last)
				var seen []string
				b.options.Factory = func(Shard) RecordProcessor { return onlyProcess{seen: &seen} }
				b.start()
				synctest.Wait()
				b.consumer.RequestShutdown()
				if out := b.end(); out.Err != nil {
					t.Errorf("outcome %+v", out)
				}
				diff(t, "records", strings.Fields("1 2 3"), seen)
				diff(t, "checkpoints", []string{tt.want}, b.lease.checkpoints())
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.options.Factory = func(Shard) RecordProcessor { return onlyProcess{} }
		b.start()
		synctest.Wait()
		b.lease.lose()
		if out := b.end(); out != (Outcome{Reason: LeaseLost}) {
			t.Errorf("outcome %+v", out)
		}
	})
}

var _ checkpoint.Store = (*losableLease)(nil)

func BenchmarkEach_perRecord(b *testing.B) {
	lease := newLosableLease()
	tracker := checkpoint.NewTracker(lease, checkpoint.TrimHorizon, checkpoint.TrackerOptions{})
	p := Each(func(context.Context, Record) error { return nil })(Shard{ID: "shard-1"})
	in := ProcessRecordsInput{Records: numbered(1, 1000).Records, Checkpointer: tracker.Checkpointer()}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.ProcessRecords(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}
