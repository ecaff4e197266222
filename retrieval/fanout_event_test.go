package retrieval

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go/eventstream"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/processor"
)

// message encodes one as the service does.
func message(tb testing.TB, kind, header, name, payload string) []byte {
	tb.Helper()
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(header, eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Headers.Set("other", eventstream.Int64Value(7))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// read is what a subscription does with one message.
func read(from io.Reader) (*event, string, error) {
	p, err := readPrelude(from)
	if err != nil {
		return nil, "", err
	}
	n, err := p.length()
	if err != nil {
		return nil, "", err
	}
	return readEvent(from, p, n)
}

const wholeEvent = `{"ContinuationSequenceNumber":"12","MillisBehindLatest":5,"New":{},"ChildShards":[{"ShardId":"c","ParentShards":["p"],"HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"9"}}],
"Records":[{"SequenceNumber":"11","PartitionKey":"k","Data":"aGVsbG8=","ApproximateArrivalTimestamp":1700000000.123,"EncryptionType":"NONE"},{"SequenceNumber":"12","PartitionKey":"é","Data":"","ApproximateArrivalTimestamp":1.7E9}]}`

func TestEvent_isReadAsTheServiceWritesIt(t *testing.T) {
	t.Parallel()
	stream := bytes.NewReader(append(append(message(t, "event", ":event-type", "initial-response", "{}"),
		message(t, "event", ":event-type", "SubscribeToShardEvent", wholeEvent)...),
		message(t, "event", ":event-type", "Later", "?")...))
	if e, unknown, err := read(stream); e != nil || unknown != "" || err != nil {
		t.Errorf("initial response: %v, %q, %v", e, unknown, err)
	}
	e, _, err := read(stream)
	if err != nil {
		t.Fatal(err)
	}
	got, size := e.records()
	want := []processor.Record{
		{SequenceNumber: "11", PartitionKey: "k", Data: []byte("hello"), ApproximateArrival: time.UnixMilli(1700000000123).UTC()},
		{SequenceNumber: "12", PartitionKey: "é", Data: []byte{}, ApproximateArrival: time.Unix(1700000000, 0).UTC()},
	}
	if diff := cmp.Diff(want, got); diff != "" || size != 5+1+2+2+2 {
		t.Errorf("records of %d bytes (-want +got):\n%s", size, diff)
	}
	if e.ContinuationSequenceNumber != "12" || e.MillisBehindLatest != 5 || len(childrenOf(e.ChildShards, "p")) != 1 {
		t.Errorf("event %+v", e)
	}
	if _, unknown, err := read(stream); unknown != "Later" || err != nil {
		t.Errorf("an unknown event: %q, %v", unknown, err)
	}
	if _, _, err := read(stream); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestEvent_aCutIsNeverAnEnd(t *testing.T) {
	t.Parallel()
	whole := message(t, "event", ":event-type", "SubscribeToShardEvent", wholeEvent)
	for n := 1; n < len(whole); n++ {
		if _, _, err := read(bytes.NewReader(whole[:n])); err == nil || errors.Is(err, io.EOF) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v, want an unexpected end", n, len(whole), err)
		}
	}
}

func TestEvent_errorsAreThoseOfCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		message []byte
		code    string
		kind    fault
	}{
		"exception":         {message(t, "exception", ":exception-type", "ResourceInUseException", `{"message":"taken over"}`), "ResourceInUseException", inUse},
		"without a payload": {message(t, "exception", ":exception-type", "KMSThrottlingException", ""), "KMSThrottlingException", throttled},
		"error":             {message(t, "error", ":error-code", "InternalFailure", ""), "InternalFailure", transient},
	} {
		_, _, err := read(bytes.NewReader(c.message))
		if code(err) != c.code || faultOf(err) != c.kind {
			t.Errorf("%s: %v of kind %d, want %s", name, err, faultOf(err), c.code)
		}
	}
}

func TestEvent_whatIsNoMessageIsNoticedAtItsBeginning(t *testing.T) {
	t.Parallel()
	length := func(n uint32) string {
		var p prelude
		binary.BigEndian.PutUint32(p[:], n)
		binary.BigEndian.PutUint32(p[8:], crc32.ChecksumIEEE(p[:8]))
		return string(p[:])
	}
	for name, text := range map[string]string{
		"HTML":      "<html><body>Bad gateway</body></html>",
		"too short": length(15) + strings.Repeat("x", 100),
		"too long":  length(1<<31) + strings.Repeat("x", 100),
	} {
		if _, _, err := read(strings.NewReader(text)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v, want what is wrong with it", name, err)
		}
	}
}

// Whatever comes on a connection, reading it ends with a message, an end or an error, and never takes more memory than a message may have.
func FuzzEvent(f *testing.F) {
	f.Add(message(f, "event", ":event-type", "SubscribeToShardEvent", wholeEvent))
	f.Add(message(f, "exception", ":exception-type", "ResourceInUseException", `{"message":"taken over"}`))
	f.Add([]byte("HTTP/1.1 200 OK\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		for range 100 {
			e, _, err := read(from)
			if err != nil {
				return
			}
			if e != nil {
				e.records()
			}
		}
	})
}

func TestPatience_learnsFromPauses(t *testing.T) {
	t.Parallel()
	p := patience{most: 35 * time.Second}
	if d := p.limit(0); d != 35*time.Second {
		t.Errorf("%v before anything was heard, want what is configured", d)
	}
	for range enoughPauses {
		p.heard(time.Second)
	}
	if d := p.limit(0); d != 5*time.Second {
		t.Errorf("%v after pauses of a second, want 5s", d)
	}
	if d := p.limit(2); d != 20*time.Second {
		t.Errorf("%v after two silent subscriptions, want 20s", d)
	}
	p.heard(5 * time.Second)
	if d := p.limit(0); d != 20*time.Second {
		t.Errorf("%v after a pause of 5 s, want 20s", d)
	}
	if d := p.limit(50); d != 35*time.Second {
		t.Errorf("%v after fifty silent subscriptions, want what is configured", d)
	}
}
