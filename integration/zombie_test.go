//go:build unix

package integration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// envWorker makes the test binary a worker instead: its value is "<worker id> <endpoint>".
const envWorker = "SHARDLEASE_INTEGRATION_WORKER"

func TestMain(m *testing.M) {
	for env, be := range map[string]func(id, url string) error{envWorker: beWorker, envRolling: beRolling} {
		if v := os.Getenv(env); v != "" {
			id, url, _ := strings.Cut(v, " ")
			if err := be(id, url); err != nil {
				fmt.Println("failed", err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

const failoverTime = 2 * time.Second

// beWorker is the other process: a worker whose processor checkpoints one record after the other, slowly, whatever its
// context says, and prints what becomes of it.
func beWorker(id, url string) error {
	cfg := config.Default("zombies", "orders")
	cfg.WorkerID = id
	cfg.LeaseManagement.FailoverTime = failoverTime
	cloud := aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	}
	w, err := shardlease.New(cfg, cloud, func(processor.Shard) processor.RecordProcessor { return &stubborn{} })
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

type stubborn struct{ processor.Base }

func (*stubborn) Initialize(_ context.Context, in processor.InitializationInput) error {
	fmt.Println("initialized", in.Grant.Token, in.Position)
	return nil
}

func (*stubborn) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	cancelled := false
	for _, r := range in.Records {
		if !cancelled && ctx.Err() != nil {
			cancelled = true
			fmt.Println("cancelled", context.Cause(ctx))
		}
		if err := in.Checkpointer.CheckpointAt(context.WithoutCancel(ctx), r.Position()); err != nil {
			fmt.Println("refused", err)
		} else {
			fmt.Println("landed", r.SequenceNumber)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// process is a worker in a process of its own, whose lines are kept as they come.
type process struct {
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	grown chan struct{}
}

func startProcess(t *testing.T, id, url string) *process { return startAs(t, envWorker, id, url) }

// startAs starts this test binary as the worker that the variable env makes it.
func startAs(t *testing.T, env, id, url string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), self), grown: make(chan struct{}, 1)}
	p.cmd.Env = append(os.Environ(), env+"="+id+" "+url)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(out); in.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, in.Text())
			p.mu.Unlock()
			select {
			case p.grown <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

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
	return p.waitFor(t, word, n, 20*time.Second)
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
			t.Fatalf("process %v printed %d lines %q in %v, want %d; all: %q", p.cmd.Args, len(p.seen(word)), word, limit, n, p.lines)
		}
	}
}

func TestZombie_stoppedPastItsLeaseAndContinuedMovesNothingAnyMore(t *testing.T) {
	t.Parallel()
	srv := emulator.New()
	url, stop, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := srv.CreateStream("orders", 1); err != nil {
		t.Fatal(err)
	}
	stream, key := "orders", "k"
	entries := make([]types.PutRecordsRequestEntry, 400)
	for i := range entries {
		entries[i] = types.PutRecordsRequestEntry{PartitionKey: &key, Data: []byte(strconv.Itoa(i))}
	}
	if _, err := kinesis.NewFromConfig(srv.AWSConfig()).PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &stream, Records: entries}); err != nil {
		t.Fatal(err)
	}

	old := startProcess(t, "old", url)
	old.wait(t, "landed", 5)
	if err := old.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fresh := startProcess(t, "fresh", url)
	began := fresh.wait(t, "initialized", 1)[0]
	fresh.wait(t, "landed", 3)
	if err := old.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	cause := old.wait(t, "cancelled", 1)[0]
	old.wait(t, "refused", 3)
	fresh.wait(t, "landed", 10)

	oldToken, _, _ := strings.Cut(old.seen("initialized")[0], " ")
	token, position, _ := strings.Cut(began, " ")
	was, err1 := strconv.ParseInt(oldToken, 10, 64)
	is, err2 := strconv.ParseInt(token, 10, 64)
	if err1 != nil || err2 != nil || is <= was {
		t.Errorf("the new owner's token is %s, the old one's %s, want a larger one", token, oldToken)
	}
	for _, number := range old.seen("landed") {
		// The reply to a checkpoint that landed before the stop may have been read after it.
		if len(number) > len(position) || len(number) == len(position) && number > position {
			t.Errorf("a checkpoint of the replaced owner landed at %s, beyond %s, where the new owner began", number, position)
		}
	}
	if lost := fresh.seen("refused"); len(lost) > 0 {
		t.Errorf("checkpoints of the new owner were refused: %q", lost)
	}
	t.Logf("context ended with %q; %d checkpoints refused; tokens %s and %s", cause, len(old.seen("refused")), oldToken, token)
}
