package shardlease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
)

// A short start with the name of another, smaller stream must not finish leases of shards that the other one never had.
func TestRun_harmsNothingWhenStartedOnAnotherStream(t *testing.T) {
	t.Parallel()
	for name, olderFirst := range map[string]bool{"an older stream": true, "a newer stream": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.NewWith(t, func(create func(string, int)) {
					if olderFirst {
						create("small", 1)
						time.Sleep(time.Second)
					}
					create(fleettest.Stream, 4)
					if !olderFirst {
						time.Sleep(time.Second)
						create("small", 1)
					}
				})
				f.Put(200, 20)
				first := f.Start("first")
				f.WaitDelivered(10 * time.Second)
				if err := first.Stop(); err != nil {
					t.Fatal(err)
				}
				wrong := f.Start("wrong", func(c *config.Config) { c.StreamName = "small" })
				time.Sleep(20 * time.Second)
				err := wrong.Stop()
				if err == nil {
					t.Error("Run on another stream returned nil, want an error that says so")
				}
				f.Put(400, 20)
				f.Start("second")
				f.WaitDelivered(30 * time.Second)
				f.Check()
				t.Logf("Run on another stream: %v", err)
			})
		})
	}
}
