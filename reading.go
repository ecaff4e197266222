package shardlease

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/awshttp"
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
