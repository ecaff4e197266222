package leases

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// Run renews what is held until ctx is done, and ends each lease's context when its time is over, also while a renewal of it
// hangs. When it returns, no goroutine of it is left, and every lease still held is lost to this worker: its context has
// ended, its row expires. The error is nil after ctx is done; otherwise the worker must stop, as after a
// *[DuplicateWorkerError]. Call it once.
func (r *LeaseRenewer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	clock := loop.ClockOf(ctx)
	timer := clock.NewTimer(0)
	var group sync.WaitGroup
	defer func() {
		timer.Stop()
		cancel(context.Canceled)
		group.Wait()
		r.stop()
	}()
	last := stampOf(clock)
	for {
		now := stampOf(clock)
		if gap := last.slept(now); gap > r.margin {
			r.log.WarnContext(ctx, "this machine was suspended, or its clock set forward: renewing all leases", "gap", gap)
			r.renewAllNow(now.mono)
		}
		last = now
		lost, due, next := r.step(now.mono)
		for _, h := range lost {
			r.overdue(h, now)
		}
		for _, h := range due {
			group.Go(func() { r.renewInTurn(ctx, h) })
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.fatal:
			return err
		case <-r.poke:
		case <-timer.C:
		}
	}
}

// stop ends everything that is held.
func (r *LeaseRenewer) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	for _, h := range r.Held() {
		r.drop(h, errRenewerStopped(h.key))
	}
}

func (r *LeaseRenewer) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// idle is how long Run waits when nothing is scheduled. Whatever is scheduled later wakes it.
const idle = time.Hour

// step takes from the schedule what has to be done by now: leases whose time is over, and leases to renew, as many as there are
// goroutines for. Those that wait for one have their end scheduled meanwhile.
func (r *LeaseRenewer) step(now time.Time) (lost, due []*Held, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && !r.queue[0].at.After(now) {
		h := r.queue[0]
		if !now.Before(h.until) {
			lost = append(lost, h)
			r.unschedule(h)
			continue
		}
		h.renewing = true
		r.ready = append(r.ready, h)
		r.reschedule(h)
	}
	for len(r.ready) > 0 && r.running < r.parallel() {
		h := r.ready[0]
		r.ready = r.ready[1:]
		if !h.gone {
			r.running++
			due = append(due, h)
		}
	}
	next = idle
	if len(r.queue) > 0 {
		next = r.queue[0].at.Sub(now)
	}
	return lost, due, next
}

// reschedule puts h where it belongs in the queue. The caller holds mu.
func (r *LeaseRenewer) reschedule(h *Held) {
	if h.gone {
		return
	}
	h.at = h.until
	if !h.renewing && h.due.Before(h.until) {
		h.at = h.due
	}
	if h.index < 0 {
		heap.Push(&r.queue, h)
	} else {
		heap.Fix(&r.queue, h.index)
	}
}

func (r *LeaseRenewer) unschedule(h *Held) {
	if h.index >= 0 {
		heap.Remove(&r.queue, h.index)
	}
}

// renewAllNow makes every lease due, after a suspend.
func (r *LeaseRenewer) renewAllNow(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held {
		h.due = now
		r.reschedule(h)
	}
}

// renewInTurn is the goroutine of one renewal.
func (r *LeaseRenewer) renewInTurn(ctx context.Context, h *Held) {
	var wait time.Duration
	select {
	case h.slot <- struct{}{}:
		wait = r.renew(ctx, h)
		h.releaseSlot()
	default: // a checkpoint is under way, and is a renewal if it lands
		wait = min(100*time.Millisecond, r.cfg.RenewInterval/10)
	}
	r.mu.Lock()
	r.running--
	h.renewing = false
	if at := h.clock.Now().Add(wait); wait > 0 && h.due.Before(at) {
		h.due = at
	}
	r.reschedule(h)
	r.mu.Unlock()
	r.wake()
}

// renew renews once if that is due. The caller holds the slot. It returns how long to wait before trying again if it failed, 0
// otherwise.
//
// One call lasts at most a RenewInterval, within which the table makes several attempts. So there are many tries in a
// lease's life, and one row that hangs does not keep a goroutine for all of it.
func (r *LeaseRenewer) renew(ctx context.Context, h *Held) (wait time.Duration) {
	asked := stampOf(h.clock)
	r.mu.Lock()
	lease, until, due, gone := h.lease, h.until, h.due, h.gone
	doubt := h.from.slept(asked) > r.margin
	r.mu.Unlock()
	if gone || due.After(asked.mono) && !doubt || r.overdue(h, asked) {
		return 0
	}
	write, cancel := loop.Timeout(ctx, min(r.cfg.RenewInterval, until.Sub(asked.mono)), "renew lease "+h.key)
	w, err := r.table.Renew(write, lease, r.tenure(h.nonce), Renewal{})
	wait = r.settle(write, h, asked, w, err)
	cancel()
	if err == nil {
		if f := r.hooks.LeaseRenewed; f != nil {
			f(config.LeaseEvent{
				Worker: r.opts.Worker, LeaseKey: h.key, Counter: w.Lease.Counter, Token: h.token, Elapsed: h.clock.Now().Sub(asked.mono),
			})
		}
	} else if wait > 0 && ctx.Err() == nil {
		if f := r.hooks.Retried; f != nil {
			r.mu.Lock()
			attempt := h.failures
			r.mu.Unlock()
			f(config.RetryEvent{Worker: r.opts.Worker, LeaseKey: h.key, What: "renew lease", Attempt: attempt, Wait: wait, Err: err})
		}
	}
	return wait
}

