//go:build unix

package javakcl

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/audit"
)

var (
	withJava = flag.Bool("java", false, "run the tests that start Java workers, for minutes")
	failover = flag.Duration("java-failover", 10*time.Second, "failover time of all workers, Java's own default unless given")
	settled  = flag.Duration("java-settled", 40*time.Second, "for how long a fleet must have been balanced before nothing may move any more")
	stopTime = flag.Duration("java-stop", 40*time.Second, "how long a graceful stop may take before SIGKILL, which hardly any but KCL 2.7.2 needs")
	watch    = flag.Duration("java-watch", 3*time.Minute, "for how long nothing may move then")
)

// envWorker makes the test binary a Go worker instead: its value is a goWorker in JSON.
const envWorker = "SHARDLEASE_JAVAKCL_WORKER"

// goWorker is what a Go worker's process is told.
type goWorker struct {
	ID, Application, Stream, Endpoint string
	Failover                          time.Duration
	Mode                              config.RetrievalMode
}

func TestMain(m *testing.M) {
	if v := os.Getenv(envWorker); v != "" {
		if err := beGoWorker(v); err != nil {
			fmt.Fprintln(os.Stderr, "worker ended:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beGoWorker is the other process. It stops at SIGTERM.
func beGoWorker(text string) error {
	var g goWorker
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return fmt.Errorf("read %s: %w", envWorker, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	reporter := audit.NewReporter(os.Stdout, func(error) { stop() })
	cfg := config.Default(g.Application, g.Stream)
	cfg.WorkerID = g.ID
	cfg.LeaseManagement.FailoverTime = g.Failover
	cfg.Retrieval.Mode = g.Mode
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg.Hooks = reporter.Hooks()
	cloud := aws.Config{
		Region: emulator.Region, BaseEndpoint: &g.Endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(g.ID, "secret", ""),
	}
	w, err := shardlease.New(cfg, cloud, reporter.Processor)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
