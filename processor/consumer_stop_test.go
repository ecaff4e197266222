package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

func TestConsumer_stopsWhileItWaitsForParents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stop func(*bench)
		want Reason
	}{
		"stop requested": {func(b *bench) { b.consumer.RequestShutdown() }, Requested},
		"lease lost":     {func(b *bench) { b.lease.lose() }, LeaseLost},
		"aborted":        {func(b *bench) { b.abort(errors.New("grace is over")) }, Requested},
	} {
		for _, slow := range []string{"between questions", "while it asks", "after failures"} {
			t.Run(name+" "+slow, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := setup(t)
					b.options.Shard.ParentIDs = []string{"p"}
					b.upstream.parentsEnded = func(ctx context.Context) (bool, error) {
						switch slow {
						case "while it asks":
							<-ctx.Done()
							return false, context.Cause(ctx)
						case "after failures":
							return false, errors.New("no table")
						}
						return false, nil
					}
					b.start()
					pass(time.Minute)
					began := time.Now()
					tt.stop(b)
					if out := b.end(); out.Reason != tt.want || out.Finished {
						t.Errorf("outcome %+v, want reason %v", out, tt.want)
					}
					if d := time.Since(began); d != 0 {
						t.Errorf("stopping took %v", d)
					}
					diff(t, "calls", nil, b.journal.calls())
				})
			})
		}
	}
}

func TestConsumer_stopsAfterAFailedCall(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		prepare     func(*bench)
		onRequest   []string // the calls that follow RequestShutdown
		onLoss      []string
		onAbort     []string
		checkpoints []string
	}{
		"Initialize": {
			prepare: func(b *bench) {
				b.journal.initialize = func(context.Context, InitializationInput) error { return boom }
			},
			onLoss: []string{"LeaseLost"},
		},
		"Factory": {
			prepare: func(b *bench) { b.options.Factory = func(Shard) RecordProcessor { panic(boom) } },
		},
		"ProcessRecords": {
			prepare: func(b *bench) {
				b.journal.process = func(_ context.Context, in ProcessRecordsInput) error {
					if in.Records[0].SequenceNumber == "3" {
						return boom
					}
					return nil
				}
			},
			onRequest:   []string{"ShutdownRequested"},
			onLoss:      []string{"LeaseLost"},
			onAbort:     []string{"LeaseLost"},
			checkpoints: []string{"2"}, // X7: nothing of the failed batch
		},
		"EndShard": {
			prepare: func(b *bench) {
				b.upstream.endShard = func(context.Context, End) error { b.journal.write("end"); return boom }
			},
			onRequest:   []string{"end", "ShutdownRequested"},
			onLoss:      []string{"LeaseLost"},
			onAbort:     []string{"LeaseLost"},
			checkpoints: []string{"3"},
		},
		"ShardEnded": {
			prepare: func(b *bench) {
				b.journal.ended = func(context.Context, ShardEndedInput) error { return boom }
			},
			onRequest: []string{"ShardEnded", "LeaseLost"},
			onLoss:    []string{"LeaseLost"},
			onAbort:   []string{"LeaseLost"},
		},
	} {
		for how, stop := range map[string]func(*bench){
			"stop requested": func(b *bench) { b.consumer.RequestShutdown() },
			"lease lost":     func(b *bench) { b.lease.lose() },
			"aborted":        func(b *bench) { b.abort(errors.New("grace is over")) },
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := setup(t, numbered(1, 2), lastOf(numbered(3, 3)))
					tt.prepare(b)
					b.start()
					pass(time.Minute)
					before := len(b.journal.calls())
					began := time.Now()
					stop(b)
					out := b.end()
					if d := time.Since(began); d != 0 {
						t.Errorf("stopping took %v", d)
					}
					want := map[string][]string{"stop requested": tt.onRequest, "lease lost": tt.onLoss, "aborted": tt.onAbort}[how]
					diff(t, "calls after the stop", want, append([]string(nil), b.journal.calls()[before:]...))
					if out.Finished || (out.Reason == LeaseLost) != (how == "lease lost") || (out.Err != nil) != (how == "aborted") {
						t.Errorf("outcome %+v", out)
					}
					if how == "stop requested" {
						diff(t, "checkpoints", tt.checkpoints, b.lease.checkpoints())
					}
				})
			})
		}
	}
}

