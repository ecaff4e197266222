package leases

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/shardlease/shardlease/config"
)

// guarded is a strategy of the user's that can do no harm: it gets lists of its own, and if it panics or its answer is none, the
// fleet is shared as by [Sticky], which leaves everybody what it holds and nothing unread. Which that is does not matter to
// the other workers: if their strategies answer, they ask for what they should have.
type guarded struct {
	by     AssignmentStrategy
	worker string
	hooks  *config.Hooks
	log    *slog.Logger
}

// Assign implements [AssignmentStrategy].
func (g guarded) Assign(f Fleet) []int {
	answer, ok := g.ask(Fleet{Workers: slices.Clone(f.Workers), Leases: slices.Clone(f.Leases)})
	if ok {
		if why := notAnAnswer(answer, f); why != "" {
			g.log.Error("the assignment strategy's answer cannot be used; leases stay where they are", "worker", g.worker, "why", why)
			ok = false
		}
	}
	if !ok {
		return Sticky{}.Assign(f)
	}
	return answer
}

func (g guarded) ask(f Fleet) (answer []int, ok bool) {
	defer func() {
		if v := recover(); v != nil {
			answer, ok = nil, false
			if g.hooks.Panicked != nil {
				g.hooks.Panicked(config.PanicEvent{Worker: g.worker, What: "AssignmentStrategy.Assign", Value: v, Stack: debug.Stack()})
			}
		}
	}()
	return g.by.Assign(f), true
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
