package leases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/internal/loop"
)

// Held is one tenure of one lease by this worker: the right to act on its shard, until its context is done. It is made by
// [LeaseRenewer] and kept by it. All methods are safe for concurrent use; those that write to the table take turns.
//
// A Held whose lease was lost never comes back to life. If this worker gets the lease again, that is another Held, with
// a larger token. (KCL: the Lease with its concurrencyToken in LeaseRenewer)
type Held struct {
	renewer *LeaseRenewer
	clock   *loop.Clock
	ctx     context.Context
	cancel  context.CancelCauseFunc
	key     string
	nonce   string
	token   int64
	// slot serialises the table writes of this lease: each is conditioned on the counter that the one before it left.
	slot chan struct{}

	// Guarded by renewer.mu.
	lease Lease
	term
	flow     flow      // of the shard
	late     *late     // a checkpoint that waits for its write, nil if none
	sent     *late     // the one that the write under way carries
	renewing bool      // handed to a goroutine, or waiting for one
	lastErr  error     // of the last failed renewal
	gone     bool      // lost or released
	asked    bool      // a write of ours has shown that a peer has asked for it
	learnt   *stamp    // when that write was sent; nil if it was not
	at       time.Time // when the renewer has to look at it
	index    int       // in the renewer's heap; -1 if not in it
}

// Context is done from the moment on at which this worker may no longer act under the lease: a write found that somebody
// else has it, its time has passed without a renewal, or it was given up. Its cause then wraps [ErrLeaseLost], and
// [ErrReleased] in the last case. It does not end with the context of Run.
func (h *Held) Context() context.Context { return h.ctx }

// ended is why the lease has ended; nil if it has not.
func (h *Held) ended() error { return context.Cause(h.ctx) }

// Asked reports whether a peer has asked for the lease and this worker knows it. From then on it is to be given up, by
// [LeaseRenewer.Release], as soon as its consumer has finished what is in hand.
func (h *Held) Asked() bool {
	h.renewer.mu.Lock()
	defer h.renewer.mu.Unlock()
	return h.asked
}

// Lease is the row as this worker last wrote it.
func (h *Held) Lease() Lease {
	h.renewer.mu.Lock()
	defer h.renewer.mu.Unlock()
	return h.lease
}

// Grant is the right to act in a form that user code may pass on: see [checkpoint.Grant].
func (h *Held) Grant() checkpoint.Grant { return checkpoint.Grant{LeaseKey: h.key, Token: h.token} }

// Usable returns nil if this worker may act under the lease now. It looks at the clock itself: a process that was stopped and
// continued may come here before the timer that ends the lease has fired. After a suspend of the machine, of which our
// monotonic clock knows nothing, it renews first, and waits for the answer as long as ctx allows; a lease that cannot be
// renewed is lost. A lease that a peer has asked for is not usable any more once the time to hand it over has passed, see [HandoffGrace]:
//
//  1. We learn of the mark, and are stopped.
//  2. The peer sees that we know, waits for as long as we may take, and takes the lease by its counter. Our FailoverTime may be longer.
//  3. We go on, and were about to call user code.
//
// An error wraps [ErrLeaseLost], or is that of ctx.
func (h *Held) Usable(ctx context.Context) error {
	for {
		if err := h.forfeited(); err != nil {
			return err
		}
		proven, err := h.proven()
		if err != nil || proven {
			return err
		}
		if err := h.acquire(ctx); err != nil {
			return err
		}
		err = h.prove(ctx)
		h.releaseSlot()
		if err != nil {
			return err
		}
	}
}

// forfeited is why a lease that was asked for must not be used any more; nil if it may. The peer waits a FailoverTime/20 longer; half of that
// is for clocks that do not run alike. Its clock goes on while our machine sleeps.
func (h *Held) forfeited() error {
	r := h.renewer
	r.mu.Lock()
	learnt := h.learnt
	r.mu.Unlock()
	if learnt == nil || learnt.passed(stampOf(h.clock)) < HandoffGrace(r.cfg)+r.cfg.FailoverTime/40 {
		return nil
	}
	return fmt.Errorf("lease %s: %w: a peer has asked for it, and the time to hand it over has passed", h.key, ErrLeaseLost)
}

