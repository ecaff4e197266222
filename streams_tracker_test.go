package shardlease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
)

// rogue is a tracker each of whose calls does what a test says before it answers.
type rogue struct {
	tracker
	before func() // in Streams
	listed func() // in FormerStreams
}

func (r *rogue) act(f *func()) {
	r.mu.Lock()
	do := *f
	r.mu.Unlock()
	if do != nil {
		do()
	}
}

func (r *rogue) become(before, listed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.listed = before, listed
}

func (r *rogue) Streams(ctx context.Context) ([]config.StreamConfig, error) {
	r.act(&r.before)
	return r.tracker.Streams(ctx)
}

func (r *rogue) FormerStreams(context.Context) ([]string, error) {
	r.act(&r.listed)
	return nil, nil
}

// warnings is a log of warnings and errors.
type warnings struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *warnings) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// with are the lines that contain all of these texts.
func (w *warnings) with(texts ...string) (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.buf.String()) {
		all := true
		for _, t := range texts {
			all = all && strings.Contains(line, t)
		}
		if all {
			lines = append(lines, line)
		}
	}
	return lines
}

// A tracker that ignores its context holds up nothing: what it named before is read on, the log says that it does not answer, and
// the stop gives everything up and names it.
func TestStreams_aTrackerThatBlocksHoldsUpNeitherReadingNorTheStop(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"StreamTracker.Streams", "FormerStreamLister.FormerStreams"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 2, "a", "b")
				names := &rogue{}
				names.set(nil, named("a")...)
				f.With(shardlease.WithStreamTracker(names))
				var log warnings
				w := f.Start("w", unhurried(30*time.Second), func(c *config.Config) { c.Logger = log.logger() })
				f.PutInto("a", 20, 4)
				f.WaitDelivered(30 * time.Second)

				release := make(chan struct{})
				block := func() { <-release }
				if method == "StreamTracker.Streams" {
					names.become(block, nil)
				} else {
					names.become(nil, block)
				}
				time.Sleep(2 * time.Minute)
				if n := log.with("the stream tracker's answer cannot be used", method, "has not returned"); len(n) != 1 {
					t.Errorf("2 min after the tracker began to block: %d warnings of that, want 1\n%s", len(n), n)
				}
				f.PutInto("a", 20, 4)
				f.WaitDelivered(30 * time.Second)

				// Once it answers, it is asked as before.
				names.become(nil, nil)
				names.set(nil, named("a", "b")...)
				close(release)
				f.PutInto("b", 20, 4)
				f.WaitDelivered(2 * time.Minute)

				release = make(chan struct{})
				names.become(func() { <-release }, nil)
				time.Sleep(61 * time.Second) // it is in the call, whose context may be alive
				began := time.Now()
				err := w.Stop()
				if took := time.Since(began); took > 25*time.Second {
					t.Errorf("the stop took %v, want no more than ShutdownGrace, 25s", took)
				}
				if err == nil || !strings.Contains(err.Error(), "stopped without the stream tracker: StreamTracker.Streams has not returned") {
					t.Errorf("Run returned %v, want an error that names the tracker's method", err)
				}
				if keys := owned(f); len(keys) > 0 {
					t.Errorf("leases %v still have an owner after the stop, want all given up", keys)
				}
				close(release)
				f.Check()
			})
		})
	}
}

// A tracker that heeds its context, but only that, keeps no stop waiting and is no fault of it.
func TestStreams_aTrackerThatWaitsForItsContextIsNoFaultOfAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 1, "a")
		f.With(shardlease.WithStreamTracker(waiting{}))
		w := f.Start("w", unhurried(10*time.Second))
		time.Sleep(20 * time.Second)
		began := time.Now()
		if err := w.Stop(); err != nil || time.Since(began) > time.Second {
			t.Errorf("Run returned %v after %v, want nil at once", err, time.Since(began))
		}
	})
}

type waiting struct{}

