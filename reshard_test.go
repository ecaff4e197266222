package shardlease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/internal/fleettest"
)

func TestFleet_removesTheRowsOfFinishedShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 4)
		f.Start("a")
		f.Start("b")
		time.Sleep(5 * time.Second)
		for range 3 {
			f.Put(200, 20)
			f.Split(f.Open()[0])
			f.Put(200, 20)
			f.WaitDelivered(20 * time.Second)
		}
		time.Sleep(4 * time.Minute)
		f.Put(200, 20)
		f.WaitDelivered(20 * time.Second)
		if rows, open := len(f.Rows()), len(f.Open()); rows != open {
			t.Errorf("%d rows are left for %d open shards", rows, open)
		}
		f.Check()
	})
}
