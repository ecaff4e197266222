package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

const (
	// askInterval is the pause between two looks at which streams are to be read. (KCL: NEW_STREAM_CHECK_INTERVAL_MILLIS)
	askInterval = time.Minute
	// firstPause is the pause after the first failure, if nothing was answered yet; later ones grow up to askInterval.
	firstPause = time.Second
	// askLimit is how long the tracker may take to answer; then its context ends.
	askLimit = 30 * time.Second
	// askPatience is how long it may take to notice that.
	askPatience = 5 * time.Second
)

// inquiry is one question to the tracker. User code answers it on a goroutine of its own, since it may panic, end its goroutine
// (runtime.Goexit), or never come back. One that does not come back is left behind, and nothing is asked before it has.
type inquiry struct {
	listing atomic.Bool   // it is about former streams by now
	done    chan struct{} // closed when user code has ended

	// Of user code's goroutine until done is closed.
	named  []config.StreamConfig
	listed []string
	err    error
}

// misconductError says that a tracker did not return as a function should.
type misconductError struct{ text string }

func (e *misconductError) Error() string { return e.text }

// method is what is being called.
func (q *inquiry) method() string {
	if q.listing.Load() {
		return "FormerStreamLister.FormerStreams"
	}
	return "StreamTracker.Streams"
}

func (q *inquiry) over() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// late says that user code has not returned.
func (q *inquiry) late() error {
	return &misconductError{fmt.Sprintf("%s has not returned, though its context ended after %v; it is not called again before it does", q.method(), askLimit)}
}

// answer runs the functions of the user's.
func (q *inquiry) answer(ctx context.Context, o *Options) {
	q.err = &misconductError{"it ended its goroutine instead of returning"} // unless it returns or panics
	defer close(q.done)
	defer func() {
		v := recover()
		if v != nil {
			q.err = &misconductError{fmt.Sprintf("it panicked: %v", v)}
		}
		if m, ok := errors.AsType[*misconductError](q.err); ok {
			m.text = q.method() + m.text[len("it"):]
		}
		if f := o.Config.Hooks.Panicked; v != nil && f != nil {
			f(config.PanicEvent{Worker: o.Config.WorkerID, What: q.method(), Value: v, Stack: debug.Stack()})
		}
	}()
	named, err := o.Streams.Tracked(ctx)
	var listed []string
	if err == nil && o.Streams.Listed != nil {
		q.listing.Store(true)
		listed, err = o.Streams.Listed(ctx)
	}
	q.named, q.listed, q.err = named, listed, err
}

// ask finds out which streams are to be read, and then what becomes of the others.
func (t *tracking) ask(ctx context.Context, now time.Time) {
	if t.inquiry != nil && !t.inquiry.over() {
		t.unanswered(now, t.inquiry.late())
		return
	}
	q := &inquiry{done: make(chan struct{})}
	t.inquiry, t.asking = q, true
	go func() {
		bounded, cancel := loop.Timeout(ctx, askLimit, "ask the stream tracker")
		defer cancel()
		q.answer(bounded, &t.o)
	}()
	t.job(func() func(time.Time) {
		timer := loop.ClockOf(ctx).NewTimer(askLimit + askPatience)
		defer timer.Stop()
		var late error
		select {
		case <-q.done:
		case <-timer.C:
			late = q.late()
		case <-ctx.Done():
		}
		return func(now time.Time) {
			t.asking = false
			switch {
			case ctx.Err() != nil:
			case late != nil:
				t.unanswered(now, late)
			case q.err != nil:
				t.unanswered(now, q.err)
			default:
				t.answered, t.warned = true, false
				t.pause.Reset()
				t.nextAsk = now.Add(loop.Jitter(askInterval, 0.1))
				t.take(q.named)
				t.part(ctx, now, q.listed)
			}
		}
	})
}

// unanswered has the tracker asked again; what it said before holds on. If it has not said anything, no stream is read, and it
// is asked sooner.
func (t *tracking) unanswered(now time.Time, err error) {
	wait := t.pause.Next()
	if t.answered {
		wait = loop.Jitter(askInterval, 0.1)
	}
	t.nextAsk = now.Add(wait)
	if _, ok := errors.AsType[*misconductError](err); ok && !t.warned {
		t.warned = true
		t.o.Config.Logger.Warn("the stream tracker's answer cannot be used; what it said before holds on", "worker", t.o.Config.WorkerID, "why", err)
	}
	t.retried("ask the stream tracker", err, t.pause.Tries(), wait)
}

// leftBehind waits, after run has ended, until ctx is done for the tracker to return, and says if it has not.
func (t *tracking) leftBehind(ctx context.Context) error {
	q := t.inquiry
	if q == nil {
		return nil
	}
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
	}
	if q.over() {
		return nil
	}
	return fmt.Errorf("stopped without the stream tracker: %s has not returned", q.method())
}

// take takes in an answer. A configuration with a fault names its stream all the same, so that its leases stay.
func (t *tracking) take(named []config.StreamConfig) {
	now, removed := merge(t.wanted, named)
	hooks := t.o.Config.Hooks
	for _, w := range removed {
		if w.added {
			w.fault = nil // that is told of StreamFaulty only
			t.told(hooks.StreamRemoved, w)
		}
	}
	for i := range now {
		w := &now[i]
		fault := ""
		if w.fault != nil {
			fault = w.fault.Error()
		}
		switch {
		case fault == "" && !w.added:
			w.added = true
			t.told(hooks.StreamAdded, *w)
		case fault != "" && fault != w.blamed: // once, not at each answer
			t.told(hooks.StreamFaulty, *w)
		}
		w.blamed = fault
	}
	t.wanted = now
	t.d.want(t.wanted)
	maps.DeleteFunc(t.named, func(id config.StreamIdentifier, _ *naming) bool {
		return !slices.ContainsFunc(now, func(w wanted) bool { own, _ := w.cfg.Identifier(); return own == id })
	})
}

// told calls one of the hooks that are about streams.
func (t *tracking) told(f func(config.StreamEvent), w wanted) {
	if f == nil {
		return
	}
	e := config.StreamEvent{Worker: t.o.Config.WorkerID, Stream: w.id.StreamName, Err: w.fault}
	if e.Stream == "" {
		e.Stream = w.cfg.StreamARN // a faulty one
	}
	if w.whole {
		e.Identifier = w.id.String()
	}
	f(e)
}
