package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/checkpoint"
)

// Take makes me the owner of a lease. It succeeds only if the counter, and the nonce or (without a tenure) the owner, are as
// seen.
// It writes the whole tenure and removes handoffTo and checkpointOwner, also stale ones that a Java worker left behind; the
// owner switches go up by one if another worker owned the row, or if me had been asked to hand it over, as in KCL.
//
// If seen.StartAtMillis is set and the row has no startAtMillis, it is written: so the first Go take pins the start of a row
// that Java made.
//
// me.Nonce must be new for every tenure; calling again after an error that is not ErrLeaseLost takes the same nonce and
// finds out whether the first call had landed. Written.Lease.Counter is the fencing token of the tenure.
// (KCL: takeLease)
func (t *Table) Take(ctx context.Context, seen Lease, me Tenure) (Written, error) {
	op := operation{what: "take lease", key: seen.Key, action: "UpdateItem", limit: t.attempt, rank: rankMove}
	return t.write(ctx, op, seen, me, change{
		apply: func(e *expression, from Lease) {
			if me.ours(from) { // taken by an attempt whose reply was lost: renew
				return
			}
			e.set(attrOwner, str(me.Worker))
			e.remove(attrHandoffTo)
			e.remove(attrCheckpointOwner)
			// The one who asked is leaseOwner already, and has not owned it yet.
			owner := seen.ActualOwner()
			if owner != "" && owner != me.Worker || seen.Owner != "" && seen.Owner != me.Worker || seen.CheckpointOwner == me.Worker {
				e.set(attrSwitches, number(seen.OwnerSwitches+1))
			}
			if seen.StartAtMillis != 0 {
				e.setIfAbsent(attrStartAt, number(seen.StartAtMillis))
			}
		},
		effect: func(row Lease) bool { return true },
	})
}

// Renew keeps a lease. It succeeds only if the counter and the nonce are as in held. It looks at no hand-off mark: the row
// that it returns shows one. If held is in transit (a hand-off to me was completed and this is the first renewal), it also
// requires that me is still the one it was handed to, and removes handoffTo; Written.Lease.Counter is then the fencing token
// of the new tenure. (KCL: renewLease)
func (t *Table) Renew(ctx context.Context, held Lease, me Tenure, r Renewal) (Written, error) {
	op := operation{what: "renew lease", key: held.Key, action: "UpdateItem", limit: t.attempt, rank: rankKeep}
	return t.write(ctx, op, held, me, change{
		mine: true,
		apply: func(e *expression, from Lease) {
			if r.ThroughputKBps != nil {
				e.set(attrThroughput, throughput(*r.ThroughputKBps))
			}
			if from.InTransit() {
				e.equal(str(me.Worker), attrOwner)
				e.absent(attrCheckpointOwner)
				e.remove(attrHandoffTo)
			}
		},
		effect: func(row Lease) bool { return true },
	})
}

// Update writes a checkpoint, or the first half of a two-phase one, and renews the lease by the same write. It succeeds
// only if the counter and the nonce are as in held. A checkpoint sets the owner switches to 0.
//
// It never moves a checkpoint back: if the row's lies beyond u.Checkpoint, the error is a *[RegressError], nothing is
// written, and Written.Lease is the row as known. (KCL: updateLease)
func (t *Table) Update(ctx context.Context, held Lease, me Tenure, u Update) (Written, error) {
	op := operation{what: "checkpoint lease", key: held.Key, action: "UpdateItem", limit: t.attempt, rank: rankKeep}
	if u.Checkpoint == nil && u.Pending == nil {
		return Written{}, &PermanentError{Doing: op.String(), Err: errors.New("neither a checkpoint nor a pending one is given")}
	}
	for _, at := range u.places() {
		if err := at.Check(); err != nil {
			return Written{}, &PermanentError{Doing: op.String(), Err: err}
		}
	}
	return t.write(ctx, op, held, me, change{
		mine: true,
		allowed: func(row Lease) error {
			if u.Checkpoint != nil && u.Checkpoint.Compare(row.Checkpoint) < 0 {
				return &RegressError{Key: row.Key, Have: row.Checkpoint, Want: *u.Checkpoint}
			}
			return nil
		},
		apply: func(e *expression, from Lease) {
			if at := u.Checkpoint; at != nil {
				e.set(attrCheckpoint, str(at.SequenceNumber))
				e.set(attrSub, number(at.SubSequenceNumber))
				e.set(attrSwitches, number(0))
			}
			if p := u.Pending; p != nil {
				e.set(attrPending, str(p.At.SequenceNumber))
				e.set(attrPendingSub, number(p.At.SubSequenceNumber))
			} else {
				e.remove(attrPending)
				e.remove(attrPendingSub)
			}
			if u.ThroughputKBps != nil {
				e.set(attrThroughput, throughput(*u.ThroughputKBps))
			}
			if u.Pending != nil && u.Pending.State != nil {
				e.set(attrPendingState, &types.AttributeValueMemberB{Value: u.Pending.State})
			} else {
				e.remove(attrPendingState)
			}
		},
		effect: u.isIn,
	})
}