// WriteCheckpoint implements [checkpoint.Store]. A checkpoint that lands renews the lease. The write is given up when
// ctx is done or the lease ends; then, and after any error that does not wrap [ErrLeaseLost], it may have landed all the same.
func (h *Held) WriteCheckpoint(ctx context.Context, at checkpoint.ExtendedSequenceNumber) error {
	return h.update(ctx, Update{Checkpoint: &at})
}

// WritePending implements [checkpoint.Store]; see WriteCheckpoint.
func (h *Held) WritePending(ctx context.Context, p checkpoint.Pending) error {
	return h.update(ctx, Update{Pending: &p})
}

func (h *Held) update(ctx context.Context, u Update) error {
	if err := h.acquire(ctx); err != nil {
		return err
	}
	defer h.releaseSlot()
	return h.updateInTurn(ctx, u)
}

// updateInTurn is update for a caller who holds the slot. An update of nothing writes the checkpoint that waits, if any.
func (h *Held) updateInTurn(ctx context.Context, u Update) error {
	// The clock is read after the wait for the slot. A process stopped between here and the send is fenced by the
	// condition on the counter.
	for {
		proven, err := h.proven()
		if err != nil {
			return err
		}
		if proven {
			break
		}
		if err := h.prove(ctx); err != nil {
			return err
		}
	}
	asked := stampOf(h.clock)
	lease, until := h.renewer.snapshot(h)
	l := h.load(&u)
	if u.Checkpoint == nil && u.Pending == nil { // proving the lease has written it
		return nil
	}
	u.ThroughputKBps = h.throughput(asked.mono)
	write, cancel := loop.Timeout(ctx, until.Sub(asked.mono), "checkpoint lease "+h.key)
	write, stop := h.bound(write)
	w, err := h.renewer.table.Update(keeping(write, h, until), lease, h.renewer.tenure(h.nonce), u)
	h.renewer.settle(write, h, asked, w, err)
	h.unload(l, u, asked, err)
	stop()
	cancel()
	if err == nil || errors.Is(err, ErrLeaseLost) {
		return err
	}
	if cause := h.ended(); cause != nil {
		return fmt.Errorf("%w; %w", cause, err)
	}
	return err
}

// bound lets ctx end with the lease.
func (h *Held) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(h.ctx, func() { cancel(h.ended()) })
	return ctx, func() { unhook(); cancel(context.Canceled) }
}

// acquire waits for the right to write. The lease may have ended meanwhile.
func (h *Held) acquire(ctx context.Context) error {
	if err := h.ended(); err != nil {
		return err
	}
	select {
	case h.slot <- struct{}{}:
		return nil
	case <-h.ctx.Done():
		return h.ended()
	case <-ctx.Done():
		return fmt.Errorf("wait for the write under way on lease %s: %w", h.key, context.Cause(ctx))
	}
}

func (h *Held) releaseSlot() { <-h.slot }

// proven reports whether the lease is ours as far as our clocks tell: false after a suspend, an error if it is over.
func (h *Held) proven() (bool, error) {
	if err := h.ended(); err != nil {
		return false, err
	}
	now := stampOf(h.clock)
	if h.renewer.overdue(h, now) {
		return false, h.ended()
	}
	return !h.renewer.doubt(h, now), nil
}

// prove tries once to renew a lease that a suspend has put in doubt. The caller holds the slot. An error ends the attempt; a
// failed renewal is none, after it the caller asks again.
func (h *Held) prove(ctx context.Context) error {
	renewing, stop := h.bound(ctx)
	defer stop()
	wait := h.renewer.renew(renewing, h)
	if wait > 0 {
		_ = h.clock.Sleep(renewing, wait) // ends early with the lease or ctx: both are looked at next
	}
	if err := h.ended(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
