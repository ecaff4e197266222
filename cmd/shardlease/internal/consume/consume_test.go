package consume_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/consume"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// output is what a consumer prints to. It can break after some bytes, as a pipe does whose reader has gone.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	takes int // bytes; 0: any number
}

var errGone = errors.New("broken pipe")

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.takes > 0 && o.text.Len()+len(p) > o.takes {
		n, _ := o.text.Write(p[:o.takes-o.text.Len()])
		return n, errGone
	}
	return o.text.Write(p)
}

// records counts complete lines by their data.
func (o *output) records(t *testing.T) map[string]int {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	got := map[string]int{}
	lines := strings.SplitAfter(o.text.String(), "\n")
	for _, l := range lines[:len(lines)-1] {
		var r struct{ Data string }
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatalf("line %q: %v", l, err)
		}
		got[r.Data]++
	}
	return got
}

func newServer(t *testing.T, shards, records int) *emulator.Server {
	t.Helper()
	server := emulator.New()
	if err := server.CreateStream("orders", shards); err != nil {
		t.Fatal(err)
	}
	put(t, server, 0, records)
	return server
}

func put(t *testing.T, server *emulator.Server, from, to int) {
	t.Helper()
	api := kinesis.NewFromConfig(server.AWSConfig())
	for i := from; i < to; i += 100 {
		in := &kinesis.PutRecordsInput{StreamName: aws.String("orders")}
		for n := i; n < min(to, i+100); n++ {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint("key", n%50)), Data: fmt.Append(nil, n)})
		}
		if _, err := api.PutRecords(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
}

func options(server *emulator.Server, worker string) consume.Options {
	cloud := server.ClientConfig(worker)
	cfg := config.Default("orders-audit", "orders")
	cfg.WorkerID = worker
	return consume.Options{
		Config: cfg, Cloud: cloud, Kinesis: kinesis.NewFromConfig(cloud), DynamoDB: dynamodb.NewFromConfig(cloud),
		Format: consume.JSON, UntilCaughtUp: true,
	}
}

// A script that went on after it would take what was read for everything.
func TestRun_untilCaughtUpFailsIfItIsStoppedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, 1, 10)
		server.Inject(emulator.Rule{Operation: "GetRecords", Effect: emulator.Fail(400, "ProvisionedThroughputExceededException", "slow down")})
		for until, want := range map[bool]string{true: "stopped before it had caught up", false: ""} {
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			o := options(server, fmt.Sprint("until ", until))
			o.UntilCaughtUp = until
			err := consume.Run(ctx, &output{}, o)
			stop()
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("until caught up: %t: %v, want %q", until, err, want)
			}
		}
	})
}

func TestRun_untilCaughtUpPrintsEverythingOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, 4, 1000)
		start := time.Now()
		var first, second output
		if err := consume.Run(t.Context(), &first, options(server, "w1")); err != nil {
			t.Fatal(err)
		}
		got := first.records(t)
		if len(got) != 1000 {
			t.Errorf("printed %d different records, want 1000", len(got))
		}
		for data, times := range got {
			if times != 1 {
				t.Errorf("printed %s %d times", data, times)
			}
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("that took %v, want a few seconds", d)
		}
		put(t, server, 1000, 1010)
		if err := consume.Run(t.Context(), &second, options(server, "w2")); err != nil {
			t.Fatal(err)
		}
		if got := second.records(t); len(got) != 10 {
			t.Errorf("a second run printed %d records, want the 10 new ones", len(got))
		}
	})
}

func TestRun_withAnOutputThatBreaksCheckpointsOnlyWhatWasWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, 4, 1000)
		first, second := &output{takes: 60_000}, &output{}
		err := consume.Run(t.Context(), first, options(server, "w1"))
		if !errors.Is(err, errGone) {
			t.Errorf("error = %v, want that of the output", err)
		}
		if err := consume.Run(t.Context(), second, options(server, "w2")); err != nil {
			t.Fatal(err)
		}
		one, two := first.records(t), second.records(t)
		for n := range 1000 {
			if data := strconv.Itoa(n); one[data]+two[data] == 0 {
				t.Fatalf("record %s was never printed; %d were before the break, %d after it", data, len(one), len(two))
			}
		}
		if len(one) == 0 || len(one) == 1000 {
			t.Errorf("%d records were printed before the break, want some", len(one))
		}
	})
}

