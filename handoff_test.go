package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// gapless fails unless every move of a lease was as good as seamless.
func gapless(t *testing.T, f *fleettest.Fleet, moves []fleettest.Move) {
	t.Helper()
	gaps, text := fleettest.Gaps(moves)
	t.Log(text)
	if len(gaps) == 0 {
		t.Fatal("no lease moved")
	}
	if p99 := gaps[(len(gaps)-1)*99/100]; p99 > 200*time.Millisecond {
		t.Errorf("p99 of the gaps is %v, want at most 200ms; all: %v", p99, gaps)
	}
	if d := f.Check(); d != 0 {
		t.Errorf("%d duplicates, want 0", d)
	}
	if n := f.Audit.Overlaps(); n != 0 {
		t.Errorf("%d batches were given to a worker after its successor had begun, want 0", n)
	}
}

func TestHandoff_aRollingRestartLeavesNoGapAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	shards := fleettest.Shorter(16, 8)
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, shards)
		var old []*fleettest.Worker
		for i := range 4 {
			old = append(old, f.Start(fmt.Sprint("old-", i)))
		}
		time.Sleep(time.Minute)
		before := len(f.Audit.Moves())
		stop := f.Load(20 * time.Millisecond)
		time.Sleep(time.Second)
		var fresh []*fleettest.Worker
		for i, w := range old {
			fresh = append(fresh, f.Start(fmt.Sprint("new-", i)))
			time.Sleep(10 * time.Second)
			began := time.Now()
			if err := w.Stop(); err != nil {
				t.Errorf("stop worker %s: %v", w.ID, err)
			}
			t.Logf("%s stopped in %v", w.ID, time.Since(began).Round(10*time.Millisecond))
		}
		time.Sleep(5 * time.Second)
		stop()
		f.WaitDelivered(5 * time.Second)
		gapless(t, f, f.Audit.Moves()[before:])
		var counts []int
		for _, w := range fresh {
			counts = append(counts, len(w.Assignments()))
		}
		if slices.Sort(counts); counts[3]-counts[0] > 1 {
			t.Errorf("after the restart the workers hold %v leases", counts)
		}
	})
}

func TestHandoff_aWorkerThatJoinsGetsItsShareWithoutAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 12)
		for i := range 3 {
			f.Start(fmt.Sprint("w", i))
		}
		time.Sleep(time.Minute)
		before := len(f.Audit.Moves())
		stop := f.Load(20 * time.Millisecond)
		time.Sleep(time.Second)
		fourth := f.Start("w3")
		time.Sleep(15 * time.Second)
		stop()
		f.WaitDelivered(5 * time.Second)
		if n := len(fourth.Assignments()); n != 3 {
			t.Errorf("the fourth worker holds %d leases of 12 15s after its start, want 3", n)
		}
		moves := f.Audit.Moves()[before:]
		if gapless(t, f, moves); len(moves) != 3 {
			t.Errorf("%d moves, want 3", len(moves))
		}
	})
}

func TestHandoff_losesNothingOverATableThatLosesReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, fleettest.Shorter(8, 4))
		f.Server.Inject(emulator.Rule{Service: "dynamodb", Probability: 0.05, Seed: 7, Effect: emulator.DropReply()})
		workers := []*fleettest.Worker{f.Start("a1"), f.Start("b1"), f.Start("c1")}
		stop := f.Load(100 * time.Millisecond)
		time.Sleep(30 * time.Second)
		for i, w := range workers {
			f.Start(fmt.Sprintf("%c2", 'a'+i))
			time.Sleep(10 * time.Second)
			if err := w.Stop(); err != nil {
				t.Errorf("stop worker %s: %v", w.ID, err)
			}
		}
		stop()
		f.WaitDelivered(10 * time.Second)
		_, text := fleettest.Gaps(f.Audit.Moves())
		t.Log(text)
		if d, n := f.Check(), f.Audit.Overlaps(); d != 0 || n != 0 {
			t.Errorf("%d duplicates and %d overlaps, want none", d, n)
		}
	})
}

