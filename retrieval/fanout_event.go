package retrieval

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/eventstream"

	"github.com/shardlease/shardlease/processor"
)

// Events are read from the connection by ourselves, and not by the SDK, for four reasons. The SDK (smithy-go 1.28.9) takes a
// stream that is cut within an event for one that ended well; it reads ahead of whoever takes the events, so that a slow
// processor is noticed two events late; it keeps three goroutines a subscription; and its decoder is shared, without a lock,
// by all subscriptions of a client. See docs/fan-out.md.

// prelude is the beginning of each message: the lengths of the whole and of its headers, and a checksum of both.
type prelude [12]byte

const (
	// leastMessage is prelude and checksum.
	leastMessage = 16
	// mostMessage is more than any event has: a record of 10 MiB is 14 MB of text.
	mostMessage = 32 << 20
)

// length is how many bytes the message has, prelude included. The error says that this is no message.
func (p *prelude) length() (int64, error) {
	if want := crc32.ChecksumIEEE(p[:8]); want != binary.BigEndian.Uint32(p[8:]) {
		return 0, errors.New("what comes is no event: the checksum of its beginning is wrong")
	}
	n := int64(binary.BigEndian.Uint32(p[:]))
	if n < leastMessage || n > mostMessage {
		return 0, fmt.Errorf("an event is %d bytes long, want %d to %d", n, leastMessage, mostMessage)
	}
	return n, nil
}

// readPrelude reads the beginning of the next message. io.EOF means that the stream ended before one; every other end is an
// error of its own.
func readPrelude(from io.Reader) (p prelude, err error) {
	if _, err = io.ReadFull(from, p[:]); errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the connection was cut within an event: %w", err)
	}
	return p, err
}

// payloads are buffers for the text of events, which is of no use once its records are made.
var payloads = sync.Pool{New: func() any { return new([]byte) }}

// readEvent reads the message that p begins. It returns nil for one that says nothing: the first of a stream, and those that
// are not known, whose type is then returned. An exception is an error like that of a call.
func readEvent(from io.Reader, p prelude, length int64) (e *event, unknown string, err error) {
	buffer := payloads.Get().(*[]byte)
	defer payloads.Put(buffer)
	if need := int(length) + 512; cap(*buffer) < need { // the decoder's buffer grows if less than 512 bytes are free
		*buffer = make([]byte, 0, need)
	}
	var decoder eventstream.Decoder
	m, err := decoder.Decode(io.MultiReader(&part{p[:]}, from), (*buffer)[:0])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, "", fmt.Errorf("the connection was cut within an event: %w", io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, "", fmt.Errorf("decode an event: %w", err)
	}
	header := func(name string) string {
		if v := m.Headers.Get(name); v != nil {
			return v.String()
		}
		return ""
	}
	switch kind := header(eventstream.MessageTypeHeader); kind {
	case eventstream.EventMessageType:
	case eventstream.ExceptionMessageType:
		return nil, "", exception(header(eventstream.ExceptionTypeHeader), m.Payload)
	case eventstream.ErrorMessageType:
		return nil, "", streamError(header(eventstream.ErrorCodeHeader), header(eventstream.ErrorMessageHeader))
	default:
		return nil, "message of type " + kind, nil
	}
	switch kind := header(eventstream.EventTypeHeader); kind {
	case "SubscribeToShardEvent":
		e = new(event)
		if err := json.Unmarshal(m.Payload, e); err != nil {
			return nil, "", fmt.Errorf("decode an event: %w", err)
		}
		if n := len(e.Records); n > 0 {
			err = numbered(e.Records[n-1].SequenceNumber)
		}
		return e, "", err
	case "initial-response":
		return nil, "", nil
	default:
		return nil, kind, nil
	}
}

// streamError is what the service reports in the midst of a stream. A code of which nothing is known is the service's own trouble: had
// it been refused, the call would have told.
func streamError(code, message string) error {
	return &smithy.GenericAPIError{Code: code, Message: message, Fault: smithy.FaultServer}
}

// exception makes the error of which a message tells.
func exception(code string, payload []byte) error {
	var said struct{ Message string }
	_ = json.Unmarshal(payload, &said) // without text the code must do
	return streamError(code, said.Message)
}

// part is bytes.Reader without the methods by which io.MultiReader would be taken for more than it is.
type part struct{ rest []byte }

func (o *part) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// event is a SubscribeToShardEvent.
type event struct {
	Records []struct {
		SequenceNumber, PartitionKey string
		Data                         []byte
		ApproximateArrivalTimestamp  float64 // seconds since 1970
	}
	ContinuationSequenceNumber string // empty at the end of the shard
	MillisBehindLatest         int64
	ChildShards                []types.ChildShard // at the end of the shard only
}

// records makes our records of the event's without copying data. bytes is what they hold.
func (e *event) records() (out []processor.Record, bytes int64) {
	if len(e.Records) == 0 {
		return nil, 0
	}
	out = make([]processor.Record, len(e.Records))
	for i := range e.Records {
		r, o := &e.Records[i], &out[i]
		o.SequenceNumber, o.PartitionKey, o.Data = r.SequenceNumber, r.PartitionKey, r.Data
		if at := r.ApproximateArrivalTimestamp; at > 0 {
			o.ApproximateArrival = time.UnixMilli(int64(math.Round(at * 1000))).UTC()
		}
		bytes += int64(len(o.Data) + len(o.PartitionKey) + len(o.SequenceNumber))
	}
	return out, bytes
}
