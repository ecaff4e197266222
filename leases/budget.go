package leases

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// oldest: of so many requests one is whichever has waited longest.
const oldest = 16

// budget decides which of a worker's requests to the table goes next when the table is asked too much, so that throttling does not
// cost leases: those that keep leases first, of these the lease first that ends first; then the others by rank. A lease that is
// about to end does not wait at all. One of sixteen is whichever waited longest, so that nobody waits for ever.
//
// Nobody waits with the mutex held, and there is no goroutine that hands out turns: whoever is next has a timer. A nil
// budget lets everything through.
type budget struct {
	urgent time.Duration // how long before a lease ends its requests do not wait any more

	mu     sync.Mutex
	tempo  tempo
	queue  []*waiter // in the order of their coming
	grants int       // requests sent
}

// waiter is a request that waits.
type waiter struct {
	rank rank
	by   time.Time     // when the lease ends that it is to keep; zero: none
	poke chan struct{} // it may be next now
}

// before reports whether a goes before b, which has waited longer.
func (a *waiter) before(b *waiter) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return !a.by.IsZero() && (b.by.IsZero() || a.by.Before(b.by))
}

// next is whose turn it is. The caller holds mu.
func (b *budget) next() *waiter {
	var first *waiter
	if b.grants%oldest == oldest-1 {
		return b.queue[0]
	}
	for _, w := range b.queue {
		if first == nil || w.before(first) {
			first = w
		}
	}
	return first
}

// admit waits until a request may be sent, or ctx is done.
func (b *budget) admit(ctx context.Context, k rank) error {
	if b == nil || k == rankOther {
		return nil
	}
	clock := loop.ClockOf(ctx)
	need := needOf(ctx)
	k = max(k, need.least)
	w := &waiter{rank: k, poke: make(chan struct{}, 1)}
	if k == rankKeep {
		w.by = need.by
	}
	wait, ok := b.try(clock.Now(), w, true)
	if ok {
		return nil
	}
	timer := clock.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			b.leave(w)
			return context.Cause(ctx)
		case <-w.poke:
		case <-timer.C:
		}
		if wait, ok = b.try(clock.Now(), w, false); ok {
			return nil
		}
		timer.Reset(wait)
	}
}

// try sends w's request if it may go. Otherwise w is in the queue, and asks again after wait or when it is poked.
func (b *budget) try(now time.Time, w *waiter, arrives bool) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if arrives {
		b.queue = append(b.queue, w)
	}
	wait = idle
	if !w.by.IsZero() {
		wait = w.by.Add(-b.urgent).Sub(now)
	}
	if hurry := wait <= 0; !hurry {
		if b.next() != w {
			return wait, false
		}
		if turn := b.tempo.wait(now, w.rank); turn > 0 {
			// Answers that come meanwhile may shorten it.
			return min(wait, turn, 50*time.Millisecond), false
		}
	}
	b.tempo.spend(now, w.rank)
	b.grants++
	b.remove(w)
	return 0, true
}

// leave gives the place of a request up.
func (b *budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(w)
}

// remove takes w out of the queue and wakes whose turn it is now. The caller holds mu.
func (b *budget) remove(w *waiter) {
	if i := slices.Index(b.queue, w); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	if len(b.queue) > 0 {
		select {
		case b.next().poke <- struct{}{}:
		default:
		}
	}
}

// judge takes in how the table answered a request.
func (b *budget) judge(now time.Time, k rank, v verdict) {
	if b == nil || k == rankOther {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tempo.judge(now, v)
}

// need is what the budget is told of a request through its context.
type need struct {
	least rank      // it has this rank, if it would have a higher one
	by    time.Time // when the lease ends that it is to keep
}

type needKey struct{}

func needOf(ctx context.Context) need {
	n, _ := ctx.Value(needKey{}).(need)
	return n
}

// InBackground returns a context for requests to a [Table] that can wait: when the table throttles, they come after everything
// that keeps and moves leases.
func InBackground(ctx context.Context) context.Context {
	n := needOf(ctx)
	n.least = rankTidy
	return context.WithValue(ctx, needKey{}, n)
}

// keeping returns a context for a write of h, which ends at by. It has the clock that the lease's time is measured with: the
// context that a user brings may have another.
func keeping(ctx context.Context, h *Held, by time.Time) context.Context {
	return context.WithValue(loop.WithClock(ctx, h.clock), needKey{}, need{by: by})
}
