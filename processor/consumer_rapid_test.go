package processor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
)

// story is a random tenure: what there is to read, how each call of the user ends, and what happens outside, when.
type story struct {
	sizes   []int // records per batch
	ends    bool  // the last batch ends the shard
	endings []scripted
	shocks  []shock
	gap     time.Duration // before each batch
	rests   bool          // the consumer has no goroutine while its shard is idle
}

// scripted is how one call of the user ends.
type scripted struct {
	how        string // ok, error, panic
	takes      time.Duration
	checkpoint string // none, all, first (the first record of the batch), beyond (a record not delivered)
}

type shock struct {
	after time.Duration
	what  string // lose, stop, abort
}

func drawStory(t *rapid.T) story {
	how := rapid.SampledFrom([]string{"ok", "ok", "ok", "error", "panic"})
	takes := rapid.SampledFrom([]time.Duration{0, 0, 100 * time.Millisecond, 3 * time.Second})
	what := rapid.SampledFrom([]string{"none", "all", "all", "first", "beyond"})
	return story{
		sizes: rapid.SliceOfN(rapid.IntRange(0, 4), 0, 6).Draw(t, "sizes"),
		ends:  rapid.Bool().Draw(t, "ends"),
		endings: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) scripted {
			return scripted{how.Draw(t, "how"), takes.Draw(t, "takes"), what.Draw(t, "checkpoint")}
		}), 0, 15).Draw(t, "endings"),
		shocks: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) shock {
			return shock{
				time.Duration(rapid.IntRange(0, 20_000).Draw(t, "after")) * time.Millisecond,
				rapid.SampledFrom([]string{"lose", "stop", "abort"}).Draw(t, "what"),
			}
		}), 0, 3).Draw(t, "shocks"),
		gap:   rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, 3 * time.Second}).Draw(t, "gap"),
		rests: rapid.Bool().Draw(t, "rests"),
	}
}

// witness is a processor that checks, from inside, what every processor may rely on.
type witness struct {
	story story
	lease *losableLease

	mu      sync.Mutex
	faults  []string
	inside  bool
	calls   int
	last    string // the last call that was made
	began   bool   // Initialize was called
	ready   bool   // Initialize returned nil
	ended   bool   // ShardEnded returned nil
	handled int    // the last record of a batch that was handled
	reached int    // the last record that was delivered
}

func (w *witness) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// call is one method from beginning to end.
func (w *witness) call(ctx context.Context, method string, first int, c *checkpoint.Checkpointer) (err error) {
	w.mu.Lock()
	if w.inside {
		w.fault("%s while %s runs", method, w.last)
	}
	if method != "LeaseLost" && w.lease.ctx.Err() != nil {
		w.fault("%s after the lease was lost", method)
	}
	if w.last == "LeaseLost" || w.ended || w.last == "ShutdownRequested" && method != "LeaseLost" {
		w.fault("%s after %s", method, w.last)
	}
	if method != "Initialize" && method != "LeaseLost" && !w.ready {
		w.fault("%s before Initialize returned nil", method)
	}
	if method == "Initialize" && w.ready {
		w.fault("Initialize again")
	}
	if method == "ShardEnded" && w.handled != w.reached {
		w.fault("ShardEnded with records up to %d, handled up to %d", w.reached, w.handled)
	}
	w.inside, w.last = true, method
	e := scripted{how: "ok", checkpoint: "all"}
	if w.calls < len(w.story.endings) {
		e = w.story.endings[w.calls]
	}
	w.calls++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.inside = false
		w.mu.Unlock()
	}()

	wait(e.takes)
	if c != nil {
		switch e.checkpoint {
		case "all":
			err = c.Checkpoint(ctx)
		case "first":
			if first > 0 && first > w.written() {
				err = c.CheckpointAt(ctx, at(first))
			}
		case "beyond":
			if e := c.CheckpointAt(ctx, at(w.reached+1)); e == nil {
				w.fault("a checkpoint at %d, beyond %d, was accepted", w.reached+1, w.reached)
			}
		}
	}
	if err != nil && ctx.Err() == nil && w.lease.ctx.Err() == nil {
		w.fault("checkpoint %s in %s: %v", e.checkpoint, method, err)
	}
	switch e.how {
	case "panic":
		panic("scripted")
	case "error":
		return errors.New("scripted")
	}
	return nil
}

// written is the largest number in the store; it checks that no write went too far.
func (w *witness) written() int {
	largest := 0
	for _, s := range w.lease.checkpoints() {
		if n, err := strconv.Atoi(s); err == nil {
			largest = max(largest, n)
		}
	}
	return largest
}

func (w *witness) checkWritten(upTo int) {
	if n := w.written(); n > upTo {
		w.fault("checkpoint %d, but only %d is handled or in hand", n, upTo)
	}
}

