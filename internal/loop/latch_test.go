package loop_test

import (
	"testing"
	"testing/synctest"

	"github.com/shardlease/shardlease/internal/loop"
)

func TestLatch_isClosedForWhoeverWaitsBeforeOrAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l loop.Latch
		if l.Closed() {
			t.Error("a new one is closed")
		}
		for range 3 {
			go func() { <-l.Done() }()
		}
		synctest.Wait()
		l.Close()
		l.Close()
		synctest.Wait()
		<-l.Done()
		if !l.Closed() {
			t.Error("it is open")
		}
		var quiet loop.Latch // nobody waits
		quiet.Close()
		<-quiet.Done()
	})
}
