//go:build unix

package javakcl

import (
	"slices"
	"testing"
	"time"
)

// TestMixedFleet_ofTwoJavaAndTwoGoWorkers: they share the leases and leave it at that, read on through reshards whoever owns the
// parents, and take over from each other's dead.
func TestMixedFleet_ofTwoJavaAndTwoGoWorkers(t *testing.T) {
	t.Parallel()
	for _, g := range []generation{kcl2, kcl3as2, kcl3phase1} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, g, 8)
			end := f.produce()
			java1, go1 := f.startJavas("java-1", "java-2")[0], f.startGo("go-1")
			f.startGo("go-2")
			f.settles(*settled, 4*time.Minute+*settled)
			f.rests(*watch)
			f.reshardsBoth()
			f.kill(java1)
			f.read("the dead Java worker's leases taken", 8**failover)
			f.kill(go1)
			f.read("the dead Go worker's leases taken", 8**failover)
			f.reshardsBoth()
			end()
			f.delivered(time.Minute)
			f.finish()
		})
	}
}

// rests fails the test if a lease moves within d. A process that gets no time on a busy machine loses what it holds, rightly: if each lease that
// moved had expired, the fleet may settle again and is watched once more, twice at most.
func (f *fleet) rests(d time.Duration) {
	f.t.Helper()
	for try := 1; ; try++ {
		began := time.Now()
		f.during(d)
		moves := f.history.movesSince(began)
		f.say("%d moves within %v", len(moves), d)
		kept := slices.ContainsFunc(moves, func(m move) bool { return m.from != "" && m.idle < *failover })
		for _, m := range moves {
			if kept || try == 3 {
				f.t.Errorf("moved in a balanced fleet: %s", m)
			} else {
				f.t.Logf("          expired: %s", m)
			}
		}
		if len(moves) == 0 || kept || try == 3 {
			return
		}
		f.settles(*settled, 4*time.Minute+*settled)
	}
}
