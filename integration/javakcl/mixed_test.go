//go:build unix

package javakcl

import (
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

// rests fails the test if any lease moves within d.
func (f *fleet) rests(d time.Duration) {
	f.t.Helper()
	began := time.Now()
	f.during(d)
	moves := f.history.movesSince(began)
	f.say("%d moves within %v", len(moves), d)
	for _, m := range moves {
		f.t.Errorf("moved in a balanced fleet: %s", m)
	}
}
