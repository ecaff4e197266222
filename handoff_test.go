package shardlease_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
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
	for _, shards := range []int{8, 40} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
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
		})
	}
}

var _ = config.Default
var _ = emulator.New
