package leases

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/shardlease/shardlease/config"
)

type strategyFunc func(Fleet) []int

func (s strategyFunc) Assign(f Fleet) []int { return s(f) }

func TestTaker_survivesAStrategyThatFails(t *testing.T) {
	t.Parallel()
	var stuck chan struct{} // of the bubble that needs it
	for name, assign := range map[string]strategyFunc{
		"panics":        func(Fleet) []int { panic("no idea") },
		"says nothing":  func(Fleet) []int { return nil },
		"says too much": func(f Fleet) []int { return make([]int, len(f.Leases)+1) },
		"names a worker that is not there": func(f Fleet) []int {
			answer := make([]int, len(f.Leases))
			for i := range answer {
				answer[i] = len(f.Workers)
			}
			return answer
		},
		"leaves all to nobody": func(f Fleet) []int {
			answer := make([]int, len(f.Leases))
			for i := range answer {
				answer[i] = -i - 1
			}
			return answer
		},
		"ends its goroutine": func(Fleet) []int { runtime.Goexit(); return nil },
		"does not return": func(Fleet) []int {
			<-stuck
			return nil
		},
		"writes into what it is given": func(f Fleet) []int {
			for i := range f.Leases {
				f.Leases[i] = FleetLease{Holder: 77, Lease: Lease{Key: "x", Owner: "y"}}
			}
			for i := range f.Workers {
				f.Workers[i] = FleetWorker{ID: "z"}
			}
			return make([]int, len(f.Leases))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 6, func(b *bubble) {
				var panics atomic.Int64
				if name == "does not return" {
					stuck = make(chan struct{})
					defer close(stuck)
				}
				var workers []*testWorker
				for _, id := range []string{"a", "b"} {
					w := b.worker(id, id)
					w.taker = NewTaker(w.table, w.renewer, b.cfg, TakerOptions{
						Worker: id, Strategy: assign, Acquired: func(*Held) {},
						Hooks: &config.Hooks{Panicked: func(config.PanicEvent) { panics.Add(1) }},
					})
					workers = append(workers, w.start())
				}
				b.within(b.cfg.FailoverTime*3/2, "everything is held", func() bool {
					n := b.owners()
					return n["a"]+n["b"] == 6
				})
				for _, w := range workers {
					began := b.since()
					w.stop()
					if took := b.since() - began; took > second {
						t.Errorf("a stop took %v", took)
					}
				}
				if told := panics.Load() > 0; told != (name == "panics") {
					t.Errorf("%d panics were told", panics.Load())
				}
			})
		})
	}
}
