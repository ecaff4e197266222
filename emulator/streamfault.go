package emulator

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// What follows are faults of subscriptions: they let SubscribeToShard's answer begin, and n of its events through, before
// they strike. An idle shard's events count too, of which there is one a second. Other operations are not affected.

// SilenceAfter lets n events through and then none: the subscription stays open, and nothing comes until the client gives it
// up.
func SilenceAfter(n int) Effect { return streamFault(n, silenceFault) }

// CutEventAfter lets n events through and breaks the connection in the middle of the next one.
func CutEventAfter(n int) Effect { return streamFault(n, cutFault) }

// GarbageAfter lets n events through, spoils a byte of the next one, so that its checksum is wrong, and goes on after it as if
// nothing had happened.
func GarbageAfter(n int) Effect { return streamFault(n, garbageFault) }

// UnknownEventAfter lets n events through, then adds an event of a type that no client knows, and goes on.
func UnknownEventAfter(n int) Effect { return streamFault(n, unknownFault) }

// EndAfter lets n events through and ends the subscription well, as the service does after 5 minutes.
func EndAfter(n int) Effect { return streamFault(n, endFault) }

// ExceptionAfter lets n events through and ends the subscription with an error in an event of its own, which is how the
// service reports what goes wrong once the answer has begun.
func ExceptionAfter(n int, code, message string) Effect {
	e := streamFault(n, exceptionFault)
	e.code, e.message = code, message
	return e
}

func streamFault(n int, kind streamFaultKind) Effect {
	return Effect{kind: streamEffect, stream: kind, events: max(0, n)}
}

type streamFaultKind int

const (
	silenceFault streamFaultKind = iota
	cutFault
	garbageFault
	unknownFault
	endFault
	exceptionFault
)

// errEnded makes the service stop writing to a subscription that has ended well, or with an exception.
var errEnded = errors.New("subscription ended by a fault rule")

// events counts the messages of an event stream, which the service writes one at a time, and does what the rules say.
type events struct {
	faults  []Effect
	passed  int // messages, the first of which is the initial response
	stopped error
}

// pass sends one message, or what the rules make of it.
func (e *events) pass(ctx context.Context, r *response, message []byte) (int, error) {
	if e.stopped != nil {
		return 0, e.stopped
	}
	n := e.passed
	e.passed++
	for _, f := range e.faults {
		if n != f.events+1 {
			continue
		}
		switch f.stream {
		case silenceFault:
			<-ctx.Done()
			e.stopped = context.Cause(ctx)
		case cutFault:
			_, _ = r.pass(message[:len(message)/2])
			e.stopped = errCut
		case garbageFault:
			spoilt := append([]byte(nil), message...)
			spoilt[len(spoilt)/2] ^= 0xff
			message = spoilt
		case unknownFault:
			e.add(r, "event", ":event-type", "SomethingNew", nil)
		case endFault:
			e.stopped = errEnded
		case exceptionFault:
			e.add(r, "exception", ":exception-type", f.code, []byte(`{"message":"`+f.message+`"}`))
			e.stopped = errEnded
		}
		if e.stopped != nil {
			return 0, e.stopped
		}
	}
	return r.pass(message)
}

// add sends a message of ours.
func (e *events) add(r *response, kind, header, name string, payload []byte) {
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(header, eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	_ = eventstream.NewEncoder().Encode(passer{r}, m) // the client may be gone
	_ = http.NewResponseController(r.to).Flush()
}

type passer struct{ r *response }

func (p passer) Write(b []byte) (int, error) { return p.r.pass(b) }