// places are the positions that u writes.
func (u Update) places() (at []checkpoint.ExtendedSequenceNumber) {
	if u.Checkpoint != nil {
		at = append(at, *u.Checkpoint)
	}
	if u.Pending != nil {
		at = append(at, u.Pending.At)
	}
	return at
}

// isIn reports whether the row is as u leaves it.
func (u Update) isIn(row Lease) bool {
	if u.Checkpoint != nil && row.Checkpoint != *u.Checkpoint {
		return false
	}
	if u.Pending == nil || row.Pending == nil {
		return u.Pending == nil && row.Pending == nil
	}
	return row.Pending.At == u.Pending.At && string(row.Pending.State) == string(u.Pending.State)
}

// Evict gives a lease up, so that others may take it at their next look. It succeeds only if the counter and the nonce are
// as in held and there is no checkpointOwner. If a peer has asked for the lease, the error is a *[HandoffAskedError] with
// the row: the owner completes the hand-off instead. ErrLeaseLost means that there is nothing left to give up. If held is in
// transit to me, which has stopped meanwhile, it also requires that me is still the one it was handed to.
// (KCL: evictLease)
func (t *Table) Evict(ctx context.Context, held Lease, me Tenure) error {
	op := operation{what: "release lease", key: held.Key, action: "UpdateItem", limit: t.attempt, rank: rankKeep}
	_, err := t.write(ctx, op, held, me, change{
		mine:   true,
		leaves: me.released,
		allowed: func(row Lease) error {
			if row.MarkIsLive() {
				return &HandoffAskedError{Lease: row}
			}
			return nil
		},
		apply: func(e *expression, from Lease) {
			e.remove(attrOwner)
			e.remove(attrHandoffTo)
			if from.InTransit() {
				e.equal(str(me.Worker), attrOwner)
			}
			if from.CheckpointOwner == "" {
				e.absent(attrCheckpointOwner)
				return
			}
			// A mark that is not live: Java 2.x left it, or set us as our own successor. It must be the one we know.
			e.equal(str(from.CheckpointOwner), attrCheckpointOwner)
			e.remove(attrCheckpointOwner)
		},
	})
	return err
}

// change is one kind of counter-moving write.
type change struct {
	mine    bool                            // the row is held by me before it: another process with my id is then an error of its own
	leaves  func(row Lease) bool            // of a write that gives the row up: whether it is as this write leaves it; nil: the row stays ours
	allowed func(row Lease) error           // nil: always. It is asked of each row that the write is about to be based on
	apply   func(e *expression, from Lease) // adds its attributes and its own conditions
	effect  func(row Lease) bool            // whether a row that is ours already has what the write is for; not asked of one that leaves it
}

