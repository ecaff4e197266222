package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/shardsync"
)

func TestStreams_comeAndGoWhileWorkersRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 3, "a", "b", "c")
		names := &tracker{}
		names.set(nil, named("a", "b")...)
		f.With(shardlease.WithStreamTracker(names))
		var mu sync.Mutex
		var events []string
		tracked := func(c *config.Config) {
			unhurried(30 * time.Second)(c)
			c.FormerStreams = config.FormerStreamsConfig{Deletion: config.DeleteAfterWait, Wait: 5 * time.Minute}
			if c.WorkerID == "w0" {
				tell := func(what string) func(config.StreamEvent) {
					return func(e config.StreamEvent) {
						mu.Lock()
						defer mu.Unlock()
						events = append(events, what+" "+e.Stream)
					}
				}
				c.Hooks = &config.Hooks{StreamAdded: tell("added"), StreamRemoved: tell("removed")}
			}
		}
		for i := range 3 {
			f.Start(fmt.Sprint("w", i), tracked)
		}
		put := func(streams ...string) {
			for _, s := range streams {
				f.PutInto(s, 30, 6)
			}
		}
		put("a", "b")
		f.WaitDelivered(30 * time.Second)

		began := time.Now()
		names.set(nil, named("a", "b", "c")...)
		put("c")
		if took := f.WaitDelivered(3 * time.Minute); took > 110*time.Second {
			t.Errorf("a new stream was read after %v", took)
		}
		t.Logf("a new stream was read after %v", time.Since(began))

		names.set(nil, named("a", "c")...)
		time.Sleep(2 * time.Minute)
		put("b") // still read, and its places kept
		f.WaitDelivered(30 * time.Second)
		names.set(nil, named("a", "b", "c")...)
		time.Sleep(10 * time.Minute)
		if byStream, _ := rowsOf(f); byStream["b"] != 3 {
			t.Fatalf("a stream that came back lost its leases: %v", byStream)
		}

		// An answer that fails removes nothing.
		names.set(errors.New("the registry is down"))
		time.Sleep(10 * time.Minute)
		if byStream, _ := rowsOf(f); len(byStream) != 3 {
			t.Fatalf("rows by stream %v", byStream)
		}

		names.set(nil, named("a", "c")...)
		began = time.Now()
		for byStream, _ := rowsOf(f); byStream["b"] > 0; byStream, _ = rowsOf(f) {
			time.Sleep(time.Second)
			if time.Since(began) > 10*time.Minute {
				t.Fatal("leases of a former stream are not deleted")
			}
		}
		if took := time.Since(began); took < 5*time.Minute || took > 8*time.Minute+30*time.Second {
			t.Errorf("leases of a former stream were deleted after %v, want its Wait of 5m and a little", took)
		}
		time.Sleep(5 * time.Minute)
		f.Server.ResetCounts()
		calls := watchStream(f, "b")
		put("a", "c")
		f.WaitDelivered(30 * time.Second)
		time.Sleep(5 * time.Minute)
		if n := calls(); n != 0 {
			t.Errorf("%d requests named a former stream whose leases are gone", n)
		}
		f.Check()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"added a", "added b", "added c", "removed b"}; !slices.Equal(withoutRepeats(events), want) {
			t.Errorf("events of one worker: %v, want those in %v", events, want)
		}
	})
}

func withoutRepeats(s []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(s)))
}

// watchStream counts requests that name a stream.
func watchStream(f *fleettest.Fleet, stream string) func() int {
	var mu sync.Mutex
	n := 0
	f.Server.Inject(emulator.Rule{Service: emulator.Kinesis, Match: func(body []byte) bool {
		if strings.Contains(string(body), `stream/`+stream+`"`) || strings.Contains(string(body), `"`+stream+`"`) {
			mu.Lock()
			n++
			mu.Unlock()
		}
		return false
	}})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// deleteStream deletes a stream with its consumers.
func deleteStream(f *fleettest.Fleet, name string) {
	f.T.Helper()
	if _, err := f.Kinesis.DeleteStream(f.T.Context(), &kinesis.DeleteStreamInput{StreamName: &name, EnforceConsumerDeletion: aws.Bool(true)}); err != nil {
		f.T.Fatal(err)
	}
}

func TestStreams_goOnWhenOneOfThemIsDeletedAndWhenItIsMadeAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 2, "a", "b")
		streams := func(c *config.Config) {
			unhurried(30*time.Second, named("a", "b")...)(c)
			c.FormerStreams = config.FormerStreamsConfig{Deletion: config.DeleteAfterWait, Wait: 10 * time.Minute}
		}
		workers := []*fleettest.Worker{f.Start("w0", streams), f.Start("w1", streams)}
		f.PutInto("a", 40, 8)
		f.PutInto("b", 40, 8)
		f.WaitDelivered(30 * time.Second)
		time.Sleep(20 * time.Second)

		deleteStream(f, "b")
		time.Sleep(30 * time.Second) // its consumers have noticed
		calls := watchStream(f, "b")
		f.PutInto("a", 40, 8)
		f.WaitDelivered(30 * time.Second)
		time.Sleep(10 * time.Minute)
		if n := calls(); n > 60 { // of two workers and a leader that looks for a new one
			t.Errorf("%d requests in ten minutes named a stream that is gone", n)
		}
		t.Logf("%d requests in ten minutes named a stream that is gone", calls())

		if err := f.Server.CreateStream("b", 3); err != nil {
			t.Fatal(err)
		}
		f.PutInto("b", 40, 8)
		t.Logf("a stream that was made anew is read after %v", f.WaitDelivered(5*time.Minute))
		f.PutInto("a", 40, 8)
		f.WaitDelivered(30 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d records came twice", d)
		}
		time.Sleep(30 * time.Minute)
		if byStream, _ := rowsOf(f); byStream["b"] != 3 || byStream["a"] != 2 {
			t.Errorf("rows by stream %v, want the old ones of b gone", byStream)
		}
		for _, w := range workers {
			if err := w.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// told notes the calls that a processor gets, but for batches after the first. It checkpoints where Base does.
type told struct {
	processor.Base
	note func(call string)
}

func (p *told) Initialize(ctx context.Context, in processor.InitializationInput) error {
	p.note("Initialize")
	return p.Base.Initialize(ctx, in)
}

func (p *told) ProcessRecords(context.Context, processor.ProcessRecordsInput) error {
	p.note("ProcessRecords")
	return nil
}

func (p *told) LeaseLost(ctx context.Context, in processor.LeaseLostInput) {
	p.note("LeaseLost")
	p.Base.LeaseLost(ctx, in)
}

func (p *told) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	p.note("ShardEnded")
	return p.Base.ShardEnded(ctx, in)
}

