package demo

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/audit"
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
	r := audit.NewReporter(out, stop)
	cfg := config.Default(o.App, o.Stream)
	cfg.WorkerID = o.ID
	cfg.LeaseManagement.FailoverTime = o.FailoverTime
	cfg.Cleanup.Interval, cfg.Cleanup.KeepFinished = CleanupInterval, keepFinished
	cfg.Lifecycle.ShutdownGrace = workerGrace // if the parent is dead there is no table to release a lease in
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Hooks = r.Hooks()
	cloud := aws.Config{
		Region: emulator.Region, BaseEndpoint: aws.String(o.Endpoint),
		Credentials: credentials.NewStaticCredentialsProvider(o.ID, "demo", ""),
	}
	w, err := shardlease.New(cfg, cloud, r.Processor)
	if err != nil {
		return err
	}
	return r.Run(ctx, stop, w)
}