func TestConsumer_finishesTheBatchInHandBeforeItTellsTheProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 2), numbered(3, 4))
		b.journal.process = func(ctx context.Context, in ProcessRecordsInput) error {
			b.consumer.RequestShutdown()
			wait(time.Minute)
			return context.Cause(ctx) // nil: the request does not end the context
		}
		b.start()
		if out := b.end(); out != (Outcome{Reason: Requested}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "calls", []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ShutdownRequested"},
			b.journal.calls())
		diff(t, "checkpoints", []string{"2"}, b.lease.checkpoints())
		b.checkSource()
	})
}

func TestConsumer_recordsTheEndOfAShardAlthoughAStopWasRequested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, lastOf(numbered(1, 2)))
		b.journal.process = func(context.Context, ProcessRecordsInput) error { b.consumer.RequestShutdown(); return nil }
		b.start()
		if out := b.end(); out != (Outcome{Reason: ShardEnd, Finished: true}) {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestConsumer_tellsALostLeaseOnceAndLetsNoCheckpointThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 2), numbered(3, 4))
		var kept *checkpoint.Checkpointer
		b.journal.process = func(ctx context.Context, in ProcessRecordsInput) error {
			kept = in.Checkpointer
			b.lease.lose()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, checkpoint.ErrLeaseLost) {
				t.Errorf("the context's cause is %v", cause)
			}
			return context.Cause(ctx)
		}
		b.journal.lost = func(ctx context.Context, in LeaseLostInput) {
			if !errors.Is(in.Cause, errTaken) {
				t.Errorf("LeaseLost was told %v", in.Cause)
			}
			deadline, ok := ctx.Deadline()
			if d := time.Until(deadline); ctx.Err() != nil || !ok || d != 5*time.Second {
				t.Errorf("the context of LeaseLost: %v, %v to go", ctx.Err(), d)
			}
			if err := kept.Checkpoint(ctx); !errors.Is(err, checkpoint.ErrLeaseLost) {
				t.Errorf("a checkpoint after the loss: %v", err)
			}
		}
		b.start()
		if out := b.end(); out != (Outcome{Reason: LeaseLost}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "calls", []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "LeaseLost"},
			b.journal.calls())
		diff(t, "checkpoints", nil, b.lease.checkpoints())
		diff(t, "retries", nil, b.retries())
		b.checkSource()
	})
}

func TestConsumer_believesUsableBeforeTheLeaseContextIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 2))
		n := 0
		b.lease.usable = func(context.Context) error {
			if n++; n == 2 {
				return errTaken
			}
			return nil
		}
		b.start()
		if out := b.end(); out != (Outcome{Reason: LeaseLost}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "calls", []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "LeaseLost"}, b.journal.calls())
	})
}

func TestConsumer_losesTheLeaseWhileItTellsOfAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.journal.requested = func(ctx context.Context, in ShutdownRequestedInput) error {
			b.lease.lose()
			return in.Checkpointer.Checkpoint(ctx)
		}
		b.start()
		synctest.Wait()
		b.consumer.RequestShutdown()
		if out := b.end(); out != (Outcome{Reason: LeaseLost}) {
			t.Errorf("outcome %+v", out)
		}
		diff(t, "calls", []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ShutdownRequested", "LeaseLost"},
			b.journal.calls())
	})
}

