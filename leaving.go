package shardlease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

const (
	// deregisterLimit is how long it may take to remove the registrations after a stop.
	deregisterLimit = 5 * time.Second
	// watchedLeases is how many leases of others a worker that stops watches at most, to see whether they are renewed.
	watchedLeases = 20
)

// leave removes the application's registrations, of all of its streams, if the configuration says so and nobody else can be
// reading with them: each worker looks after it has given up its own leases, so that the last of several that stop at once
// finds no owner. It removes what the others have registered, too, since they found an owner and left it. An owner that has
// died counts as one, because it may be one that is cut off for a while; but if none is seen to renew, nobody may be left who
// will remove them, and the log says how. Who starts after that registers anew.
func (r reading) leave(ctx context.Context) error {
	if r.fanOut == nil || !r.cfg.Retrieval.FanOut.Deregister {
		return nil
	}
	ctx, cancel := loop.Timeout(context.WithoutCancel(ctx), deregisterLimit, "deregister the application's consumers")
	defer cancel()
	listed, err := r.table.List(ctx)
	if _, none := errors.AsType[*types.ResourceNotFoundException](err); none {
		// A worker that is stopped while it begins. Without a table nobody owns a lease, and there is nothing that others could have read.
		return r.fanOut.Deregister(ctx)
	}
	if err != nil {
		return fmt.Errorf("look whether others read before the application's consumers are deregistered: %w", err)
	}
	var others []leases.Lease
	for _, l := range listed.Leases {
		if l.Owner != "" && l.Owner != r.cfg.WorkerID {
			others = append(others, l)
		}
	}
	streams := r.streams(listed.Leases)
	switch {
	case len(others) == 0:
		return r.fanOut.Deregister(ctx, streams...)
	case r.seesRenewal(ctx, others[:min(len(others), watchedLeases)]):
		r.cfg.Logger.Info("the application's consumers stay registered: another worker owns leases", "worker", r.cfg.WorkerID, "owner", others[0].Owner, "lease", others[0].Key)
	default:
		r.cfg.Logger.Warn("the application's consumers stay registered, and are paid for: another worker owns leases, but was not seen to renew them", "worker", r.cfg.WorkerID,
			"owner", others[0].Owner, "lease", others[0].Key, "remove", r.fanOut.Removals(streams...))
	}
	return nil
}

// seesRenewal watches leases of other workers until one of them is written, or ctx is done. A worker that lives renews each of
// its leases once in a RenewInterval.
func (r reading) seesRenewal(ctx context.Context, others []leases.Lease) bool {
	clock := loop.ClockOf(ctx)
	for clock.Sleep(ctx, r.cfg.LeaseManagement.RenewInterval/4) == nil {
		for _, l := range others {
			now, found, err := r.table.Get(ctx, l.Key)
			if err == nil && (!found || now.Counter != l.Counter || now.Owner != l.Owner) {
				return true
			}
		}
	}
	return false
}
