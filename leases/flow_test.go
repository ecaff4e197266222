package leases

import (
	"math"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
)

func TestFlow_isTheSmoothedRateOfAboutAnInterval(t *testing.T) {
	t.Parallel()
	type step struct {
		after time.Duration
		bytes int64
		want  float64 // negative: nothing to write
	}
	for name, c := range map[string]struct {
		row   Lease
		steps []step
	}{
		"nothing before the first byte":   {Lease{}, []step{{4 * second, 0, -1}, {4 * second, 0, -1}, {4 * second, 8 << 10, 2. / 3}}},
		"the first figure is not halved":  {Lease{}, []step{{4 * second, 8 << 10, 2}, {4 * second, 16 << 10, 3}, {4 * second, 0, 1.5}}},
		"writes in between make none":     {Lease{}, []step{{second, 1 << 10, -1}, {second, 1 << 10, -1}, {2 * second, 2 << 10, 1}}},
		"goes on from the owner before":   {Lease{HasThroughput: true, ThroughputKBps: 8}, []step{{4 * second, 16 << 10, 6}, {4 * second, 0, 3}}},
		"a row that brings nothing fades": {Lease{HasThroughput: true, ThroughputKBps: 8}, []step{{4 * second, 0, 4}, {4 * second, 0, 2}, {4 * second, 0, 1}}},
	} {
		at := t0
		f := flowOf(c.row, at)
		for i, s := range c.steps {
			at = at.Add(s.after)
			f.bytes += s.bytes
			next, ok := f.next(at, 4*second)
			if ok != (s.want >= 0) || ok && math.Abs(next.kBps-s.want) > 1e-9 {
				t.Errorf("%s, step %d: %v, %v, want %v", name, i, next.kBps, ok, s.want)
			}
			f = next
		}
	}
}

// 100 KB a second, told each 200 ms, under every kind of write that keeps the lease.
func TestHeld_writesItsThroughputWithRenewalsAndCheckpoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interval time.Duration
		each     int // a checkpoint each so many batches; 0: none
	}{
		"renewals":                       {},
		"checkpoints":                    {each: 1},
		"checkpoints, less often":        {each: 10},
		"renewals that carry checkpoint": {each: 1, interval: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(b *bubble) {
				b.cfg.CheckpointInterval = c.interval
				h := b.worker("a", "a").renewing().take(0)
				b.pass(10 * time.Second)
				if b.row(0).HasThroughput {
					t.Error("a row whose shard has brought nothing has a figure")
				}
				for n := 1; n <= 200; n++ {
					h.Processed(20 << 10)
					switch {
					case c.each == 0 || n%c.each != 0:
					case c.interval > 0:
						(&endings{}).deferTo(t, h, n)
					default:
						if err := h.WriteCheckpoint(b.ctx, place(n)); err != nil {
							t.Fatal(err)
						}
					}
					b.pass(200 * time.Millisecond)
				}
				if got := b.row(0).ThroughputKBps; got < 95 || got > 105 {
					t.Errorf("throughputKBps is %v, want about 100", got)
				}
				if at := b.row(0).Checkpoint; c.each > 0 && at == checkpoint.TrimHorizon {
					t.Error("no checkpoint was written")
				}
				b.pass(2 * time.Minute)
				if got := b.row(0).ThroughputKBps; got > 1e-3 {
					t.Errorf("throughputKBps is %v two minutes after the last record, want about 0", got)
				}
			})
		})
	}
}