func TestConsumer_namesAMethodThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*bench){
		"lease lost": func(b *bench) { b.lease.lose() },
		"aborted":    func(b *bench) { b.abort(errors.New("grace is over")) },
	} {
		for _, after := range []time.Duration{0, 4 * time.Second} {
			t.Run(fmt.Sprint(name, after), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := setup(t, numbered(1, 2))
					var log bytes.Buffer
					b.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
					b.options.Lifecycle.LogWarningForTaskAfter = after
					free := make(chan struct{})
					var cancelled <-chan struct{}
					b.journal.process = func(ctx context.Context, _ ProcessRecordsInput) error {
						cancelled = ctx.Done()
						<-free
						return nil
					}
					b.start()
					synctest.Wait()
					called := time.Now()
					end(b)
					pass(25 * time.Second)
					select {
					case <-cancelled:
					default:
						t.Error("the context of the method is not done")
					}
					if s := b.consumer.Status(); s.Calling != "ProcessRecords" || !s.CallingSince.Equal(called) {
						t.Errorf("status %+v", s)
					}
					close(free)
					b.end()
					diff(t, "calls", []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "LeaseLost"},
						b.journal.calls())
					want := 2 // each 10 s
					if after > 0 {
						want = 6
					}
					if n := strings.Count(log.String(), "lease=shard-1 method=ProcessRecords"); n != want {
						t.Errorf("%d warnings, want %d:\n%s", n, want, log.String())
					}
					if s := b.consumer.Status(); s.Calling != "" || s.State != Done {
						t.Errorf("status at the end %+v", s)
					}
				})
			})
		}
	}
}

func TestConsumer_countsAFailedLastCheckpointAsItsError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		requested func(context.Context, ShutdownRequestedInput) error
		source    error
		want      string
	}{
		"error":                {requested: func(context.Context, ShutdownRequestedInput) error { return boom }, want: "ShutdownRequested of shard shard-1: boom"},
		"panic":                {requested: func(context.Context, ShutdownRequestedInput) error { panic("oops") }, want: "ShutdownRequested of shard shard-1: ShutdownRequested panicked: oops"},
		"source":               {source: boom, want: "read shard shard-1: boom"},
		"source that names it": {source: errors.New(`read shard shard-1 of stream "s": boom`), want: `read shard shard-1 of stream "s": boom`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 2))
				b.journal.requested, b.source.err = tt.requested, tt.source
				b.start()
				synctest.Wait()
				b.consumer.RequestShutdown()
				out := b.end()
				if out.Reason != Requested || out.Err == nil || out.Err.Error() != tt.want {
					t.Errorf("outcome %+v, want error %q", out, tt.want)
				}
				diff(t, "calls", []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2", "ShutdownRequested"},
					b.journal.calls())
				b.checkSource()
			})
		})
	}
}

func TestConsumer_countsAPanicOfLeaseLostAsItsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.journal.lost = func(context.Context, LeaseLostInput) { panic("oops") }
		b.start()
		synctest.Wait()
		b.lease.lose()
		out := b.end()
		if want := "LeaseLost of shard shard-1: LeaseLost panicked: oops"; out.Err == nil || out.Err.Error() != want {
			t.Errorf("outcome %+v, want error %q", out, want)
		}
		if len(b.panics) != 1 {
			t.Errorf("%d panics reported", len(b.panics))
		}
	})
}

func TestConsumer_stopRequestedBeforeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 1))
		c := NewShardConsumer(b.options)
		c.RequestShutdown()
		c.RequestShutdown()
		if out := c.Run(b.ctx); out != (Outcome{Reason: Requested}) {
			t.Errorf("outcome %+v", out)
		}
		c.RequestShutdown()
		diff(t, "calls", nil, b.journal.calls())
	})
}

func TestConsumer_refusesCheckpointsAfterItHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 1))
		var kept *checkpoint.Checkpointer
		b.journal.process = func(_ context.Context, in ProcessRecordsInput) error { kept = in.Checkpointer; return nil }
		b.journal.requested = func(context.Context, ShutdownRequestedInput) error { return nil }
		b.start()
		synctest.Wait()
		b.consumer.RequestShutdown()
		b.end()
		if err := kept.Checkpoint(t.Context()); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Errorf("a checkpoint after the end: %v", err)
		}
		diff(t, "checkpoints", nil, b.lease.checkpoints())
	})
}
