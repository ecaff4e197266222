package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// ErrReleased is the cause of a lease's context after this worker gave the lease up on purpose. It wraps [ErrLeaseLost]:
// whoever still acts under the lease has to stop all the same.
var ErrReleased = fmt.Errorf("%w: released by this worker", ErrLeaseLost)

// ErrHandedOver is the cause of a lease's context after this worker gave the lease to a peer that had asked for it. It wraps
// [ErrReleased].
var ErrHandedOver = fmt.Errorf("%w, handed over to the peer that had asked for it", ErrReleased)

// Leave makes every lease that is held say that this worker is stopping, by one renewal at once and in each write from now
// on. Peers then count this worker as one that holds nothing, and ask for its leases. Nothing else changes: what is held is
// renewed as before, until it is released.
func (r *LeaseRenewer) Leave(ctx context.Context) {
	r.leaving.Store(true)
	r.renewAllNow(loop.ClockOf(ctx).Now())
	r.wake()
}

// Release gives a lease up: to the peer that has asked for it, which starts within a tenth of a second, or else to whoever takes
// it at the next look. The caller must have stopped acting under it. Its context ends, with [ErrHandedOver] or [ErrReleased]
// as cause, before the row is written. A checkpoint that waits for its write ([Held.DeferCheckpoint]) is written before that.
// Giving up is one conditional write, which is repeated until its outcome is known, ctx is done, or the lease is over anyway. An
// error wraps [ErrLeaseLost] if there was nothing to give up; otherwise the row may be left to expire.
func (r *LeaseRenewer) Release(ctx context.Context, h *Held) error {
	if err := h.acquire(ctx); err != nil {
		return err
	}
	defer h.releaseSlot()
	// What waits must be durable before somebody else reads the row. If that fails, giving up may succeed all the same.
	if h.lags() {
		if err := h.updateInTurn(ctx, Update{}); errors.Is(err, ErrLeaseLost) {
			return err
		}
	}
	lease, until := r.snapshot(h)
	cause := ErrReleased
	if lease.MarkIsLive() {
		cause = ErrHandedOver
	}
	if !r.drop(h, cause) {
		return h.ended()
	}
	// Not beyond the lease's end: then peers take it without our help, and a stop must not hang on a table that is down.
	write, cancel := loop.Timeout(ctx, max(until.Sub(h.clock.Now()), r.margin), "release lease "+h.key)
	defer cancel()
	row, err := r.giveUp(keeping(write, h, until), lease, r.tenure(h.nonce))
	if err != nil {
		return err
	}
	if row.InTransit() && r.given != nil {
		r.given(row, h.clock.Now())
	}
	if f := r.hooks.LeaseReleased; f != nil {
		f(config.LeaseEvent{Worker: r.opts.Worker, LeaseKey: h.key, Counter: row.Counter, Token: h.token, To: row.Owner})
	}
	return nil
}

// Forsake stops keeping a lease under which user code may still run, and writes nothing: others take the row when it is stale.
// Its context ends, with a cause that wraps [ErrLeaseLost] and why.
func (r *LeaseRenewer) Forsake(h *Held, why error) {
	r.drop(h, fmt.Errorf("lease %s: %w: %w", h.key, ErrLeaseLost, why))
}

// giveUp hands a row of ours over if a peer has asked for it, and releases it otherwise. It returns the row: its owner is the
// peer that got it.
//
//  1. We are about to release; a peer asks.
//  2. The release requires that there is no checkpointOwner, and fails with the mark.
//  3. So it is handed over instead.
//
// A mark that names us as our own successor (a Java worker may write one) is completed too, and the row then released.
func (r *LeaseRenewer) giveUp(ctx context.Context, row Lease, me Tenure) (Lease, error) {
	for {
		if row.MarkIsLive() {
			done, err := r.table.CompleteHandoff(ctx, row, me)
			if not, ok := errors.AsType[*NotAskedError](err); ok && !not.Lease.MarkIsLive() && me.ours(not.Lease) {
				row = not.Lease // the mark is gone, by a hand other than ours; the row is not
				continue
			}
			if err != nil || done.Owner != me.Worker {
				return done, err
			}
			row = done
		}
		err := r.table.Evict(ctx, row, me)
		if asked, ok := errors.AsType[*HandoffAskedError](err); ok && asked.Lease.CheckpointOwner == me.Worker {
			row = asked.Lease
			continue
		}
		row.Owner, row.HandoffTo, row.Counter = "", "", row.Counter+1
		return row, err
	}
}
