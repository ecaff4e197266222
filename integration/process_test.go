//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
)

// envWorker makes the test binary a worker instead: its value is a spec in JSON.
const envWorker = "SHARDLEASE_INTEGRATION_WORKER"

// failoverTime is that of workers that are killed or frozen.
const failoverTime = 2 * time.Second

// patience is for what must come at some time, also on a machine that is very busy: who waits longer waits in vain.
const patience = time.Minute

// spec is what a worker's process is told.
type spec struct {
	Role              string // a key of roles
	ID, App, Stream   string
	Kinesis, DynamoDB string // endpoints
	Failover          time.Duration
	Latest            bool // start there
	Graceful          bool // stop at SIGTERM; says "ready" and "stopped"
}

// roles are the processors that a process may have.
var roles = map[string]processor.Factory{
	"stubborn": func(processor.Shard) processor.RecordProcessor { return &stubborn{} },
	"mute":     func(s processor.Shard) processor.RecordProcessor { return &reader{shard: s.ID} },
	"teller":   func(processor.Shard) processor.RecordProcessor { return &teller{} },
	"careful":  func(s processor.Shard) processor.RecordProcessor { return &reader{shard: s.ID, checkpoints: true} },
	"audited":  reporter.Processor,
}

func TestMain(m *testing.M) {
	if v := os.Getenv(envWorker); v != "" {
		if err := beWorker(v); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		return
	}
	if err := fleettest.AtOnce(2); err != nil { // they wait for processes
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// beWorker is the other process.
func beWorker(text string) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("read %s: %w", envWorker, err)
	}
	cfg := config.Default(s.App, s.Stream)
	cfg.WorkerID = s.ID
	cfg.LeaseManagement.FailoverTime = s.Failover
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn})) // seen if a test fails
	cfg.Hooks = &config.Hooks{LeaseTaken: func(e config.LeaseEvent) {
		if e.From != "" {
			fmt.Println("stole", e.LeaseKey, "from", e.From)
		}
	}}
	if s.Latest {
		cfg.InitialPosition = config.Latest()
	}
	k, d := clients(s.ID, s.Kinesis, s.DynamoDB)
	w, err := shardlease.New(cfg, aws.Config{}, roles[s.Role], shardlease.WithKinesis(k), shardlease.WithDynamoDB(d))
	if err != nil {
		return err
	}
	if s.Graceful {
		return runGracefully(w, s.ID)
	}
	return w.Run(context.Background())
}

// runGracefully stops at SIGTERM.
func runGracefully(w *shardlease.Worker, id string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-w.Ready()
		fmt.Println("ready", id)
	}()
	if err := w.Run(ctx); err != nil {
		return err
	}
	fmt.Println("stopped", id)
	return nil
}

// clients are those of two local endpoints. The emulator tells clients from each other by their names.
func clients(name, kinesisURL, dynamodbURL string) (*kinesis.Client, *dynamodb.Client) {
	cloud := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider(name, "x", "")}
	return kinesis.NewFromConfig(cloud, func(o *kinesis.Options) { o.BaseEndpoint = &kinesisURL }),
		dynamodb.NewFromConfig(cloud, func(o *dynamodb.Options) { o.BaseEndpoint = &dynamodbURL })
}

// process is a worker in a process of its own, whose lines are kept as they come.
type process struct {
	id    string
	cmd   *exec.Cmd
	read  chan struct{} // closed when everything it wrote was read
	ended sync.Once
	mu    sync.Mutex
	lines []string
	times []time.Time // when each was read
	grown chan struct{}
}

func startProcess(t *testing.T, s spec) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{id: s.ID, cmd: exec.CommandContext(t.Context(), self), read: make(chan struct{}), grown: make(chan struct{}, 1)}
	p.cmd.Env = append(os.Environ(), envWorker+"="+string(text))
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<20) // a report names every record of a batch
		for in.Scan() {
			p.mu.Lock()
			p.lines, p.times = append(p.lines, in.Text()), append(p.times, time.Now())
			p.mu.Unlock()
			select {
			case p.grown <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process as a crash would, and returns when it is gone and everything it wrote was read.
func (p *process) kill() {
	p.ended.Do(func() {
		_ = p.cmd.Process.Kill()
		<-p.read
		_ = p.cmd.Wait()
	})
}

// seen returns the lines that begin with word, without it.
func (p *process) seen(word string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for _, line := range p.lines {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			found = append(found, rest)
		}
	}
	return found
}

// wait returns the lines that begin with word once there are n of them.
func (p *process) wait(t *testing.T, word string, n int) []string {
	t.Helper()
	return p.waitFor(t, word, n, patience)
}

func (p *process) waitFor(t *testing.T, word string, n int, limit time.Duration) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		if found := p.seen(word); len(found) >= n {
			return found
		}
		select {
		case <-p.grown:
		case <-ctx.Done():
			t.Fatalf("process %s printed %d lines %q in %v, want %d; all: %q", p.id, len(p.seen(word)), word, limit, n, p.lines)
		}
	}
}