func TestHandoff_cancelsAProcessorThatDoesNotFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		short := func(c *config.Config) { c.LeaseManagement.GracefulHandoffTimeout = 10 * time.Second }
		var mu sync.Mutex
		var cause error
		old := f.StartWith("old", func(processor.Shard) processor.RecordProcessor {
			return each(func(ctx context.Context, in processor.ProcessRecordsInput) error {
				f.Audit.Deliver("old", in)
				if err := in.Checkpointer.Checkpoint(ctx); err != nil {
					return err
				}
				<-ctx.Done() // longer than any hand-off may take
				mu.Lock()
				defer mu.Unlock()
				cause = context.Cause(ctx)
				return cause
			})
		}, short)
		f.Put(100, 20)
		time.Sleep(20 * time.Second)
		f.Start("new", short)
		time.Sleep(3 * time.Second)
		f.Put(100, 20)
		time.Sleep(15 * time.Second)
		if n := len(old.Assignments()); n != 1 {
			t.Errorf("the old worker holds %d leases, want 1", n)
		}
		mu.Lock()
		if cause == nil || errors.Is(cause, leases.ErrLeaseLost) || !strings.Contains(cause.Error(), "GracefulHandoffTimeout of 10s") {
			t.Errorf("the processor's context ended with %v, want the end of GracefulHandoffTimeout, before the lease was lost", cause)
		}
		mu.Unlock()
		old.Kill()
		f.WaitDelivered(30 * time.Second)
		f.Check()
		if n := f.Audit.Overlaps(); n != 0 {
			t.Errorf("%d overlaps, want none", n)
		}
	})
}

// each is a processor that only processes.
type each func(context.Context, processor.ProcessRecordsInput) error

func (e each) Initialize(context.Context, processor.InitializationInput) error { return nil }
func (e each) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	return e(ctx, in)
}
func (e each) LeaseLost(context.Context, processor.LeaseLostInput) {}
func (e each) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	return in.Checkpointer.Checkpoint(ctx)
}

func (e each) ShutdownRequested(ctx context.Context, in processor.ShutdownRequestedInput) error {
	return in.Checkpointer.Checkpoint(ctx)
}

func TestHandoff_survivesTheDeathOfEitherSide(t *testing.T) {
	t.Parallel()
	for _, dies := range []string{"owner", "asker"} {
		t.Run(dies, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 4)
				workers := map[string]*fleettest.Worker{"owner": f.Start("owner")}
				stop := f.Load(100 * time.Millisecond)
				time.Sleep(20 * time.Second)
				workers["asker"] = f.Start("asker")
				for !slices.ContainsFunc(slices.Collect(maps.Values(f.Rows())), func(row map[string]types.AttributeValue) bool {
					return row["checkpointOwner"] != nil
				}) {
					time.Sleep(20 * time.Millisecond)
				}
				workers[dies].Kill()
				time.Sleep(20 * time.Second)
				stop()
				f.WaitDelivered(5 * time.Second)
				f.Check()
				_, text := fleettest.Gaps(f.Audit.Moves())
				t.Log(text)
			})
		})
	}
}

func TestStop_waitsForWhatTheWorkerHasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Start("owner")
		stop := f.Load(100 * time.Millisecond)
		time.Sleep(20 * time.Second)
		asker := f.Start("asker")
		time.Sleep(200 * time.Millisecond) // it has asked for one, and holds nothing
		if n := len(asker.Assignments()); n != 0 {
			t.Fatalf("the worker holds %d leases at once, want it to have asked for one", n)
		}
		began := time.Now()
		if err := asker.Stop(); err != nil {
			t.Error(err)
		}
		took := time.Since(began)
		for key, row := range f.Rows() {
			if row["handoffTo"] != nil || row["checkpointOwner"] != nil {
				t.Errorf("row %s is still to be handed over to a worker that is gone", key)
			}
		}
		time.Sleep(10 * time.Second)
		stop()
		f.WaitDelivered(5 * time.Second)
		if d := f.Check(); d != 0 {
			t.Errorf("%d duplicates, want 0", d)
		}
		t.Logf("stopped in %v", took)
	})
}

func TestStop_releasesAtOnceWithoutAPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		w := f.Start("lone")
		f.Put(100, 20)
		time.Sleep(10 * time.Second)
		began := time.Now()
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a worker without peers stopped in %v, want at once", took)
		}
		for key, row := range f.Rows() {
			if row["leaseOwner"] != nil {
				t.Errorf("row %s is still owned", key)
			}
		}
	})
}

func TestStop_ofAllWorkersWaitsForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 6)
		workers := []*fleettest.Worker{f.Start("a"), f.Start("b"), f.Start("c")}
		time.Sleep(30 * time.Second)
		began := time.Now()
		var group sync.WaitGroup
		for _, w := range workers {
			group.Go(func() {
				if err := w.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		took := time.Since(began)
		if took > 10*time.Second {
			t.Errorf("three workers stopped in %v, want less than 10s: nobody is left to ask", took)
		}
		for key, row := range f.Rows() {
			if row["leaseOwner"] != nil {
				t.Errorf("row %s is still owned", key)
			}
		}
		t.Logf("stopped in %v", took)
	})
}