func (waiting) Streams(ctx context.Context) ([]config.StreamConfig, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestStreams_aTrackerThatFailsFromTheStartIsWarnedAboutAndAskedAgainSoon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     string // the method
		fail   func()
		err    error
		why    string
		panics bool
	}{
		"Streams panics":            {"StreamTracker.Streams", func() { panic("no registry") }, nil, "panicked: no registry", true},
		"Streams ends":              {"StreamTracker.Streams", runtime.Goexit, nil, "ended its goroutine", false},
		"Streams returns an error":  {"", nil, errors.New("the registry is down"), "the registry is down", false},
		"FormerStreams panics":      {"FormerStreamLister.FormerStreams", func() { panic("no registry") }, nil, "panicked: no registry", true},
		"FormerStreams ends itself": {"FormerStreamLister.FormerStreams", runtime.Goexit, nil, "ended its goroutine", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 1, "a")
				names := &rogue{}
				names.set(c.err, named("a")...)
				if c.in == "StreamTracker.Streams" {
					names.become(c.fail, nil)
				} else {
					names.become(nil, c.fail)
				}
				f.With(shardlease.WithStreamTracker(names))
				var log warnings
				var mu sync.Mutex
				panics := map[string]int{}
				w := f.Start("w", unhurried(30*time.Second), func(cfg *config.Config) {
					cfg.Logger = log.logger()
					cfg.Hooks = &config.Hooks{Panicked: func(e config.PanicEvent) {
						mu.Lock()
						defer mu.Unlock()
						panics[e.What]++
					}}
				})
				time.Sleep(20 * time.Second)
				mu.Lock()
				if n := panics[c.in]; (n > 0) != c.panics || len(panics) > 1 {
					t.Errorf("Panicked was told %v, want %q: %t", panics, c.in, c.panics)
				}
				mu.Unlock()
				if n := log.with("level=WARN", c.why, c.in); len(n) < 1 || len(n) > 3 {
					t.Errorf("%d warnings in 20s, want 1 to 3\n%s", len(n), n)
				}
				names.become(nil, nil)
				names.set(nil, named("a")...)
				f.PutInto("a", 10, 2)
				f.WaitDelivered(90 * time.Second)
				f.Check()
				if err := w.Stop(); err != nil {
					t.Errorf("Run returned %v, want nil", err)
				}
			})
		})
	}
}

func TestStreams_aFaultyOneIsWarnedAboutOnceAndAddedWhenItIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 1, "a", "b")
		names := &tracker{}
		faulty := config.StreamConfig{StreamName: "b", InitialPosition: config.AtTimestamp(time.Unix(-1, 0))}
		names.set(nil, config.StreamConfig{StreamName: "a"}, faulty)
		f.With(shardlease.WithStreamTracker(names))
		var log warnings
		var mu sync.Mutex
		var events []string
		tell := func(what string) func(config.StreamEvent) {
			return func(e config.StreamEvent) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, what+" "+e.Stream)
				if (e.Err != nil) != (what == "faulty") {
					t.Errorf("%s %s has error %v", what, e.Stream, e.Err)
				}
			}
		}
		f.Start("w", unhurried(30*time.Second), func(c *config.Config) {
			c.Logger = log.logger()
			c.Hooks = &config.Hooks{StreamAdded: tell("added"), StreamRemoved: tell("removed"), StreamFaulty: tell("faulty")}
		})
		f.PutInto("a", 10, 2)
		f.WaitDelivered(30 * time.Second)
		time.Sleep(30 * time.Minute)
		if n := log.with("stream"); len(n) != 1 || len(log.with("level=WARN", "stream=b", "InitialPosition is")) != 1 {
			t.Errorf("warnings in 30 min: %q, want one that names the stream and its fault", n)
		}
		names.set(nil, named("a", "b")...)
		f.PutInto("b", 10, 2)
		f.WaitDelivered(2 * time.Minute)
		names.set(nil, config.StreamConfig{StreamName: "a"}, faulty) // its leases stay, and it is no former one
		time.Sleep(3 * time.Minute)
		names.set(nil, named("a", "b")...)
		time.Sleep(3 * time.Minute)
		names.set(nil, config.StreamConfig{StreamName: "a"}, config.StreamConfig{StreamName: "c", CreationEpoch: -1})
		time.Sleep(3 * time.Minute)
		names.set(nil, named("a")...)
		time.Sleep(3 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := "[faulty b added a added b faulty b removed b faulty c]"
		if got := fmt.Sprint(events); got != want && got != strings.Replace(want, "faulty b added a", "added a faulty b", 1) {
			t.Errorf("events %s, want %s", got, want)
		}
	})
}

