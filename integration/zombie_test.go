//go:build unix

package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// stubborn is a processor that checkpoints one record after the other, slowly, whatever its context says, and prints what
// becomes of it.
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

	worker := func(id string) spec {
		return spec{Role: "stubborn", ID: id, App: "zombies", Stream: stream, Kinesis: url, DynamoDB: url}
	}
	old := startProcess(t, worker("old"))
	old.wait(t, "landed", 5)
	if err := old.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fresh := startProcess(t, worker("fresh"))
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
