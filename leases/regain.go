package leases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/internal/loop"
)

// Regain takes back at once every lease whose actual owner is this worker's id: those of a process that had the same id and
// was restarted. Each gets a new tenure. If that process still runs, it finds out at its next write of one of them, and has
// to stop (see [DuplicateWorkerError]); none of its checkpoints lands from now on.
//
// What a peer has asked that process for is handed over at once: nobody acts under it. What that process itself has asked for
// stays as it is: its owner goes on, and the taker watches it (see [LeaseTaker]). Call it before the first look of a [LeaseTaker]. After an error, call it again; what was regained is held
// and is returned by the call that regained it. (KCL: LeaseRenewer.initialize)
func (r *LeaseRenewer) Regain(ctx context.Context) ([]*Held, error) {
	listing, err := r.table.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("regain leases of %q: %w", r.opts.Worker, err)
	}
	var group errgroup.Group
	group.SetLimit(r.parallel())
	regained := make([]*Held, len(listing.Leases))
	errs := make([]error, len(listing.Leases))
	for i, l := range listing.Leases {
		if l.ActualOwner() != r.opts.Worker {
			continue
		}
		if _, held := r.Get(l.Key); held {
			continue
		}
		group.Go(func() error {
			regained[i], errs[i] = r.regain(ctx, l)
			return nil
		})
	}
	_ = group.Wait()
	regained = slices.DeleteFunc(regained, func(h *Held) bool { return h == nil })
	return regained, errors.Join(errs...)
}

// regain takes one row of ours back. The other process may still be renewing it, so it may take more than one try: each
// starts from the row as it is, and one lands between two of the other's renewals.
func (r *LeaseRenewer) regain(ctx context.Context, seen Lease) (*Held, error) {
	claim := r.claim(seen)
	pause := loop.Backoff{Base: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	for {
		var h *Held
		var err error
		if claim.seen.MarkIsLive() {
			_, err = r.giveUp(ctx, claim.seen, claim.me)
		} else {
			h, err = r.take(ctx, r.table, &claim)
		}
		switch {
		case err == nil:
			return h, nil
		case context.Cause(ctx) != nil:
			return nil, err
		case errors.Is(err, ErrLeaseLost):
			now, found, err := r.table.Get(ctx, seen.Key)
			if err != nil {
				return nil, fmt.Errorf("regain: %w", err)
			}
			if !found || now.ActualOwner() != r.opts.Worker {
				return nil, nil
			}
			claim = r.claim(now)
		default:
			if _, ok := errors.AsType[*PermanentError](err); ok {
				return nil, err
			}
		}
		if err := loop.ClockOf(ctx).Sleep(ctx, pause.Next()); err != nil {
			return nil, err
		}
	}
}