// A stream that an answer names by its name and by its ARN is there once: the second is a fault that is said, as in Config.Streams. To name it in
// the other way from then on is no removal.
func TestStreams_oneThatIsNamedTwiceInOneAnswerIsReadOnceAndSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 1, "a", "b")
		out, err := f.Kinesis.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: new("a")})
		if err != nil {
			t.Fatal(err)
		}
		byName, byARN := config.StreamConfig{StreamName: "a"}, config.StreamConfig{StreamARN: *out.StreamDescriptionSummary.StreamARN}
		names := &tracker{}
		names.set(nil, byName, byARN, config.StreamConfig{StreamName: "b"})
		f.With(shardlease.WithStreamTracker(names))
		var mu sync.Mutex
		var events []string
		tell := func(what string) func(config.StreamEvent) {
			return func(e config.StreamEvent) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, what+" "+e.Stream)
				if e.Err != nil && (!strings.Contains(e.Err.Error(), byARN.StreamARN) || !strings.Contains(e.Err.Error(), `want each stream once`)) {
					t.Errorf("%s %s: %v", what, e.Stream, e.Err)
				}
			}
		}
		told := func(when string, want ...string) {
			t.Helper()
			time.Sleep(5 * time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if fmt.Sprint(events) != fmt.Sprint(want) {
				t.Errorf("%s: events %v, want %v", when, events, want)
			}
			events = nil
		}
		var log warnings
		f.Start("w", unhurried(30*time.Second), func(c *config.Config) {
			c.Logger = log.logger()
			c.Hooks = &config.Hooks{StreamAdded: tell("added"), StreamRemoved: tell("removed"), StreamFaulty: tell("faulty")}
		})
		f.PutInto("a", 10, 2)
		f.WaitDelivered(30 * time.Second)
		told("named twice", "added a", "faulty a", "added b")
		if n := log.with("stream is not read: its configuration has a fault", "stream=a"); len(n) != 1 {
			t.Errorf("%d warnings, want one\n%s", len(n), n)
		}
		names.set(nil, byARN)
		told("by ARN", "removed b")
		names.set(nil, byName)
		told("by name")
		names.set(nil, byName, byARN)
		told("twice again", "faulty a")
		names.set(nil)
		told("not named", "removed a")
		if n := f.Check(); n != 0 {
			t.Errorf("%d records were delivered again, want none", n)
		}
	})
}

// What fails each minute counts its failures in a row, so that it becomes a warning.
func TestStreams_deletionsAndCleanupsThatGoOnFailingBecomeWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 1, fleettest.Stream, "b")
		names := &tracker{}
		names.set(nil, named(fleettest.Stream, "b")...)
		f.With(shardlease.WithStreamTracker(names))
		var log warnings
		f.Start("w", unhurried(30*time.Second), func(c *config.Config) {
			c.Logger = log.logger()
			c.Cleanup.Interval = time.Minute
			c.FormerStreams = config.FormerStreamsConfig{Deletion: config.DeleteAfterWait, Wait: time.Minute}
		})
		f.PutInto("b", 10, 2)
		f.WaitDelivered(time.Minute)
		undo := f.Server.Inject(emulator.Rule{
			Service: emulator.DynamoDB, Operation: "DeleteItem", Effect: emulator.Fail(400, "AccessDeniedException", "not authorized to perform: dynamodb:DeleteItem"),
		})
		names.set(nil, named(fleettest.Stream)...)
		f.Split("shardId-000000000000")
		f.Put(10, 5)
		time.Sleep(10 * time.Minute)
		if n := log.with(`what="clean up leases"`); len(n) < 1 || len(n) > 2 {
			t.Errorf("%d warnings of cleanup in 10 min, want 1 or 2\n%s", len(n), n)
		}
		if n := log.with("delete the leases of a former stream", ":b:"); len(n) < 1 || len(n) > 2 {
			t.Errorf("%d warnings in 10 min, want 1 or 2 (the 3rd and 6th failure)\n%s", len(n), n)
		}
		undo()
		time.Sleep(3 * time.Minute)
		if byStream, _ := rowsOf(f); byStream["b"] != 0 {
			t.Errorf("rows by stream %v, want none of b", byStream)
		}
	})
}
