package shardlease

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/coordinator"
	"github.com/shardlease/shardlease/internal/awshttp"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// Worker is one member of a fleet. It is made by [New], runs once, and may be asked and stopped from any goroutine.
// (KCL: Scheduler)
type Worker struct {
	scheduler *coordinator.Scheduler
}

// Assignment is one lease that a worker holds, as it was at the moment of asking.
type Assignment = coordinator.Assignment

// ErrAlreadyRun is returned by the second Run of a worker.
var ErrAlreadyRun = coordinator.ErrAlreadyRun

// New makes a worker of cfg that reaches Kinesis and DynamoDB as cloud says (region, credentials, endpoints) and hands each
// shard it gets to a processor made by f. It checks everything that can be checked without asking anybody and reports all
// faults at once; it does no I/O.
//
// The clients that New makes keep more idle connections than the SDK's default, and leave retries to the worker, which
// knows how long a lease is still good for. [WithKinesis] and [WithDynamoDB] take other clients.
func New(cfg config.Config, cloud aws.Config, f processor.Factory, opts ...Option) (*Worker, error) {
	var o options
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if err := validate(cfg, cloud, f, o); err != nil {
		return nil, fmt.Errorf("shardlease: %w", err)
	}
	cfg = cfg.Complete()
	// One place decides what is logged of what happens: the hooks, of which the logger is one user.
	cfg.Hooks = config.Chain(config.SlogHooks(cfg.Logger), cfg.Hooks)

	if o.strategy == nil {
		var err error
		if o.strategy, err = leases.StrategyByName(cfg.LeaseManagement.AssignmentStrategy); err != nil {
			return nil, fmt.Errorf("shardlease: %w", err)
		}
	}
	prepared := awshttp.Prepare(cloud)
	own := o.kinesis == nil && o.source == nil
	if o.source != nil {
		o.kinesis = o.source
		cfg.Retrieval.Deaggregate = false // its records are none of the KPL's
	}
	if o.kinesis == nil {
		o.kinesis = kinesis.NewFromConfig(prepared)
	}
	if o.dynamodb == nil {
		o.dynamodb = dynamodb.NewFromConfig(prepared)
	}
	table := leases.NewTable(o.dynamodb, cfg.LeaseManagement, leases.TableOptions{Worker: cfg.WorkerID, Hooks: cfg.Hooks, Keys: keysOf(o, cfg)})
	reading := newReading(cfg, cloud, o, own)
	maker := &streamMaker{
		cfg: cfg, region: regionOf(cloud, o.kinesis), api: o.kinesis, clients: o.clients, table: table,
		reading: reading, byLineage: o.source != nil,
	}
	reading.streams = maker.starts
	parts := coordinator.Options{Config: cfg, Table: table, Factory: f, Strategy: o.strategy, Left: reading.leave}
	if o.several(cfg) {
		parts.Streams = maker.source(o.tracker)
	} else {
		parts.Stream = maker.only()
	}
	return &Worker{scheduler: coordinator.NewScheduler(parts)}, nil
}

// validate reports everything that is wrong with what New was given.
func validate(cfg config.Config, cloud aws.Config, f processor.Factory, o options) error {
	faults := []error{o.validate(cfg, cloud)}
	if !o.sourced {
		faults = append(faults, o.canFanOut(cfg))
	}
	if f == nil {
		faults = append(faults, errors.New("processor.Factory is nil, want a function that makes a RecordProcessor"))
	}
	if cloud.Region == "" && (o.kinesis == nil && !o.sourced || o.dynamodb == nil) {
		faults = append(faults, errors.New("aws.Config has no Region, want one such as us-east-1 (environment variable AWS_REGION, or the profile)"))
	}
	return errors.Join(faults...)
}

// Run works until ctx is done, and then stops gracefully: nothing new is taken; what is held is read on until other workers have
// asked for it; each processor finishes its batch, may
// checkpoint in ShutdownRequested, and its lease is handed over, or released if nobody has asked, within
// cfg.Lifecycle.ShutdownGrace (default 25 s). Then the contexts of user code are cancelled, and Run waits for up to 4 s more for
// methods that have not returned. It returns nil after such a stop, or after [Worker.Shutdown], when everything that it started has ended.
//
// Transient faults (throttling, a table that is down, a stream being resharded) are retried for ever and reported through
// hooks and log. Run ends with an error if somebody has to do something first: a missing permission, a stream or table
// that does not exist, a table with another key, a table in KCL 3.x mode, another process with the same worker id; or if a
// processor, or the [StreamTracker], did not return although its context had ended, which it names.
//
// With Retrieval.FanOut.Deregister the last worker to stop then removes the application's registration with each of its streams, for which it takes up to 5 s more.
//
// User code's contexts carry the values of ctx, not its end.
func (w *Worker) Run(ctx context.Context) error { return w.scheduler.Run(ctx) }

// Shutdown does what the end of Run's context does, with the deadline of ctx in place of ShutdownGrace (which bounds the stop
// if ctx has none), and returns when Run has returned; what went wrong is in Run's error. A processor must not call it and
// wait: it would wait for itself. If ctx is done before that, the contexts of user code are cancelled and Shutdown returns the context's
// cause at once. It may be called before Run, which then returns nil at once, and any number of times.
func (w *Worker) Shutdown(ctx context.Context) error { return w.scheduler.Shutdown(ctx) }

// Ready is closed once the lease table is usable and the first look at it, with what was taken then, is over.
func (w *Worker) Ready() <-chan struct{} { return w.scheduler.Ready() }

// State is where the worker is in its life: New, Starting, Running, Draining, Releasing or Stopped.
func (w *Worker) State() string { return w.scheduler.State().String() }

// Assignments returns the leases that this worker holds now, by key.
func (w *Worker) Assignments() []Assignment { return w.scheduler.Assignments() }
