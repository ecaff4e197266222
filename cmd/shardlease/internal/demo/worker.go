package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// workerGrace is how long a worker tries to stop gracefully; below stopGrace, so that it is never killed while it does.
const workerGrace = 4 * time.Second

// WorkerOptions say who a worker of the demo is.
type WorkerOptions struct {
	ID, Endpoint, Stream, App string
	FailoverTime              time.Duration
}

// RunWorker is one process of the fleet: an ordinary worker whose processor reports. It ends gracefully when ctx does, or
// when in ends: the parent closes it, by intent or by its death.
func RunWorker(ctx context.Context, in io.Reader, out, log io.Writer, o WorkerOptions) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		_, _ = io.Copy(io.Discard, in) // returns when the parent has closed it; nobody waits, a read cannot be called off
		stop(nil)
	}()
	r := &reporter{out: json.NewEncoder(out), broken: stop}
	cfg := config.Default(o.App, o.Stream)
	cfg.WorkerID = o.ID
	cfg.LeaseManagement.FailoverTime = o.FailoverTime
	cfg.Cleanup.Interval = CleanupInterval
	cfg.Lifecycle.ShutdownGrace = workerGrace // if the parent is dead there is no table to release a lease in
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Hooks = &config.Hooks{
		LeaseTaken:    func(e config.LeaseEvent) { _ = r.say(report{Kind: taken, Shard: e.LeaseKey, From: e.From}) },
		LeaseLost:     func(e config.LeaseEvent) { _ = r.say(report{Kind: lost, Shard: e.LeaseKey, Err: fmt.Sprint(e.Err)}) },
		LeaseReleased: func(e config.LeaseEvent) { _ = r.say(report{Kind: released, Shard: e.LeaseKey}) },
	}
	cloud := aws.Config{
		Region: emulator.Region, BaseEndpoint: aws.String(o.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider(o.ID, "demo", ""),
	}
	w, err := shardlease.New(cfg, cloud, func(processor.Shard) processor.RecordProcessor { return &reporting{to: r} })
	if err != nil {
		return err
	}
	var readiness sync.WaitGroup
	readiness.Go(func() {
		select {
		case <-w.Ready():
			_ = r.say(report{Kind: ready})
		case <-ctx.Done():
		}
	})
	err = w.Run(ctx)
	broken := context.Cause(ctx)
	stop(nil)
	readiness.Wait()
	if _, ok := errors.AsType[*pipeError](broken); ok {
		return errors.Join(broken, err)
	}
	return err
}

// reporter writes reports, each with one write. The mutex is held across that write, which is to a pipe with a reader that
// never pauses.
type reporter struct {
	broken func(error)

	mu  sync.Mutex
	out *json.Encoder
}

// pipeError says that the parent does not listen.
type pipeError struct{ error }

func (e *pipeError) Unwrap() error { return e.error }

// say returns when the parent can read the report, even if this process is killed next.
func (r *reporter) say(x report) error {
	r.mu.Lock()
	err := r.out.Encode(x)
	r.mu.Unlock()
	if err != nil {
		err = &pipeError{fmt.Errorf("report to the demo: %w", err)}
		r.broken(err)
	}
	return err
}

// reporting is the RecordProcessor.
type reporting struct {
	processor.Base
	to    *reporter
	shard string
}

func (p *reporting) Initialize(_ context.Context, in processor.InitializationInput) error {
	p.shard = in.Shard.ID
	return p.to.say(report{Kind: started, Shard: p.shard, Token: in.Grant.Token})
}

// ProcessRecords reports first and checkpoints then: a kill in between makes records come again, never get lost.
func (p *reporting) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	if len(in.Records) == 0 {
		return nil
	}
	x := report{Kind: batch, Shard: p.shard, Token: in.Grant.Token, Keys: make([]string, len(in.Records)), Numbers: make([]int64, len(in.Records))}
	for i, r := range in.Records {
		n, err := strconv.ParseInt(string(r.Data), 10, 64)
		if err != nil {
			return fmt.Errorf("read the number of record %s: %w", r.SequenceNumber, err)
		}
		x.Keys[i], x.Numbers[i] = r.PartitionKey, n
	}
	if err := p.to.say(x); err != nil {
		return err
	}
	return in.Checkpointer.Checkpoint(ctx)
}

func (p *reporting) ShardEnded(ctx context.Context, in processor.ShardEndedInput) error {
	if err := p.Base.ShardEnded(ctx, in); err != nil {
		return err
	}
	return p.to.say(report{Kind: ended, Shard: p.shard})
}
