package retrieval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// subscriber reads one shard by one subscription after the other. All of it belongs to its reader's goroutine.
type subscriber struct {
	*reader
	fanout       *FanOut
	registration *registration

	// resume is the continuation of the last event that was handed over: what follows it follows that event. Unlike the number of the last
	// record it moves on in a silent shard. It is good for subscriptions only.
	resume string
	inVain int       // silent subscriptions in a row
	opened time.Time // when the last subscription was; zero if there was none
	life   time.Duration
}

const (
	// takeOverAfter is how long a subscription cannot be followed by another one of the same consumer to the shard. After
	// that the later one takes over, and the earlier one ends.
	takeOverAfter = 5 * time.Second
	// longestLife is when the service ends a subscription.
	longestLife = 5 * time.Minute
)

// run reads until the shard ends, which it notes in final, or until ctx is done; it rests only where the worker has fallen back to polling.
//
// A worker opens many shards at once, and their subscriptions would end at once, every 5 minutes. So the first of a source
// ends by itself at a random moment before that.
func (s *subscriber) run(ctx context.Context) (rest time.Duration, _ error) {
	s.life = longestLife/5 + rand.N(longestLife*4/5)
	for {
		consumer, err := s.registration.consumer(ctx)
		if errors.Is(err, errPoll) {
			return s.reader.run(ctx)
		}
		if _, gone := errors.AsType[*noStreamError](err); gone {
			if done, err := s.vanished(ctx, "register the stream's consumer", err); done || err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		if !s.opened.IsZero() {
			if err := s.sleep(ctx, takeOverAfter+loop.Jitter(time.Second, 1)-s.clock.Since(s.opened)); err != nil {
				return 0, err
			}
		}
		done, err := s.once(ctx, consumer)
		if done || err != nil {
			return 0, err
		}
	}
}

// once opens one subscription and reads it to its end. It returns when the next one can be opened.
func (s *subscriber) once(ctx context.Context, consumer string) (done bool, err error) {
	from := s.from()
	sub, err := s.subscribe(ctx, consumer, from)
	s.subscribed(consumer, from, sub, err)
	if err != nil {
		return s.failed(ctx, "subscribe to the shard", consumer, from, err)
	}
	defer sub.close()
	s.opened = sub.at
	if sub.http1 {
		s.fanout.warned.http1.Do(func() {
			s.polling.log.Warn("subscriptions run over HTTP/1.1, each with a connection of its own; give the worker an HTTP client that speaks HTTP/2",
				"worker", s.polling.opts.Worker)
		})
	}
	for {
		asked := s.clock.Now()
		e, granted, err := s.next(sub, s.limit())
		if err != nil {
			// A pause follows, which must not keep the subscription.
			sub.close()
			return s.broken(ctx, consumer, from, sub, err)
		}
		if e == nil {
			continue
		}
		s.heard = sub.at // an event may have waited in a buffer, but never for longer than a subscription lives
		done, err := s.handOver(ctx, e, granted, s.clock.Since(asked))
		if done || err != nil {
			return done, err
		}
		sub.heard, s.inVain = true, 0
		if e.ContinuationSequenceNumber == "" { // and yet not the end of the shard
			return false, nil
		}
		if s.life > 0 && s.clock.Since(sub.at) > s.life {
			s.life = 0
			return false, nil
		}
	}
}

func (s *subscriber) limit() time.Duration { return s.fanout.patience.limit(s.inVain) }

// from is where the next subscription starts, in the words of a shard iterator.
func (s *subscriber) from() *kinesis.GetShardIteratorInput {
	in := &kinesis.GetShardIteratorInput{}
	if s.recheck(); s.place.last == "" && !s.place.from.IsSentinel() {
		s.resume = ""
	}
	if s.resume != "" {
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &s.resume
		return in
	}
	s.place.iterator(in)
	return in
}

// handOver delivers an event. The end of the shard is known by the children that its last event names; an event that names
// neither a continuation nor children is looked into.
func (s *subscriber) handOver(ctx context.Context, e *event, granted int64, elapsed time.Duration) (done bool, err error) {
	s.trouble = nil
	s.lag = time.Duration(e.MillisBehindLatest) * time.Millisecond
	page, data := e.records()
	if err := s.trimmed(page); err != nil {
		s.polling.budget.settle(&s.account, granted, 0, 0)
		return false, err
	}
	came := len(page)
	page = s.place.advance(page, s.expand)
	bytes := data + int64(max(came, len(page)))*recordBytes
	s.polling.budget.settle(&s.account, granted, bytes, came)
	s.fetched(config.FetchEvent{Records: came, Bytes: int(data), MillisBehindLatest: e.MillisBehindLatest, Elapsed: elapsed})
	if err := s.deliver(ctx, page, e.MillisBehindLatest, bytes); err != nil {
		return false, err
	}
	// Not before a record was seen beyond a checkpoint: it may lie inside an aggregate, the rest of which would be left out.
	if s.place.last != "" || s.place.from.IsSentinel() {
		s.advance(e.ContinuationSequenceNumber)
	}
	if e.ContinuationSequenceNumber == "" || len(e.ChildShards) > 0 {
		return s.ended(ctx, "subscribe to the shard", e.ChildShards, e.MillisBehindLatest)
	}
	return false, nil
}

// advance moves resume to a continuation, or to the last record if that is further.
func (s *subscriber) advance(continuation string) {
	at := s.place.last
	if after, err := checkpoint.Parse(continuation); err == nil && !after.IsSentinel() {
		if last, err := checkpoint.Parse(at); at == "" || err != nil || last.Compare(after) < 0 {
			at = continuation
		}
	}
	s.resume = at
}

// broken decides what follows a subscription that has ended. One that ends well has come to its time, or the service let go
// of it; the shard has not ended, or it would have said so.
func (s *subscriber) broken(ctx context.Context, consumer string, from *kinesis.GetShardIteratorInput, sub *subscription, err error) (done bool, _ error) {
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	if errors.Is(err, io.EOF) {
		if !sub.heard { // it would be opened again and again
			return s.failed(ctx, "read the subscription", consumer, from, errors.New("it ended before an event came"))
		}
		return false, nil
	}
	if _, silent := errors.AsType[*silenceError](err); silent {
		s.inVain++
	} else if errors.Is(err, context.DeadlineExceeded) { // what we give up has causes of its own
		s.fanout.warned.timeout.Do(func() {
			s.polling.log.Warn("the HTTP client's timeout ends subscriptions, which last for five minutes; give the worker a client without one",
				"worker", s.polling.opts.Worker, "lease", s.start.LeaseKey, "after", s.clock.Since(sub.at))
		})
	}
	s.fetched(config.FetchEvent{Err: err})
	return s.failed(ctx, "read the subscription", consumer, from, err)
}

// failed decides what follows a failed subscription, and waits for it. done means that the shard has ended.
func (s *subscriber) failed(ctx context.Context, what, consumer string, from *kinesis.GetShardIteratorInput, err error) (done bool, _ error) {
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	if s.fanout.fallBack(s.start.Stream, err) {
		s.registration.forget(consumer)
		return false, nil
	}
	t := s.troubled()
	t.failures++
	base, most := 100*time.Millisecond, 5*time.Second
	switch faultOf(err) {
	case notFound:
		return s.missing(ctx, what, consumer, err)
	case throttled: // one call a second
		base, most = 2*time.Second, 10*time.Second
	case inUse:
		// Another subscription is younger than 5 s, the consumer is not ACTIVE any more, or the stream is being changed. Whoever
		// waits for half of the base at least will not be refused for the first of these again.
		base, most = 2*takeOverAfter, 30*time.Second
		if t.failures%renewAfter == 0 {
			s.registration.forget(consumer)
		}
	case refused:
		if from.StartingSequenceNumber != nil {
			if err := s.otherHistory(ctx, from); err != nil {
				return false, err
			}
		}
		err = fmt.Errorf("start at %s: %w", describe(from), err)
		base, most = time.Second, 30*time.Second
	case denied, skewed:
		base, most = time.Second, 30*time.Second
	case transient, badIterator, badToken:
	}
	t.pauses(base, most)
	return false, s.retry(ctx, what, err)
}

// missing follows ResourceNotFound: what is missing may be the consumer, the shard, or the stream.
func (s *subscriber) missing(ctx context.Context, what, consumer string, cause error) (done bool, err error) {
	there, err := s.registration.exists(ctx, consumer)
	if err == nil && !there {
		s.registration.forget(consumer)
		s.troubled().pauses(100*time.Millisecond, 5*time.Second)
		return false, s.retry(ctx, what, fmt.Errorf("consumer %s was removed: %w", consumer, cause))
	}
	// If it cannot be found out, the listing tells at least whether the shard is there.
	return s.vanished(ctx, what, cause)
}

func (s *subscriber) subscribed(consumer string, from *kinesis.GetShardIteratorInput, sub *subscription, err error) {
	f := s.polling.opts.Hooks.Subscribed
	if f == nil {
		return
	}
	ev := config.SubscribeEvent{
		Worker: s.polling.opts.Worker, LeaseKey: s.start.LeaseKey, Consumer: consumer,
		Position: string(from.ShardIteratorType), SequenceNumber: text(from.StartingSequenceNumber), Err: err,
	}
	if sub != nil {
		ev.Elapsed = s.clock.Since(sub.at)
	}
	f(ev)
}
