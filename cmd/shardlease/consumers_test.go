package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/cloud"
)

func TestConsumers_showsWhatIsLeftOverAndRemovesIt(t *testing.T) {
	t.Parallel()
	url := startEmulator(t, "--stream", "orders:2")
	call := func(args ...string) (code int, text string) {
		var out bytes.Buffer
		code = run(t.Context(), append(args, "--endpoint", url), streams{strings.NewReader(""), &out, &out})
		return code, out.String()
	}
	if code, text := call("consumers", "--stream", "orders"); code != exitOK || text != "no consumer is registered with stream orders\n" {
		t.Errorf("exit code %d and %q", code, text)
	}
	api, err := cloud.KinesisFlags{Endpoint: cloud.Text(url)}.Kinesis(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{
		StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/orders"), ConsumerName: aws.String("old-report"),
	}); err != nil {
		t.Fatal(err)
	}
	if code, _ := call("put", "--stream", "orders", "../../go.mod"); code != exitOK {
		t.Fatalf("put: exit code %d", code)
	}
	out, errs, stop := background(t, "consume", "--stream", "orders", "--app", "orders-audit", "--fan-out", "--endpoint", url)
	out.wait(t, `"data"`)
	code, text := call("consumers", "list", "--stream", "orders")
	for _, want := range []string{
		"left over? There is no lease table old-report", "1 worker owns leases: in use if it runs and reads by fan-out\n",
		"to remove one: shardlease consumers deregister --stream orders --endpoint " + url + " NAME\n",
	} {
		if code != exitOK || !strings.Contains(text, want) {
			t.Errorf("exit code %d, %q lacks %q", code, text, want)
		}
	}
	const arn = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
	if code, text := call("consumers", "--stream", arn); code != exitOK || !strings.Contains(text, "old-report") || !strings.Contains(text, "deregister --stream "+arn+" --endpoint "+url) {
		t.Errorf("by ARN: exit code %d and %q", code, text)
	}
	if code, text := call("consumers", "deregister", "--stream", arn, "old-report"); code != exitOK || text != "consumer old-report of stream "+arn+" is deregistered\n" {
		t.Errorf("by ARN: exit code %d and %q", code, text)
	}
	if _, err := api.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{StreamARN: aws.String(arn), ConsumerName: aws.String("old-report")}); err != nil {
		t.Fatal(err)
	}
	if code, text := call("consumers", "deregister", "--stream", "orders", "old-report"); code != exitOK || text != "consumer old-report of stream orders is deregistered\n" {
		t.Errorf("exit code %d and %q", code, text)
	}
	if code, text := call("consumers", "deregister", "--stream", "orders", "old-report"); code != exitFailed || !strings.Contains(text, "ResourceNotFoundException") {
		t.Errorf("exit code %d and %q for one that is gone", code, text)
	}
	if code := stop(); code != exitOK {
		t.Errorf("consume: exit code %d\n%s", code, errs.text.String())
	}
	if _, text := call("consumers", "--stream", "orders"); text != "no consumer is registered with stream orders\n" {
		t.Errorf("after the last process has stopped: %q", text)
	}
}

// How workers read stands in no table, so the list must not say that a consumer is in use because they own leases.
func TestConsumers_namesTheCommandForOneThatAFleetLeftWhenItWentBackToPolling(t *testing.T) {
	t.Parallel()
	url := startEmulator(t, "--stream", "orders:2")
	api, err := cloud.KinesisFlags{Endpoint: cloud.Text(url)}.Kinesis(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{
		StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/orders"), ConsumerName: aws.String("orders-audit"),
	}); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), append(args, "--endpoint", url), streams{strings.NewReader(""), &out, &out}); code != exitOK {
			t.Errorf("%v: exit code %d\n%s", args, code, out.String())
		}
		return out.String()
	}
	call("put", "--stream", "orders", "../../go.mod")
	out, errs, stop := background(t, "consume", "--stream", "orders", "--app", "orders-audit", "--endpoint", url)
	out.wait(t, `"data"`)
	text := call("consumers", "--stream", "orders")
	_, command, found := strings.Cut(text, "if the workers of orders-audit are gone, or poll, it is left over: shardlease ")
	if command, _, _ = strings.Cut(command, "\n"); !found || !strings.Contains(text, "1 worker owns leases: in use if it runs and reads by fan-out\n") {
		t.Fatalf("%q does not tell how to know whether it is in use, and how to remove it", text)
	}
	var said bytes.Buffer
	if code := run(t.Context(), strings.Fields(command), streams{strings.NewReader(""), &said, &said}); code != exitOK {
		t.Errorf("%s: exit code %d\n%s", command, code, said.String())
	}
	if text := call("consumers", "--stream", "orders"); text != "no consumer is registered with stream orders\n" {
		t.Errorf("after the command: %q", text)
	}
	if code := stop(); code != exitOK {
		t.Errorf("consume: exit code %d\n%s", code, errs.text.String())
	}
}
