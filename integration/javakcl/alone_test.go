//go:build unix

package javakcl

import (
	"testing"
	"time"
)

// TestJavaAlone_readsTheEmulatorAsItReadsAWS: workers of the Java KCL, with nothing switched off, share a stream of the emulator
// through a split and a merge, and ask what they were seen to ask of other servers.
func TestJavaAlone_readsTheEmulatorAsItReadsAWS(t *testing.T) {
	t.Parallel()
	for _, g := range []generation{kcl2, kcl3as2, kcl3phase1, kcl3} {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, g, 4)
			end := f.produce()
			f.startJavas("java-1", "java-2")
			f.read("all shards read", 2*time.Minute)
			f.bothRead(g != kcl3) // a leader of 3.x may find that one worker is enough
			f.reshards()
			end()
			f.delivered(time.Minute)
			f.finish()
			f.checkShapes()
		})
	}
}
