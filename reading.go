package shardlease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/awshttp"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval"
)

// reading is how a worker reads shards.
type reading struct {
	cfg    config.Config
	table  *leases.Table // reads consistently
	open   func(context.Context, retrieval.Start) (processor.RecordSource, error)
	fanOut *retrieval.FanOut // nil if it polls
	// streams are those of the application: the only one, or those of leases.
	streams func([]leases.Lease) []retrieval.Start
}

// newReading makes one; own says that o's client is not a user's.
func newReading(cfg config.Config, cloud aws.Config, o options, own bool) reading {
	polling := retrieval.NewPolling(o.kinesis, cfg.Retrieval, retrieval.PollingOptions{
		Worker: cfg.WorkerID, Logger: cfg.Logger, Hooks: cfg.Hooks,
	})
	r := reading{cfg: cfg, open: polling.Open}
	if cfg.Retrieval.Mode != config.FanOut {
		return r
	}
	api, _ := o.kinesis.(retrieval.FanOutAPI) // as New has checked
	if own {
		api = kinesis.NewFromConfig(awshttp.Subscriptions(cloud, cfg.Retrieval.ByteBudget))
	}
	r.fanOut = retrieval.NewFanOut(api, polling)
	r.open = r.fanOut.Open
	consistent := cfg.LeaseManagement
	consistent.ConsistentReads = true
	r.table = leases.NewTable(o.dynamodb, consistent, leases.TableOptions{Worker: cfg.WorkerID, Hooks: cfg.Hooks, Keys: keysOf(o, cfg)})
	return r
}

// keysOf is the form of the table's keys.
func keysOf(o options, cfg config.Config) leases.Keys {
	if o.several(cfg) {
		return leases.StreamKeys
	}
	return leases.ShardKeys
}

// canFanOut reports what keeps a worker from reading by fan-out.
func (o options) canFanOut(cfg config.Config) error {
	if cfg.Retrieval.Mode != config.FanOut {
		return nil
	}
	var faults []error
	check := func(option string, api KinesisAPI) {
		if _, ok := api.(retrieval.FanOutAPI); api != nil && !ok {
			faults = append(faults, fmt.Errorf("the client of %s is a %T, want one with the methods of retrieval.FanOutAPI, since Retrieval.Mode is %s", option, api, config.FanOut))
		}
	}
	check("WithKinesis", o.kinesis)
	for arn, api := range o.clients {
		check("WithStreamClient for "+arn, api)
	}
	if cfg.Retrieval.FanOut.ConsumerARN != "" && o.several(cfg) {
		faults = append(faults, fmt.Errorf("Retrieval.FanOut.ConsumerARN is %q, want none for several streams: each has a consumer of its own", cfg.Retrieval.FanOut.ConsumerARN))
	}
	return errors.Join(faults...)
}

// deregisterLimit is how long it may take to remove the registrations after a stop.
const deregisterLimit = 5 * time.Second

// leave removes the application's registrations, of all of its streams, if the configuration says so and nobody else can be reading with them: each
// worker looks after it has given up its own leases, so that the last of several that stop at once finds no owner. It removes what the others have
// registered, too, since they found an owner and left it. An owner that has
// died counts as one. Who starts after that registers anew.
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
	for _, l := range listed.Leases {
		if l.Owner != "" && l.Owner != r.cfg.WorkerID {
			r.cfg.Logger.Info("the application's consumers stay registered: another worker owns leases", "worker", r.cfg.WorkerID, "owner", l.Owner, "lease", l.Key)
			return nil
		}
	}
	return r.fanOut.Deregister(ctx, r.streams(listed.Leases)...)
}
