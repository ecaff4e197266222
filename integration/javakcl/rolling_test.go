//go:build unix

package javakcl

import (
	"fmt"
	"testing"
	"time"
)

// TestRollingReplacement_ofJavaByGoAndBack replaces the workers of a fleet one by one under load, as docs/migrating-from-kcl.md
// says: the new one is started and reads something before the old one is stopped.
func TestRollingReplacement_ofJavaByGoAndBack(t *testing.T) {
	t.Parallel()
	for _, g := range []generation{kcl2, kcl3as2, kcl3phase1} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, g, 6)
			end := f.produce()
			javas := f.startJavas("java-1", "java-2")
			f.bothRead(true)
			var gos []*worker
			for i, old := range javas {
				gos = append(gos, f.startGo(fmt.Sprintf("go-%d", i+1)))
				f.replaces(gos[i], old)
			}
			f.reshards()
			for i, old := range gos {
				f.replaces(f.startJava(fmt.Sprintf("java-%d", i+3)), old)
			}
			f.reshards()
			end()
			f.delivered(time.Minute)
			f.finish()
		})
	}
}

// replaces waits until the new worker reads something, stops the old one, and waits until all is read again.
func (f *fleet) replaces(fresh, old *worker) {
	f.t.Helper()
	f.until(fresh.id+" reads something", 3*time.Minute, func() bool { return f.history.shares()[fresh.id] > 0 })
	f.stop(old)
	f.read(fmt.Sprintf("everything of %s read by others", old.id), 8**failover)
}
