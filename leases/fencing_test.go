package leases

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator"
)

// A fleet whose workers are cut off and come back at random, each tenure writing checkpoints all the time: no checkpoint of an
// older tenure lands after one of a newer, and the positions never go back.
func TestFleet_noCheckpointOfAnOlderTenureLandsAfterANewer(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		var (
			mu       sync.Mutex
			newest   = map[string]int64{} // token of the last checkpoint that landed
			place    atomic.Int64
			writing  sync.WaitGroup
			accepted int
			refused  int
		)
		ctx, done := context.WithCancel(b.ctx)
		checkpoints := func(h *Held) {
			writing.Go(func() {
				ticks := time.NewTicker(300 * time.Millisecond)
				defer ticks.Stop()
				for ended := 0; ended < 3; { // a processor that notices late
					select {
					case <-ctx.Done():
						return
					case <-ticks.C:
					}
					err := h.WriteCheckpoint(ctx, at(int(place.Add(1))))
					mu.Lock()
					switch {
					case err == nil && h.Grant().Token < newest[h.key]:
						t.Errorf("%s: a checkpoint of token %d landed after one of token %d", h.key, h.Grant().Token, newest[h.key])
					case err == nil:
						newest[h.key] = h.Grant().Token
						accepted++
					case h.Context().Err() != nil:
						ended++
						refused++
					}
					mu.Unlock()
				}
			})
		}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w := b.worker(name, name)
			acquired := w.taker.opts.Acquired
			w.taker.opts.Acquired = func(h *Held) { acquired(h); checkpoints(h) }
			w.start()
		}
		b.server.Inject(emulator.Rule{Probability: 0.03, Seed: 5, Effect: emulator.Fail(500, "InternalServerError", "x")})
		random := rand.New(rand.NewPCG(11, 12))
		for range 12 {
			b.pass(time.Duration(random.IntN(10000)) * time.Millisecond)
			thaw := b.server.Inject(emulator.Rule{Client: names[random.IntN(3)], Effect: emulator.Freeze()})
			b.pass(time.Duration(random.IntN(25000)) * time.Millisecond)
			thaw()
		}
		b.within(3*b.cfg.FailoverTime, "everything is owned again", func() bool { n := b.owners(); return n["a"]+n["b"]+n["c"] == 4 })
		done()
		writing.Wait()
		if accepted < 500 || refused == 0 {
			t.Errorf("%d checkpoints landed and %d were refused: the test tried nothing", accepted, refused)
		}
		for i := range 4 {
			if row := b.row(i); row.Counter < newest[row.Key] {
				t.Errorf("%s: counter %d, token %d", row.Key, row.Counter, newest[row.Key])
			}
		}
	})
}