// write is the way of every write that moves the counter. The race that it is about:
//
//  1. We send a write at counter 7; it lands and makes 8, and the reply is lost.
//  2. It is sent again, by us or by the SDK; the condition, counter = 7, fails on our own write.
//  3. The row as it is then shows our tenure, at 8. So the row is ours, and we go on from counter 8.
//
// From step 3 the write is sent once more, based on 8. The write at 8 may be of this call or of an earlier one that ended
// without an answer; nothing in the row tells them apart, and a lease must not be extended from a moment after the write
// that peers saw. The write sent once more is of this call without doubt, and is what makes the result count from its
// beginning. If it cannot be completed before ctx is done, the row is adopted without an extension (ByEarlierCall).
func (t *Table) write(ctx context.Context, op operation, seen Lease, me Tenure, c change) (Written, error) {
	from, adopted := seen, false
	var sent stamp
	op.sent = &sent
	for {
		if c.allowed != nil {
			if err := c.allowed(from); err != nil {
				return Written{Lease: from, Recovered: ByEarlierCall}, err
			}
		}
		e := newExpression()
		e.unchanged(from)
		e.write(from, me)
		c.apply(e, from)
		row, held, err := t.update(ctx, op, from.Key, e)
		if err == nil && held == nil { // written
			if c.leaves == nil && row.ActualOwner() != me.Worker {
				// A leader of KCL 3.x has given the lease to another worker, which moves no counter.
				return Written{}, op.lost(fmt.Sprintf("it was assigned to %q", row.Owner))
			}
			w := Written{Lease: row, sent: sent}
			if adopted {
				w.Recovered = ByThisCall
			}
			return w, nil
		}
		if err != nil {
			if adopted && c.leaves == nil && c.effect(from) {
				return Written{Lease: from, Recovered: ByEarlierCall, sent: sent}, nil
			}
			return Written{sent: sent}, err
		}
		row = *held
		switch {
		case row.Key == "":
			return Written{}, op.lost("its row is gone")
		case c.leaves != nil && c.leaves(row):
			return Written{Lease: row, Recovered: ByThisCall, sent: sent}, nil
		case !me.ours(row):
			if dup := me.duplicate(row); dup != nil && c.mine {
				return Written{}, fmt.Errorf("%s: %w", op, dup)
			}
			return Written{}, op.lost(unlike(row, from))
		case sameState(row, from):
			return Written{}, op.lost("the condition does not hold, although the row is as it was seen; " + unlike(row, from))
		}
		from, adopted = row, true
	}
}

// sameState reports whether a write based on a is the same as one based on b.
func sameState(a, b Lease) bool {
	return a.Counter == b.Counter && a.TenureSpeaks() == b.TenureSpeaks() && a.CheckpointOwner == b.CheckpointOwner &&
		a.HandoffTo == b.HandoffTo && a.Owner == b.Owner
}

// unlike says for people what became of a row.
func unlike(row, seen Lease) string {
	s := fmt.Sprintf("counter is %d, was %d", row.Counter, seen.Counter)
	switch owner := row.ActualOwner(); {
	case owner == "":
		s += ", and nobody owns it"
	case !row.TenureSpeaks():
		s += fmt.Sprintf(", owner is %q, a Java worker", owner)
	default:
		s += fmt.Sprintf(", owner is %q with nonce %s", owner, row.Tenure.Nonce)
	}
	return s
}

// update sends one conditional update. On success it returns the new row. If the condition failed, it returns the row as
// it is in failed; an empty Key says that there is none. Otherwise the outcome is not known, or the service refuses.
func (t *Table) update(ctx context.Context, op operation, key string, e *expression) (row Lease, failed *Lease, err error) {
	in := e.updateItem(t.cfg.TableName, key)
	var out *dynamodb.UpdateItemOutput
	err = t.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = t.api.UpdateItem(ctx, in, noRetries)
		return err
	})
	if err == nil {
		row, err = t.decoder().decode(out.Attributes)
		if err != nil {
			return Lease{}, nil, fmt.Errorf("%s: written, but %w", op, err)
		}
		return row, nil, nil
	}
	current, err := t.afterFailedCondition(ctx, op, key, err)
	if err != nil {
		return Lease{}, nil, err
	}
	return Lease{}, &current, nil
}

// afterFailedCondition returns the row that a write's condition failed on, an empty one if there is none; any other error
// than a failed condition is returned as it is. The service returns the item with the error; where a server does not
// (dynalite, DynamoDB Local), and where there is none, the row is read, consistently.
func (t *Table) afterFailedCondition(ctx context.Context, op operation, key string, err error) (Lease, error) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		if kindOf(err) != conditionFailed {
			return Lease{}, err
		}
		failed = &types.ConditionalCheckFailedException{}
	}
	row := failed.Item
	if row == nil {
		if row, err = t.read(ctx, operation{what: op.what + ", read back", key: key, action: "GetItem", limit: op.limit, rank: op.rank}, key); err != nil {
			return Lease{}, err
		}
	}
	if row == nil {
		return Lease{}, nil
	}
	l, err := t.decoder().decode(row)
	if err != nil {
		return Lease{}, fmt.Errorf("%s: its condition failed, and %w", op, err)
	}
	return l, nil
}
