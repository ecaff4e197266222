//go:build unix

package integration

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

var zombies = flag.Int("zombies", 1, "frozen processes of TestZombie")

// stubborn is a processor that checkpoints one record after the other, slowly, whatever its context says, and prints what
// becomes of it.
type stubborn struct{ processor.Base }

func (*stubborn) Initialize(_ context.Context, in processor.InitializationInput) error {
	fmt.Println("initialized", in.Grant.Token, in.Position)
	return nil
}

// ProcessRecords prints with each refusal whether the context had ended by then: "refused over …" or "refused alive …".
func (*stubborn) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	cancelled := false
	for _, r := range in.Records {
		err := in.Checkpointer.CheckpointAt(context.WithoutCancel(ctx), r.Position())
		over := ctx.Err() != nil
		if over && !cancelled {
			cancelled = true
			fmt.Println("cancelled", context.Cause(ctx))
		}
		switch {
		case err == nil:
			fmt.Println("landed", r.SequenceNumber)
		case over:
			fmt.Println("refused over", err)
		default:
			fmt.Println("refused alive", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// TestZombie_stoppedPastItsLeaseAndContinuedMovesNothingAnyMore freezes a process with SIGSTOP in the middle of a batch for two
// failover times, in which another takes its lease, and lets it go on. What it tries to checkpoint from then on must be refused,
// by itself or by the table, and its processor must know by the first refusal.
func TestZombie_stoppedPastItsLeaseAndContinuedMovesNothingAnyMore(t *testing.T) { //nolint:tparallel // what the group adds up is printed after it
	t.Parallel()
	var refused, accepted atomic.Int64
	t.Run("each", func(t *testing.T) {
		for i := range *zombies {
			t.Run(strconv.Itoa(i+1), func(t *testing.T) {
				t.Parallel()
				r, a := zombie(t)
				refused.Add(int64(r))
				accepted.Add(int64(a))
			})
		}
	})
	t.Logf("frozen for %v and continued, %d times: checkpoints of the old tenure refused %d, accepted %d", 2*failoverTime, *zombies, refused.Load(), accepted.Load())
}

// zombie returns how many checkpoints of the frozen process were refused after it went on, and how many the table accepted.
func zombie(t *testing.T) (refused, accepted int) {
	t.Helper()
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

	worker := func(id string) spec {
		return spec{Role: "stubborn", ID: id, App: "zombies", Stream: stream, Kinesis: url, DynamoDB: url, Failover: failoverTime}
	}
	old := startProcess(t, worker("old"))
	old.wait(t, "landed", 5)
	if err := old.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	frozen := time.Now()
	fresh := startProcess(t, worker("fresh"))
	began := fresh.wait(t, "initialized", 1)[0]
	fresh.wait(t, "landed", 3)
	pause(t, time.Until(frozen.Add(2*failoverTime)))
	// The client of a process bears its name. What arrives from now on was sent by the process that has woken up.
	var landed atomic.Int64
	defer srv.Observe(func(e emulator.Event) {
		if e.Client == "old" && e.Service == emulator.DynamoDB && e.Operation == "UpdateItem" && e.Status == http.StatusOK {
			landed.Add(1)
		}
	})()
	if err := old.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	cause := old.wait(t, "cancelled", 1)[0]
	old.wait(t, "refused", 5)
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
	if n := landed.Load(); n != 0 {
		t.Errorf("the table accepted %d writes of the replaced owner, want 0", n)
	}
	if early := old.seen("refused alive"); len(early) > 0 {
		t.Errorf("checkpoints were refused while the processor's context still held: %q", early)
	}
	if lost := fresh.seen("refused"); len(lost) > 0 {
		t.Errorf("checkpoints of the new owner were refused: %q", lost)
	}
	refusals := old.seen("refused")
	t.Logf("context ended with %q; %d checkpoints refused, the first: %s; tokens %s and %s", cause, len(refusals), refusals[0], oldToken, token)
	return len(refusals), int(landed.Load())
}
