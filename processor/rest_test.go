package processor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

// rested starts a consumer, lets it come to rest, and returns how often it was resumed until it comes to rest again, or has ended.
func rested(b *bench) (resumed func() int) {
	b.t.Helper()
	outs := make(chan Outcome, 10)
	var n atomic.Int64
	run := func() { outs <- b.consumer.Run(b.ctx) }
	b.upstream.resume = func() { n.Add(1); go run() }
	b.consumer = NewShardConsumer(b.options)
	go run()
	if out := <-outs; out != (Outcome{Resting: true}) {
		b.t.Errorf("of an idle shard, Run returns %+v, want that it rests", out)
	}
	return func() int {
		synctest.Wait()
		for len(outs) > 0 {
			b.outcome = <-outs
		}
		return int(n.Load())
	}
}

func TestConsumer_rests(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		event func(*bench)
		calls []string
		want  Outcome
	}{
		"until a page comes": {
			event: func(b *bench) { b.source.push(numbered(3, 4)); b.source.push(Batch{}) },
			calls: []string{"ProcessRecords 3-4"}, want: Outcome{Resting: true},
		},
		"until its lag is known": {event: func(b *bench) { b.source.push(Batch{MillisBehindLatest: 7}) }, want: Outcome{Resting: true}},
		"until its shard ends": {
			event: func(b *bench) { b.source.push(Batch{End: &End{}}) },
			calls: []string{"end []", "ShardEnded"}, want: Outcome{Reason: ShardEnd, Finished: true},
		},
		"until a stop is requested": {
			event: func(b *bench) { b.consumer.RequestShutdown() },
			calls: []string{"ShutdownRequested"}, want: Outcome{Reason: Requested},
		},
		"until a stop after a batch is due": {
			event: func(b *bench) { b.consumer.RequestShutdownAfterBatch(); b.source.push(Batch{}) },
			calls: []string{"ShutdownRequested"}, want: Outcome{Reason: Requested},
		},
		"until the lease is lost": {event: func(b *bench) { b.lease.lose() }, calls: []string{"LeaseLost"}, want: Outcome{Reason: LeaseLost}},
		"until it is aborted": {
			event: func(b *bench) { b.consumer.Abort(broken) },
			calls: []string{"LeaseLost"}, want: Outcome{Reason: Requested},
		},
		"until the time to stop is over": {
			event: func(b *bench) { b.abort(broken) },
			calls: []string{"LeaseLost"}, want: Outcome{Reason: Requested},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 2), Batch{})
				resumed := rested(b)
				began := []string{"Initialize TRIM_HORIZON", "open TRIM_HORIZON", "ProcessRecords 1-2"}
				diff(t, "calls", began, b.journal.calls())
				pass(time.Hour)
				if n := resumed(); n != 0 {
					t.Errorf("resumed %d times while nothing happened", n)
				}
				c.event(b)
				n := resumed()
				if n == 0 || c.want.Resting == false && n != 1 {
					t.Errorf("resumed %d times", n)
				}
				b.outcome.Err = nil
				if b.outcome != c.want {
					t.Errorf("outcome %+v, want %+v", b.outcome, c.want)
				}
				diff(t, "calls", append(began, c.calls...), b.journal.calls())
				b.abort(nil)
				resumed()
				if err := b.source.check(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestConsumer_keepsItsGoroutineWhileRecordsCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, numbered(1, 2))
		b.upstream.resume = func() { t.Error("it has rested") }
		b.consumer = NewShardConsumer(b.options)
		done := make(chan Outcome, 1)
		go func() { done <- b.consumer.Run(b.ctx) }()
		for n := range 10 {
			pass(time.Second)
			b.source.push(numbered(3+n, 3+n))
		}
		pass(time.Second)
		b.consumer.RequestShutdown()
		if out := <-done; out != (Outcome{Reason: Requested}) {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestConsumer_stopsReadingAheadWhenNoMoreIsWanted(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(*bench){
		"stop":  func(b *bench) { b.consumer.RequestShutdown() },
		"abort": func(b *bench) { b.consumer.Abort(errors.New("enough")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, numbered(1, 1))
				b.journal.process = func(context.Context, ProcessRecordsInput) error {
					event(b)
					if b.source.stopped != 1 {
						t.Errorf("the source was told %d times, want at once", b.source.stopped)
					}
					return nil
				}
				b.start()
				b.end()
			})
		})
	}
}

// A source for which one has to wait is waited for.
func TestConsumer_doesNotRestWithASourceThatDoesNotAnnounce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, Batch{})
		b.upstream.open = func(context.Context, checkpoint.ExtendedSequenceNumber) (RecordSource, error) {
			return struct{ RecordSource }{b.source}, nil
		}
		b.upstream.resume = func() { t.Error("it has rested") }
		b.consumer = NewShardConsumer(b.options)
		done := make(chan Outcome, 1)
		go func() { done <- b.consumer.Run(b.ctx) }()
		pass(time.Second)
		b.consumer.RequestShutdown()
		if out := <-done; out != (Outcome{Reason: Requested}) {
			t.Errorf("outcome %+v", out)
		}
	})
}