func TestRun_untilCaughtUpTakesOverFromAPeerThatVanishes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, 4, 0)
		peerContext, stopPeer := context.WithCancel(t.Context())
		peerOptions := options(server, "peer")
		peerOptions.UntilCaughtUp = false
		var peer, survivor output
		peerDone := make(chan error, 1)
		go func() { peerDone <- consume.Run(peerContext, &peer, peerOptions) }()
		for held := 0; held < 4; {
			held = owned(t, server, "peer")
			step(t)
		}
		thaw := server.Inject(emulator.Rule{Client: "peer", Effect: emulator.Freeze()})
		put(t, server, 0, 1000)
		if err := consume.Run(t.Context(), &survivor, options(server, "survivor")); err != nil {
			t.Fatal(err)
		}
		if got := survivor.records(t); len(got) != 1000 {
			t.Errorf("the survivor printed %d different records before it said that it had caught up, want all 1000", len(got))
		}
		stopPeer()
		thaw()
		if err := <-peerDone; err != nil {
			t.Errorf("the peer, thawed and stopped: %v", err)
		}
	})
}

func step(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	<-timer.C
	synctest.Wait()
}

func owned(t *testing.T, server *emulator.Server, worker string) (n int) {
	t.Helper()
	out, err := dynamodb.NewFromConfig(server.AWSConfig()).Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("orders-audit")})
	if err != nil {
		return 0 // no table yet
	}
	for _, row := range out.Items {
		if strings.Contains(fmt.Sprintf("%+v", row["leaseOwner"]), worker) {
			n++
		}
	}
	return n
}

func TestRun_refusesAConfigurationBeforeItDoesAnything(t *testing.T) {
	t.Parallel()
	server := emulator.New()
	o := options(server, "w1")
	o.Config.LeaseManagement.FailoverTime = time.Millisecond
	err := consume.Run(t.Context(), &output{}, o)
	if err == nil || !strings.Contains(err.Error(), "FailoverTime is 1ms") {
		t.Errorf("error = %v, want one about FailoverTime", err)
	}
	if n := server.Counts().Of(emulator.CountKey{}).Requests; n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestRun_untilCaughtUpPrintsSeveralStreamsAndNamesThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, 2, 300)
		if err := server.CreateStream("bills", 2); err != nil {
			t.Fatal(err)
		}
		api := kinesis.NewFromConfig(server.AWSConfig())
		if _, err := api.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: aws.String("bills"), PartitionKey: aws.String("k"), Data: []byte("b")}); err != nil {
			t.Fatal(err)
		}
		var out output
		o := options(server, "w1")
		o.Config.StreamName = ""
		o.Config.Streams = []config.StreamConfig{{StreamName: "orders"}, {StreamARN: "arn:aws:kinesis:us-east-1:000000000000:stream/bills"}}
		if err := consume.Run(t.Context(), &out, o); err != nil {
			t.Fatal(err)
		}
		got := out.records(t)
		if len(got) != 301 || got["b"] != 1 {
			t.Errorf("printed %d different records, want 301; of bills %d", len(got), got["b"])
		}
		out.mu.Lock()
		defer out.mu.Unlock()
		if n, b := strings.Count(out.text.String(), `"stream":"orders"`), strings.Count(out.text.String(), `"stream":"bills"`); n != 300 || b != 1 {
			t.Errorf("%d lines name orders, %d bills", n, b)
		}
		second := options(server, "w2")
		second.Config.StreamName, second.Config.Streams = "", o.Config.Streams
		if err := consume.Run(t.Context(), &output{}, second); err != nil {
			t.Error(err)
		}
	})
}