func (p *told) ShutdownRequested(ctx context.Context, in processor.ShutdownRequestedInput) error {
	p.note("ShutdownRequested")
	return p.Base.ShutdownRequested(ctx, in)
}

// The lease is kept, so that what was handled can be checkpointed still, and nobody hears that it is lost.
func TestRun_processorsOfADeletedStreamAreAskedToCheckpointAndHearNoMore(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Config){
		"one stream":      func(*config.Config) {},
		"one by fan-out":  func(c *config.Config) { c.Retrieval.Mode = config.FanOut },
		"several streams": several(named("orders", "b")...),
		"several by fan-out": func(c *config.Config) {
			several(named("orders", "b")...)(c)
			c.Retrieval.Mode = config.FanOut
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleetOf(t, 2, "orders", "b")
				var mu sync.Mutex
				calls := map[string][]string{} // by stream and shard
				w := f.StartWith("w", func(s processor.Shard) processor.RecordProcessor {
					return &told{note: func(call string) {
						mu.Lock()
						defer mu.Unlock()
						key := s.Stream + "/" + s.ID
						if c := calls[key]; call != "ProcessRecords" || c[len(c)-1] != call {
							calls[key] = append(c, call)
						}
					}}
				}, change)
				f.Put(20, 10)
				time.Sleep(20 * time.Second)
				deleteStream(f, "orders")
				time.Sleep(20 * time.Minute)
				told := []string{"Initialize", "ProcessRecords", "ShutdownRequested"}
				want := map[string][]string{"orders/shardId-000000000000": told, "orders/shardId-000000000001": told}
				only := !strings.HasPrefix(name, "several")
				if !only {
					want["b/shardId-000000000000"], want["b/shardId-000000000001"] = []string{"Initialize"}, []string{"Initialize"}
				}
				mu.Lock()
				if diff := cmp.Diff(want, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				mu.Unlock()
				for key, row := range f.Rows() {
					if at := row["checkpoint"].(*types.AttributeValueMemberS).Value; strings.Contains(key, "b:") == (at != "TRIM_HORIZON") {
						t.Errorf("the checkpoint of %s is %s", key, at)
					}
				}
				if only {
					if err := w.Wait(); !errors.Is(err, shardsync.ErrStreamNotFound) {
						t.Errorf("Run ended with %v, want that there is no such stream", err)
					}
					return
				}
				if err := w.Stop(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for shard := range want {
					if strings.HasPrefix(shard, "b/") {
						want[shard] = append(want[shard], "ShutdownRequested")
					}
				}
				if diff := cmp.Diff(want, calls); diff != "" {
					t.Errorf("calls after the stop (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// One stream may not be listed, one is throttled all the time, one does not exist: the others are read as if they were alone.
func TestStreams_areNotHeldUpByOneThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleetOf(t, 2, "good", "fine", "denied", "throttled")
		about := func(name string, effect emulator.Effect) {
			f.Server.Inject(emulator.Rule{Service: emulator.Kinesis, Effect: effect, Match: func(body []byte) bool {
				return strings.Contains(string(body), `stream/`+name+`"`) || strings.Contains(string(body), `"StreamName":"`+name+`"`)
			}})
		}
		for _, s := range []string{"good", "fine"} {
			f.PutInto(s, 100, 10)
		}
		about("denied", emulator.Fail(400, "AccessDeniedException", "not authorized"))
		about("throttled", emulator.Fail(400, "LimitExceededException", "rate exceeded"))
		var mu sync.Mutex
		told := map[string]bool{}
		worker := f.Start("w0", func(c *config.Config) {
			several(named("throttled", "denied", "missing", "good", "fine")...)(c)
			c.Hooks = &config.Hooks{Retried: func(e config.RetryEvent) {
				mu.Lock()
				defer mu.Unlock()
				for _, s := range []string{"throttled", "denied", "missing"} {
					told[s] = told[s] || strings.Contains(e.Err.Error()+e.What, `"`+s+`"`)
				}
			}}
		})
		if took := f.WaitDelivered(20 * time.Second); took > 6*time.Second {
			t.Errorf("the streams that can be read were read after %v", took)
		}
		time.Sleep(3 * time.Minute)
		f.PutInto("good", 10, 5)
		f.WaitDelivered(2 * time.Second)
		f.Check()
		mu.Lock()
		for _, s := range []string{"throttled", "denied", "missing"} {
			if !told[s] {
				t.Errorf("nobody was told of stream %s", s)
			}
		}
		mu.Unlock()
		if err := worker.Stop(); err != nil {
			t.Error(err)
		}
	})
}
