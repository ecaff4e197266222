package emulator_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/shardlease/shardlease/emulator"
)

// javaClient speaks with a port as the AWS SDK for Java does with Kinesis: HTTP/2 from the first byte, and CBOR.
type javaClient struct {
	http.Client
	url string
}

func newJavaClient(t *testing.T, url string) *javaClient {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := &javaClient{Client: http.Client{Transport: &http.Transport{Protocols: &protocols}}, url: url}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func (c *javaClient) send(t *testing.T, operation string, in cbor.Map) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, bytes.NewReader(cbor.Encode(in)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "Kinesis_20131202."+operation)
	r.Header.Set("Content-Type", "application/x-amz-cbor-1.1")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=java/20260101/us-east-1/kinesis/aws4_request")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func (c *javaClient) call(t *testing.T, operation string, in cbor.Map) (status int, out cbor.Map) {
	t.Helper()
	resp := c.send(t, operation, in) //nolint:bodyclose // send does it at the end of the test
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	v, err := cbor.Decode(body)
	if got := resp.Header.Get("Content-Type"); err != nil || got != "application/x-amz-cbor-1.1" || resp.ProtoMajor != 2 {
		t.Fatalf("%s: %s over %s, content type %s, %x, %v", operation, resp.Status, resp.Proto, got, body, err)
	}
	return resp.StatusCode, v.(cbor.Map)
}

func TestListen_speaksCBORWithKinesisClients(t *testing.T) {
	t.Parallel()
	w, url := listening(t)
	java := newJavaClient(t, url)
	name := cbor.String("orders")

	_, put := java.call(t, "PutRecord", cbor.Map{"StreamName": name, "PartitionKey": cbor.String("k"), "Data": cbor.Slice("a\x00b")})
	_, iterator := java.call(t, "GetShardIterator", cbor.Map{"StreamName": name, "ShardId": put["ShardId"], "ShardIteratorType": cbor.String("TRIM_HORIZON")})
	_, page := java.call(t, "GetRecords", cbor.Map{"ShardIterator": iterator["ShardIterator"], "Limit": cbor.Uint(10)})
	records, _ := page["Records"].(cbor.List)
	if len(records) != 1 {
		t.Fatalf("records %v, want one", page)
	}
	record := records[0].(cbor.Map)
	if got, _ := record["Data"].(cbor.Slice); string(got) != "a\x00b" || record["SequenceNumber"] != put["SequenceNumber"] {
		t.Errorf("record %v, want that of %v", record, put)
	}
	if _, isTime := record["ApproximateArrivalTimestamp"].(*cbor.Tag); !isTime {
		t.Errorf("arrival %v, want a tagged time", record["ApproximateArrivalTimestamp"])
	}
	if _, there := page["NextShardIterator"].(cbor.String); !there {
		t.Errorf("page %v, want a NextShardIterator", page)
	}

	key := emulator.CountKey{Client: "java", Service: emulator.Kinesis, Operation: "GetShardIterator"}
	status, fault := java.call(t, "GetShardIterator", cbor.Map{"StreamName": cbor.String("none"), "ShardId": put["ShardId"], "ShardIteratorType": cbor.String("LATEST")})
	if status != http.StatusBadRequest || fault["__type"] != cbor.String("ResourceNotFoundException") {
		t.Errorf("status %d, %v; want a ResourceNotFoundException", status, fault)
	}
	remove := w.Inject(emulator.Rule{Client: "java", Effect: emulator.Throttle()})
	_, fault = java.call(t, "GetShardIterator", cbor.Map{})
	remove()
	if fault["__type"] != cbor.String("ProvisionedThroughputExceededException") {
		t.Errorf("throttled with %v", fault)
	}
	if got := w.Counts().Of(key); got.Requests != 3 || got.Errors != 2 || got.Throttled != 1 {
		t.Errorf("counted %+v, want 3 requests, 2 errors, 1 throttled", got)
	}
}

func TestListen_sendsEventsInCBORToClientsThatSpeakIt(t *testing.T) {
	t.Parallel()
	w, url := listening(t)
	java := newJavaClient(t, url)
	_, stream := java.call(t, "DescribeStreamSummary", cbor.Map{"StreamName": cbor.String("orders")})
	arn := stream["StreamDescriptionSummary"].(cbor.Map)["StreamARN"]
	_, consumer := java.call(t, "RegisterStreamConsumer", cbor.Map{"StreamARN": arn, "ConsumerName": cbor.String("java")})
	w.put(t, "first")

	events := java.send(t, "SubscribeToShard", cbor.Map{ //nolint:bodyclose // send does it at the end of the test
		"ConsumerARN": consumer["Consumer"].(cbor.Map)["ConsumerARN"], "ShardId": cbor.String(firstShard),
		"StartingPosition": cbor.Map{"Type": cbor.String("TRIM_HORIZON")},
	})
	decoder := eventstream.NewDecoder()
	for _, want := range []string{"initial-response", "SubscribeToShardEvent"} {
		m, err := decoder.Decode(events.Body, nil)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := cbor.Decode(m.Payload)
		if err != nil || m.Headers.Get(":event-type").String() != want || m.Headers.Get(":content-type").String() != "application/x-amz-cbor-1.1" {
			t.Fatalf("event %v with %x, %v; want %s", m.Headers, m.Payload, err, want)
		}
		if records, _ := payload.(cbor.Map)["Records"].(cbor.List); want == "SubscribeToShardEvent" && len(records) != 1 {
			t.Errorf("event %v, want one record", payload)
		}
	}
}
