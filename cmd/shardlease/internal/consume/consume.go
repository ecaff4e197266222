package consume

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

// lookEvery is the pause between two looks whether everything was printed.
const lookEvery = time.Second

// Options say what to read, from where, and until when.
type Options struct {
	Config        config.Config // its Logger gets what this package has to say, too
	Cloud         aws.Config
	Kinesis       *kinesis.Client
	DynamoDB      *dynamodb.Client
	Format        Format
	UntilCaughtUp bool // end when the application has caught up (caughtup.go says what that is)
}

// Run prints records on out until ctx ends, which is a graceful stop and no error, or until the application has caught up
// if that is wanted: then the end of ctx before that is an error. What was not written to out is not checkpointed; an output that takes no more ends Run with an error.
func Run(ctx context.Context, out io.Writer, o Options) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var broken, early error
	p := newPrinter(out, o.Format, func(err error) { stop(outputError{err}) })
	w, err := shardlease.New(o.Config, o.Cloud,
		func(s processor.Shard) processor.RecordProcessor {
			of := origin{shard: s.ID}
			if len(o.Config.Streams) > 0 {
				of.stream = s.Stream
			}
			return &shardPrinter{printer: p, of: of}
		},
		shardlease.WithKinesis(o.Kinesis), shardlease.WithDynamoDB(o.DynamoDB))
	if err != nil {
		return err // names the faults
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if o.UntilCaughtUp && watch(ctx, w, o) {
			stop(errCaughtUp)
		}
	}()
	err = w.Run(ctx)
	switch cause := context.Cause(ctx); {
	case isOutput(cause):
		broken = cause
	case o.UntilCaughtUp && cause != nil && !errors.Is(cause, errCaughtUp):
		early = errEarly
	}
	stop(nil)
	<-watched
	return errors.Join(broken, early, err)
}

// errCaughtUp is the cause of a stop that was wanted, errEarly what Run returns after one that was not.
var (
	errCaughtUp = errors.New("caught up")
	errEarly    = errors.New("stopped before it had caught up: not everything was read")
)

// outputError is the cause of a stop that a broken output makes necessary.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

func isOutput(err error) bool {
	_, ok := errors.AsType[outputError](err)
	return ok
}

// watch returns true when the application has caught up, false when ctx has ended.
func watch(ctx context.Context, w *shardlease.Worker, o Options) bool {
	select {
	case <-w.Ready():
	case <-ctx.Done():
		return false
	}
	cfg := o.Config.Complete()
	table := leases.NewTable(o.DynamoDB, cfg.LeaseManagement, leases.TableOptions{Worker: cfg.WorkerID})
	for {
		done, err := caughtUp(ctx, w, table, o)
		if done {
			return true
		}
		if err != nil && ctx.Err() == nil {
			cfg.Logger.WarnContext(ctx, "cannot tell yet whether everything was read", slog.Any("err", err))
		}
		if loop.ClockOf(ctx).Sleep(ctx, lookEvery) != nil {
			return false
		}
	}
}

// caughtUp takes one look. It reads the table only when this process has nothing left to do, and looks into the shards of
// others only then.
func caughtUp(ctx context.Context, w *shardlease.Worker, table *leases.Table, o Options) (bool, error) {
	if !ownAtTip(w.Assignments()) {
		return false, nil
	}
	all, err := table.List(ctx)
	if err != nil {
		return false, err
	}
	if !allBegun(all.Leases, o.Config.Streams) {
		return false, nil // the first worker is about to create them
	}
	for _, l := range others(all.Leases, w.Assignments()) {
		if ok, err := atTip(ctx, o.Kinesis, streamOf(l, o.Config), l); !ok {
			return false, err
		}
	}
	return ownAtTip(w.Assignments()), nil
}