// A peer is there, and may hold no more than it does.
func TestStop_releasesWhatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		limit := func(c *config.Config) { c.LeaseManagement.MaxLeasesForWorker = 2 }
		a, b := f.Start("a", limit), f.Start("b", limit)
		time.Sleep(30 * time.Second)
		began := time.Now()
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("stopped in %v, want 2.4 failover times, 24s", took)
		}
		f.Start("c", limit)
		time.Sleep(10 * time.Second)
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := errors.Join(b.Shutdown(ctx), b.Wait()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("stopped in %v with a deadline of 5s", took)
		}
	})
}

func TestHandoff_ofAShardThatWaitsForItsParentsCallsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		release := make(chan struct{})
		var mu sync.Mutex
		calls := map[string][]string{}
		factory := func(worker string) processor.Factory {
			return func(s processor.Shard) processor.RecordProcessor {
				mu.Lock()
				defer mu.Unlock()
				calls[worker] = append(calls[worker], s.ID)
				return &patient{RecordProcessor: f.Audit.Processor(worker)(s), release: release}
			}
		}
		old := f.StartWith("old", factory("old"))
		f.Put(100, 20)
		time.Sleep(5 * time.Second)
		for _, s := range f.Open() {
			f.Split(s)
		}
		f.Put(100, 20)
		time.Sleep(20 * time.Second) // four children wait for parents whose ShardEnded does not return
		if n := len(old.Assignments()); n != 6 {
			t.Fatalf("the old worker holds %d leases, want 6", n)
		}
		fresh := f.StartWith("new", factory("new"))
		time.Sleep(20 * time.Second)
		if n := len(fresh.Assignments()); n != 2 && n != 3 { // a parent's moves when its ShardEnded has returned
			t.Errorf("the new worker holds %d leases, want 2 or 3", n)
		}
		mu.Lock()
		if len(calls["old"]) != 2 || len(calls["new"]) > 2 {
			t.Errorf("processors were made for %v, want none for a child whose parent has not ended", calls)
		}
		mu.Unlock()
		close(release)
		f.WaitDelivered(20 * time.Second)
		f.Check()
	})
}

// patient does not end its shard before release is closed.
type patient struct {
	processor.RecordProcessor
	release chan struct{}
}

func (p *patient) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	select {
	case <-p.release:
		return p.RecordProcessor.ShardEnded(ctx, in)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Owners learn that they are asked at their next renewal, which may come later than the end of a short GracefulHandoffTimeout.
func TestHandoff_takesNothingBeforeTheOwnerCanKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 8)
		short := func(c *config.Config) { c.LeaseManagement.GracefulHandoffTimeout = 100 * time.Millisecond }
		f.Start("a", short)
		stop := f.Load(fleettest.Shorter(20*time.Millisecond, 100*time.Millisecond))
		time.Sleep(20 * time.Second)
		b := f.Start("b", short)
		time.Sleep(30 * time.Second)
		stop()
		f.WaitDelivered(5 * time.Second)
		if n := len(b.Assignments()); n != 4 {
			t.Errorf("the new worker holds %d leases, want 4", n)
		}
		d := f.Check()
		if n := f.Audit.Overlaps(); n != 0 || d != 0 {
			t.Errorf("%d batches were given to a worker after its successor had begun, and %d records came twice, want neither", n, d)
		}
	})
}

// The owner's processor does not return, and the one who asked, and would take the lease by its counter, is gone.
func TestHandoff_isGivenUpWhenNeitherSideEndsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.PutEverywhere()
		release := make(chan struct{})
		defer close(release)
		var cancelled atomic.Int64
		a := f.StartWith("a", func(processor.Shard) processor.RecordProcessor {
			return &stuck{release: release, cancelled: &cancelled}
		})
		<-a.Ready()
		time.Sleep(20 * time.Second)
		b := f.Start("b")
		for asked := false; !asked; time.Sleep(100 * time.Millisecond) {
			for _, row := range f.Rows() {
				asked = asked || row["handoffTo"] != nil
			}
		}
		b.Kill()
		began := time.Now()
		c := f.Start("c")
		limit := 30*time.Second + 2*10*time.Second // GracefulHandoffTimeout, and until the row is stale
		for f.Audit.Distinct() == 0 {
			if time.Since(began) > limit {
				t.Fatalf("after %v nothing was read by others; c holds %v", time.Since(began), c.Assignments())
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("read by others %v after the one who had asked was killed", time.Since(began))
	})
}
