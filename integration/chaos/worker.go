//go:build unix

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/audit"
)

// The names of the stream and of the application, and so of its table.
const (
	streamName = "chaos"
	appName    = "chaos-app"
	region     = "us-east-1"
)

// wall is the kind of report that says what the process's wall clock shows: From is the time, and Numbers by how many seconds it is
// meant to be wrong.
const wall audit.Kind = "wall"

// workerGrace is how long a worker tries to stop gracefully.
const workerGrace = 20 * time.Second

// workerOptions say who a worker is.
type workerOptions struct {
	id, table, stream string
	failover          time.Duration
	shift             time.Duration
}

// runWorker is the main of a worker's process: an ordinary worker whose processor reports. It ends gracefully when ctx does, or
// when in ends: the parent closes it, by intent or by its death. Lines of in set the wall clock.
func runWorker(ctx context.Context, args []string, in io.Reader, out, log io.Writer) error {
	var o workerOptions
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.StringVar(&o.id, "id", "", "worker id")
	flags.StringVar(&o.table, "table", "", "endpoint of DynamoDB")
	flags.StringVar(&o.stream, "stream", "", "endpoint of Kinesis")
	flags.DurationVar(&o.failover, "failover", 0, "failover time")
	flags.DurationVar(&o.shift, "wall", 0, "by how much the wall clock is wrong at the start")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := audit.NewReporter(out, stop)
	if o.shift != 0 {
		if err := shiftAndSay(r, o.shift); err != nil {
			return err
		}
	}
	go func() { // nobody waits: a read cannot be called off
		err := obey(in, r)
		stop(err)
	}()
	cfg := config.Default(appName, streamName)
	cfg.WorkerID = o.id
	cfg.LeaseManagement.FailoverTime = o.failover
	cfg.Cleanup.Interval = 5 * time.Second
	cfg.Lifecycle.ShutdownGrace = workerGrace
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	cfg.Hooks = r.Hooks()
	cloud := aws.Config{Region: region, Credentials: credentials.NewStaticCredentialsProvider(o.id, "chaos", "")}
	w, err := shardlease.New(cfg, cloud, r.Processor,
		shardlease.WithKinesis(kinesis.NewFromConfig(cloud, func(k *kinesis.Options) { k.BaseEndpoint = &o.stream })),
		shardlease.WithDynamoDB(dynamodb.NewFromConfig(cloud, func(d *dynamodb.Options) { d.BaseEndpoint = &o.table })))
	if err != nil {
		return err
	}
	return r.Run(ctx, stop, w)
}

// obey does what the parent writes, until it closes the pipe: "wall 1h0m0s" sets the wall clock an hour ahead of the true time.
func obey(in io.Reader, r *audit.Reporter) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		d, err := time.ParseDuration(rest)
		if word != "wall" || err != nil {
			return fmt.Errorf("the parent wrote %q, want wall and a duration", lines.Text())
		}
		if err := shiftAndSay(r, d); err != nil {
			return err
		}
	}
	return nil
}

func shiftAndSay(r *audit.Reporter, d time.Duration) error {
	if err := shiftWall(d); err != nil {
		return err
	}
	return r.Say(audit.Report{Kind: wall, From: time.Now().Format(time.RFC3339Nano), Numbers: []int64{int64(d / time.Second)}})
}
