package leases

import (
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
		r.mu.Lock()
		lost, due, next := r.agenda.step(now.mono)
		r.mu.Unlock()
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

// renewAllNow makes every lease due, after a suspend.
func (r *LeaseRenewer) renewAllNow(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.held {
		h.due = now
		r.agenda.reschedule(h)
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
	var notBefore time.Time
	if wait > 0 {
		notBefore = h.clock.Now().Add(wait)
	}
	r.mu.Lock()
	r.agenda.done(h, notBefore)
	r.mu.Unlock()
	r.wake()
}

// renew renews once if that is due. The caller holds the slot. It returns how long to wait before trying again if it failed, 0
// otherwise.
func (r *LeaseRenewer) renew(ctx context.Context, h *Held) (wait time.Duration) {
	asked := stampOf(h.clock)
	r.mu.Lock()
	lease, left, gone := h.lease, h.term, h.gone
	r.mu.Unlock()
	if gone || !r.toRenew(left, asked) || r.overdue(h, asked) {
		return 0
	}
	write, cancel := loop.Timeout(ctx, r.patience(left, asked.mono), "renew lease "+h.key)
	var (
		w   Written
		err error
		u   Update
	)
	keep := keeping(write, h, left.until)
	u.ThroughputKBps = h.throughput(asked.mono)
	l := h.load(&u)
	if l == nil {
		w, err = r.table.Renew(keep, lease, r.tenure(h.nonce), Renewal{ThroughputKBps: u.ThroughputKBps})
	} else {
		w, err = r.table.Update(keep, lease, r.tenure(h.nonce), u)
	}
	wait = r.settle(write, h, asked, w, err)
	h.unload(l, u, asked, err)
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
	if learnt {
		h.asked, h.learnt = true, &asked
		if !w.sent.mono.IsZero() {
			h.learnt = &w.sent
		}
	}
	r.mu.Unlock()
	if learnt && r.opts.Asked != nil {
		r.opts.Asked(h)
	}
	return wait
}

// account is settle but for hand-off marks.
func (r *LeaseRenewer) account(write context.Context, h *Held, asked stamp, w Written, err error) (wait time.Duration) {
	now := stampOf(h.clock)
	if !w.sent.mono.IsZero() {
		asked = w.sent
	}
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
	defer r.agenda.reschedule(h)
	if _, ok := errors.AsType[*RegressError](err); ok {
		// Nothing was written, but on the way we may have learnt of an earlier write of ours.
		if w.Recovered != NotRecovered {
			h.lease, h.due = w.Lease, now.mono
		}
		return 0
	}
	if err != nil {
		h.term, wait = r.failed(h.term, asked, now)
		h.lastErr = err
		return wait
	}
	h.lease, h.lastErr = w.Lease, nil
	h.term = r.landed(h.term, asked, now, w.Recovered)
	if r.leaving.Load() && w.Lease.Tenure != nil && !w.Lease.Tenure.Leaving { // it was sent before Leave
		h.due = now.mono
	}
	return 0
}

// overdue ends the lease if its time is over, and reports whether it has ended.
func (r *LeaseRenewer) overdue(h *Held, now stamp) bool {
	r.mu.Lock()
	gone, over, lastErr := h.gone, h.over(now.mono), h.lastErr
	since := now.mono.Sub(h.from.mono)
	r.mu.Unlock()
	if gone {
		return true
	}
	if !over {
		return false
	}
	cause := fmt.Errorf("lease %s: %w: not renewed for %v", h.key, ErrLeaseLost, since.Round(time.Millisecond))
	if lastErr != nil {
		cause = fmt.Errorf("%w; the last try: %w", cause, lastErr)
	}
	r.drop(h, cause)
	return true
}

// doubt reports whether the machine was suspended since the lease was last renewed.
func (r *LeaseRenewer) doubt(h *Held, now stamp) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inDoubt(h.term, now)
}
