package kinesis

import (
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

const (
	// heartbeat is how often a subscription without records gets an empty event.
	heartbeat = time.Second
	// takeoverAfter is how long a subscription is safe from another one of the same consumer to the same shard.
	takeoverAfter   = 5 * time.Second
	maxEventRecords = 1000
	maxEventBytes   = 2 << 20
)

type subscription struct {
	since    time.Time
	replaced chan struct{} // closed when another subscription takes over
}

type subscribeInput struct {
	ConsumerARN, ShardId, StreamId string
	StartingPosition               *startingPosition
}

type startingPosition struct {
	Type, SequenceNumber string
	Timestamp            *wire.Time
}

// subscribeToShard answers with an event stream that ends with the shard, the consumer, its time, another subscription's
// takeover, or the client. An error means that nothing was written.
func (k *Service) subscribeToShard(w http.ResponseWriter, r *http.Request, codec wire.Codec, body []byte) *wire.Error {
	var in subscribeInput
	if err := wire.Decode(codec, body, &in); err != nil {
		return err
	}
	now := time.Now()
	c, x, from, me, err := k.subscribe(now, &in)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	w.WriteHeader(http.StatusOK)
	out := eventWriter{w: w, codec: codec, encoder: eventstream.NewEncoder()}
	if !out.event("initial-response", struct{}{}) {
		return nil
	}
	end := time.NewTimer(k.cfg.SubscriptionTTL)
	defer end.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for idle := false; ; {
		turn := k.nextEvent(time.Now(), c, x, from)
		if turn.gone != nil {
			out.exception(turn.gone)
			return nil
		}
		if event := turn.event; len(event.records) > 0 || turn.atEnd || idle {
			if !out.event("SubscribeToShardEvent", event) || turn.atEnd {
				return nil
			}
			from, idle = turn.next, false
			if event.behind > 0 { // more is there: only look whether something ends the subscription
				select {
				case <-end.C:
					return nil
				case <-me.replaced:
					out.exception(inUse("Another subscription of consumer %s to shard %s took over", c.arn, x.id))
					return nil
				case <-r.Context().Done():
					return nil
				default:
					continue
				}
			}
		}
		select {
		case <-turn.changed:
		case <-beat.C:
			idle = true
		case <-end.C:
			return nil
		case <-me.replaced:
			out.exception(inUse("Another subscription of consumer %s to shard %s took over", c.arn, x.id))
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// subscribe checks a request and makes its subscription the consumer's only one to the shard.
func (k *Service) subscribe(now time.Time, in *subscribeInput) (c *consumer, x *shard, from uint64, me *subscription, err *wire.Error) {
	if in.StartingPosition == nil {
		return nil, nil, 0, nil, malformed("StartingPosition is needed")
	}
	if in.ConsumerARN == "" {
		return nil, nil, 0, nil, malformed("ConsumerARN is needed")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err = k.findConsumer(now, consumerRef{ConsumerARN: in.ConsumerARN, StreamId: in.StreamId})
	if err != nil {
		return nil, nil, 0, nil, err
	}
	if status := c.status(now); status != active {
		return nil, nil, 0, nil, inUse("Consumer %s is %s", c.arn, status)
	}
	if x, err = c.stream.shard(now, in.ShardId); err != nil {
		return nil, nil, 0, nil, err
	}
	if err := k.rate("SubscribeToShard", c.arn+" "+x.id, 1); err != nil {
		return nil, nil, 0, nil, err
	}
	old := c.subscriptions[x.index]
	if old != nil && now.Sub(old.since) < takeoverAfter {
		return nil, nil, 0, nil, inUse("Another active subscription exists for this consumer: %s; it took shard %s less than %s ago", c.arn, x.id, takeoverAfter)
	}
	p := in.StartingPosition
	if from, err = x.position(now, p.Type, p.SequenceNumber, p.Timestamp); err != nil {
		return nil, nil, 0, nil, err
	}
	if old != nil {
		close(old.replaced)
	}
	me = &subscription{since: now, replaced: make(chan struct{})}
	c.subscriptions[x.index] = me
	return c, x, from, me, nil
}

// turn is one look at the shard.
type turn struct {
	event   *subscriptionEvent
	next    uint64
	atEnd   bool
	changed <-chan struct{} // closed when a further look is worth while
	gone    *wire.Error     // why the subscription cannot go on
}

func (k *Service) nextEvent(now time.Time, c *consumer, x *shard, from uint64) turn {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := c.stream
	if !k.settle(now, s) {
		return turn{gone: notFound("Stream %s under account %s not found.", s.name, Account)}
	}
	if c.deleted {
		return turn{gone: notFound("Consumer %s not found.", c.arn)}
	}
	x.trim(s.horizon(now))
	p := x.read(now, from, maxEventRecords, maxEventBytes)
	event := &subscriptionEvent{shard: x, records: p.records, behind: p.behind, encryption: s.encryption()}
	if p.atEnd {
		event.children = x.childShapes()
	} else {
		event.continuation = x.continuation(p.next)
	}
	return turn{event: event, next: p.next, atEnd: p.atEnd, changed: x.wait()}
}

// continuation is the sequence number after which the record at next follows: that of the record before it, or the
// shard's first one.
func (x *shard) continuation(next uint64) string {
	return x.sequence(min(max(next-1, x.start), x.stream.count))
}

// eventWriter sends event-stream messages, each at once.
type eventWriter struct {
	w       http.ResponseWriter
	codec   wire.Codec
	encoder *eventstream.Encoder
}

func (e *eventWriter) event(name string, payload any) bool {
	return e.send("event", ":event-type", name, payload)
}

func (e *eventWriter) exception(err *wire.Error) {
	e.send("exception", ":exception-type", err.Code, map[string]string{"message": err.Message})
}

// contentType is that of payloads: of JSON without the dialect.
func (e *eventWriter) contentType() string {
	if _, isJSON := e.codec.(wire.JSON); isJSON {
		return "application/json"
	}
	return e.codec.ContentType()
}

// send tells whether the client took the message.
func (e *eventWriter) send(kind, nameHeader, name string, payload any) bool {
	text, err := e.codec.Marshal(payload)
	if err != nil {
		return false
	}
	var m eventstream.Message
	m.Payload = text
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(nameHeader, eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue(e.contentType()))
	if e.encoder.Encode(e.w, m) != nil {
		return false
	}
	return http.NewResponseController(e.w).Flush() == nil
}
