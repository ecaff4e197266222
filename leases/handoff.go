package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlease/shardlease/checkpoint"
)

// A hand-off moves a lease without a gap, in three writes by two workers:
//
//	           leaseOwner  checkpointOwner  handoffTo  tenure      who acts
//	           A           -                -          A's         A
//	ask (B)    B           A                B          A's         A, which learns the mark from its next renewal
//	complete   B           -                B          A's         nobody
//	(A)
//	renew (B)  B           -                -          B's, new    B
//
// The first two are KCL 3's, so that a Java worker reads them as it reads its own. handoffTo and the tenure are ours: a
// Java 2.x take leaves checkpointOwner behind and a Java 3.x take handoffTo, and only a mark under a tenure that speaks is
// believed (see [Lease.MarkIsLive], [Lease.InTransit]).

// StartHandoff asks the owner of a lease to hand it over to the worker to, the caller. It sets leaseOwner and handoffTo to
// it and checkpointOwner to the owner, who goes on until it has completed. It moves no counter, so no write of the owner that
// is under way is disturbed.
//
// It succeeds only if leaseOwner and the tenure's nonce are as seen, the tenure speaks (tenure.at is compared with
// leaseCounter by the table itself, for the owner renews while we ask), there is no checkpointOwner, and the shard has not
// been read to its end. So a request that arrives late reaches the tenure that was asked, or nobody.
//
// The lease returned is the row: after success under a live mark, or in transit if the owner has completed already. With an
// error that wraps [ErrLeaseLost] it is the row that cannot be asked for, empty if it is gone; the error says why. If seen
// itself shows that, nothing is sent. After any other error the owner may have been asked, and the same call finds out.
// (KCL: initiateGracefulLeaseHandoff)
func (t *Table) StartHandoff(ctx context.Context, seen Lease, to string) (Lease, error) {
	op := operation{what: "ask for lease", key: seen.Key, action: "UpdateItem", limit: t.attempt, rank: rankMove}
	if to == "" {
		return Lease{}, &PermanentError{Doing: op.String(), Err: errors.New("no worker is given that it should go to")}
	}
	if why := notToBeAsked(seen, to); why != "" {
		return seen, op.lost(why)
	}
	e := newExpression()
	e.equal(str(seen.Owner), attrOwner)
	e.equal(str(seen.Tenure.Nonce), attrTenure, tenureNonce)
	e.equalPaths([]string{attrTenure, tenureAt}, attrCounter)
	e.absent(attrCheckpointOwner)
	e.differs(str(checkpoint.ShardEnd.SequenceNumber), attrCheckpoint)
	e.set(attrOwner, str(to))
	e.set(attrHandoffTo, str(to))
	e.set(attrCheckpointOwner, str(seen.Owner))
	row, failed, err := t.update(ctx, op, seen.Key, e)
	if err != nil {
		return Lease{}, err
	}
	if failed == nil {
		return row, nil
	}
	row = *failed
	switch {
	case row.Key == "":
		return row, op.lost("its row is gone")
	// 1. We ask; it lands, and the reply is lost.
	// 2. The owner may even complete.
	// 3. Asked again, the condition fails on our own mark. Nothing is to be repeated: the mark carries no time of ours.
	case row.HandoffTo == to && (row.MarkIsLive() || row.InTransit()):
		return row, nil
	}
	why := notToBeAsked(row, to)
	if why == "" {
		why = unlike(row, seen)
	}
	return row, op.lost(why)
}

// notToBeAsked says why the owner of a row cannot be asked to hand it over to a worker, "" if it can.
func notToBeAsked(row Lease, to string) string {
	switch row.State() {
	case RowAbsent:
		return "there is no row"
	case RowUnowned:
		return "nobody owns it"
	case RowHandingOver:
		return fmt.Sprintf("%q has asked for it already", row.Owner)
	case RowInTransit:
		return fmt.Sprintf("%q has handed it over to %q already", row.Tenure.Worker, row.Owner)
	case RowEnded:
		return "the shard has been read to its end"
	case RowOwned:
	}
	switch {
	case !row.TenureSpeaks():
		return fmt.Sprintf("its owner is %q, a Java worker", row.Owner)
	case row.CheckpointOwner != "" || row.Tenure.Worker != row.Owner:
		// No Go worker and no KCL in 2.x mode leaves such a row.
		return fmt.Sprintf("the last write is %q's, but the row names %q as owner and %q as checkpointOwner", row.Tenure.Worker, row.Owner, row.CheckpointOwner)
	case row.Owner == to:
		return fmt.Sprintf("%q owns it already", to)
	}
	return ""
}

// CompleteHandoff gives a lease to the worker that has asked for it. held is the row with its live mark, as a renewal, a
// checkpoint or a [HandoffAskedError] showed it; or, for a process that was restarted, as it was found: then me is a new tenure.
//
// It succeeds only if counter and nonce are as in held, and leaseOwner, handoffTo and checkpointOwner are the mark that held
// shows, with me as checkpointOwner. It removes checkpointOwner alone: handoffTo stays until the new owner's first renewal,
// and says meanwhile that nobody else is to take the row. The owner switches stay as they are, as in KCL. Whoever calls it must
// have stopped acting under the lease, and never acts again.
//
// If held, or the row as it turns out to be, shows no live mark against me, the error is a *[NotAskedError]. An error that
// wraps [ErrLeaseLost] means that there is nothing left to hand over: somebody has taken the row, which may be the successor,
// after a completion whose reply was lost. (KCL: assignLease by the old owner)
func (t *Table) CompleteHandoff(ctx context.Context, held Lease, me Tenure) (Lease, error) {
	op := operation{what: "hand over lease", key: held.Key, action: "UpdateItem", limit: t.attempt, rank: rankKeep}
	w, err := t.write(ctx, op, held, me, change{
		mine:   true,
		leaves: me.handedOver,
		allowed: func(row Lease) error {
			if !row.MarkIsLive() || row.CheckpointOwner != me.Worker {
				return &NotAskedError{Lease: row}
			}
			return nil
		},
		apply: func(e *expression, from Lease) {
			e.equal(str(from.Owner), attrOwner)
			e.equal(str(from.HandoffTo), attrHandoffTo)
			e.equal(str(me.Worker), attrCheckpointOwner)
			e.remove(attrCheckpointOwner)
		},
	})
	return w.Lease, err
}

// NotAskedError is what [Table.CompleteHandoff] fails with if nobody has asked its caller for the lease. Nothing was written,
// and the lease is not lost by it.
type NotAskedError struct {
	Lease Lease // the row as known
}

func (e *NotAskedError) Error() string {
	return fmt.Sprintf("hand over lease %s: nobody has asked for it (leaseOwner %q, checkpointOwner %q, handoffTo %q, counter %d)",
		e.Lease.Key, e.Lease.Owner, e.Lease.CheckpointOwner, e.Lease.HandoffTo, e.Lease.Counter)
}
