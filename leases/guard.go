package leases

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// strategyTime is how long a strategy may take to answer. It is asked on the goroutine that takes leases.
const strategyTime = 5 * time.Second

// guarded is a strategy of the user's that can do no harm: it gets lists of its own, and if it panics, does not return in time, or its
// answer is none, the fleet is shared as by [Sticky], which leaves everybody what it holds and nothing unread. Which that is does
// not matter to the other workers: if their strategies answer, they ask for what they should have.
//
// It is asked on a goroutine of its own, since it may end that (runtime.Goexit) or never come back. Then that goroutine is left
// behind, and nothing is asked again before it ends.
type guarded struct {
	by     AssignmentStrategy
	worker string
	hooks  *config.Hooks
	log    *slog.Logger

	ctx  context.Context //nolint:containedctx // of LeaseTaker.Run; a strategy is asked without one
	late chan struct{}   // closed when a call that took too long has ended; nil if there is none
}

// Assign implements [AssignmentStrategy].
func (g *guarded) Assign(f Fleet) []int {
	answer, ok := g.ask(Fleet{Workers: slices.Clone(f.Workers), Leases: slices.Clone(f.Leases)})
	if ok {
		if why := notAnAnswer(answer, f); why != "" {
			g.complain("why", why)
			ok = false
		}
	}
	if !ok {
		return Sticky{}.Assign(f)
	}
	return answer
}

func (g *guarded) complain(args ...any) {
	g.log.Error("the assignment strategy's answer cannot be used; leases stay where they are", append([]any{"worker", g.worker}, args...)...)
}

// answer is what became of one call.
type answer struct {
	workers []int
	ended   bool // by returning or a panic
	ok      bool
}

func (g *guarded) ask(f Fleet) ([]int, bool) {
	if g.late != nil {
		select {
		case <-g.late:
			g.late = nil
		default:
			return nil, false
		}
	}
	var a answer // of the goroutine until done is closed
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				a.ended = true
				if g.hooks.Panicked != nil {
					g.hooks.Panicked(config.PanicEvent{Worker: g.worker, What: "AssignmentStrategy.Assign", Value: v, Stack: debug.Stack()})
				}
			}
		}()
		a.workers = g.by.Assign(f)
		a.ended, a.ok = true, true
	}()
	timer := loop.ClockOf(g.ctx).NewTimer(strategyTime)
	defer timer.Stop()
	select {
	case <-done:
		if !a.ended {
			g.complain("why", "it ended its goroutine instead of returning")
		}
		return a.workers, a.ok
	case <-timer.C:
		g.complain("why", fmt.Sprintf("it has not answered for %v", strategyTime))
	case <-g.ctx.Done():
	}
	g.late = done
	return nil, false
}

// notAnAnswer says what is wrong with a strategy's answer, "" if nothing is.
func notAnAnswer(answer []int, f Fleet) string {
	if len(answer) != len(f.Leases) {
		return fmt.Sprintf("it has %d entries, want one for each of %d leases", len(answer), len(f.Leases))
	}
	for i, w := range answer {
		if w >= len(f.Workers) {
			return fmt.Sprintf("lease %s is to go to worker %d of %d, want less", f.Leases[i].Lease.Key, w, len(f.Workers))
		}
	}
	return ""
}