// settle takes in the outcome of a write of a held lease that was asked for at asked, under the context write. It returns
// how long to wait before the next try if the write failed, 0 otherwise. The caller holds the slot.
func (r *LeaseRenewer) settle(write context.Context, h *Held, asked stamp, w Written, err error) (wait time.Duration) {
	wait = r.account(write, h, asked, w, err)
	r.mu.Lock()
	// That write has moved the counter under the mark, so the peer that asked learns by it that we know.
	learnt := !h.gone && !h.asked && h.lease.MarkIsLive() && h.lease.CheckpointOwner == r.opts.Worker
	h.asked = h.asked || learnt
	r.mu.Unlock()
	if learnt && r.opts.Asked != nil {
		r.opts.Asked(h)
	}
	return wait
}

// account is settle but for hand-off marks.
func (r *LeaseRenewer) account(write context.Context, h *Held, asked stamp, w Written, err error) (wait time.Duration) {
	now := stampOf(h.clock)
	if r.overdue(h, now) { // a reply after the deadline brings nothing back
		return 0
	}
	// A context may have ended because of another lease: then the error says nothing of this one.
	if errors.Is(err, ErrLeaseLost) && !errors.Is(context.Cause(write), ErrLeaseLost) {
		r.drop(h, err)
		if dup, ok := errors.AsType[*DuplicateWorkerError](err); ok {
			select {
			case r.fatal <- fmt.Errorf("this worker must stop: %w", dup):
			default:
			}
		}
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.gone {
		return 0
	}
	defer r.reschedule(h)
	if _, ok := errors.AsType[*RegressError](err); ok {
		// Nothing was written, but on the way we may have learnt of an earlier write of ours.
		if w.Recovered != NotRecovered {
			h.lease, h.due = w.Lease, now.mono
		}
		return 0
	}
	if err != nil {
		// It may have landed. The next write that succeeds says so; the lease then counts from here, not from that write.
		if h.unsure == nil {
			h.unsure = &asked
		}
		h.failures++
		h.lastErr = err
		wait = min(r.cfg.RenewInterval/2, 25*time.Millisecond<<min(h.failures, 10))
		h.due = now.mono.Add(wait)
		return wait
	}
	counts, known := asked, true
	if w.Recovered == ByEarlierCall {
		if known = h.unsure != nil; known {
			counts = *h.unsure
		}
	}
	h.lease, h.unsure, h.failures, h.lastErr = w.Lease, nil, 0, nil
	// The answer to a request that was sent before a suspend gives us the counter and nothing else: nobody knows how long
	// ago it was for the others.
	if known && counts.slept(now) <= r.margin && !counts.mono.Before(h.from.mono) {
		h.from, h.until = counts, counts.mono.Add(r.cfg.FailoverTime-r.margin)
	}
	unsaid := r.leaving.Load() && w.Lease.Tenure != nil && !w.Lease.Tenure.Leaving // it was sent before Leave
	if h.from == asked && !unsaid {
		h.due = asked.mono.Add(r.cfg.RenewInterval)
	} else {
		h.due = now.mono
	}
	return 0
}

// overdue ends the lease if its time is over, and reports whether it has ended.
func (r *LeaseRenewer) overdue(h *Held, now stamp) bool {
	r.mu.Lock()
	gone, until, lastErr := h.gone, h.until, h.lastErr
	since := now.mono.Sub(h.from.mono)
	r.mu.Unlock()
	if gone {
		return true
	}
	if now.mono.Before(until) {
		return false
	}
	cause := fmt.Errorf("lease %s: %w: not renewed for %v", h.key, ErrLeaseLost, since.Round(time.Millisecond))
	if lastErr != nil {
		cause = fmt.Errorf("%w; the last try: %w", cause, lastErr)
	}
	r.drop(h, cause)
	return true
}

// slept reports whether the machine was suspended since the lease was last renewed.
func (r *LeaseRenewer) slept(h *Held, now stamp) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return h.from.slept(now) > r.margin
}

// schedule is a heap of held leases by when they have to be looked at.
type schedule []*Held

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	h, _ := x.(*Held)
	h.index = len(*s)
	*s = append(*s, h)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	old := *s
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	h.index = -1
	return h
}