func (w *witness) Initialize(ctx context.Context, in InitializationInput) error {
	w.began = true
	err := w.call(ctx, "Initialize", 0, in.Checkpointer)
	w.ready = err == nil
	return err
}

func (w *witness) ProcessRecords(ctx context.Context, in ProcessRecordsInput) error {
	first, _ := strconv.Atoi(in.Records[0].SequenceNumber)
	last := first + len(in.Records) - 1
	if first != w.handled+1 {
		w.fault("records from %d after %d was handled", first, w.handled)
	}
	w.reached = max(w.reached, last)
	defer func() { w.checkWritten(last) }()
	err := w.call(ctx, "ProcessRecords", first, in.Checkpointer)
	if err == nil {
		w.handled = last
	}
	return err
}

func (w *witness) LeaseLost(ctx context.Context, in LeaseLostInput) {
	if ctx.Err() != nil || in.Cause == nil {
		w.fault("LeaseLost with context %v, cause %v", ctx.Err(), in.Cause)
	}
	_ = w.call(ctx, "LeaseLost", 0, nil)
}

func (w *witness) ShardEnded(ctx context.Context, in ShardEndedInput) error {
	defer func() {
		all := w.lease.checkpoints()
		w.ended = len(all) > 0 && all[len(all)-1] == "SHARD_END"
	}()
	return w.call(ctx, "ShardEnded", 0, in.Checkpointer)
}

func (w *witness) ShutdownRequested(ctx context.Context, in ShutdownRequestedInput) error {
	before := w.written()
	defer func() { w.checkWritten(max(before, w.handled)) }()
	return w.call(ctx, "ShutdownRequested", 0, in.Checkpointer)
}

// tell plays the story and returns what went against the promises.
func (s story) tell(t *testing.T) (faults []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		lease := newLosableLease()
		w := &witness{story: s, lease: lease}
		source := &scriptedSource{}
		var batches []Batch
		n := 0
		for i, size := range s.sizes {
			b := numbered(n+1, n+size)
			n += size
			if s.ends && i == len(s.sizes)-1 {
				b.End = &End{}
			}
			batches = append(batches, b)
		}
		if s.gap == 0 {
			source.batches = batches
		} else {
			go func() {
				for _, b := range batches {
					wait(s.gap)
					source.push(b)
				}
			}()
		}
		ctx, abort := context.WithCancelCause(context.Background())
		defer abort(nil)
		opened := 0
		o := ConsumerOptions{
			Shard: Shard{ID: "shard-1", LeaseKey: "shard-1"}, Position: checkpoint.TrimHorizon, Lease: lease,
			Upstream: &doubleUpstream{open: func(context.Context, checkpoint.ExtendedSequenceNumber) (RecordSource, error) {
				opened++
				return source, nil
			}},
			ConsumerSettings: &ConsumerSettings{
				Factory: func(Shard) RecordProcessor { return w }, Rests: s.rests,
				Lifecycle: config.LifecycleConfig{TaskBackoff: 500 * time.Millisecond, MaxTaskBackoff: 5 * time.Second},
			},
		}
		done := make(chan Outcome, 1)
		c, run := resting(ctx, o, func(out Outcome) { done <- out })
		if !s.rests {
			c = NewShardConsumer(o)
			run = func() { done <- c.Run(ctx) }
		}
		go run()
		for _, k := range s.shocks {
			pass(k.after)
			switch k.what {
			case "lose":
				lease.lose()
			case "stop":
				c.RequestShutdown()
			case "abort":
				abort(errors.New("grace is over"))
			}
		}
		pass(5 * time.Minute) // more than all scripted calls and pauses together
		if len(s.shocks) == 0 {
			ended := s.ends && len(s.sizes) > 0
			if st := c.Status().State; (st == Done) != ended {
				w.fault("state %v, shard ended %v", st, ended)
			}
			if w.handled != n {
				w.fault("handled up to %d of %d", w.handled, n)
			}
		}
		c.RequestShutdown()
		var out Outcome
		select {
		case out = <-done:
		case <-time.After(time.Minute):
			w.fault("Run did not return, state %v", c.Status().State)
			abort(nil)
			lease.lose()
			out = <-done
		}
		if out.Finished != w.ended {
			w.fault("outcome %+v, but the processor ended: %v", out, w.ended)
		}
		if told := w.ended || w.last == "ShutdownRequested" || w.last == "LeaseLost"; w.ready && !told {
			w.fault("the last call is %s: the processor does not know that it is over", w.last)
		}
		if !w.began && w.calls > 0 {
			w.fault("%s without Initialize", w.last)
		}
		if opened > 0 {
			if err := source.check(); err != nil {
				w.fault("%v", err)
			}
		}
		faults = w.faults
	})
	return faults
}

func TestConsumer_keepsItsPromisesInAnyStory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		for _, f := range drawStory(rt).tell(t) {
			rt.Error(f)
		}
	})
}
