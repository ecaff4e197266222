package retrieval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/schemas"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/shardlease/shardlease/internal/loop"
)

// subscription is the answer to one SubscribeToShard, which lasts until somebody ends it, 5 minutes at most. It belongs to its
// reader's goroutine.
type subscription struct {
	cancel context.CancelCauseFunc
	ctx    context.Context //nolint:containedctx // the request's, which lasts as long as its answer
	alarm  *loop.Alarm     // ends ctx when the service is silent for too long
	limit  atomic.Int64    // how long that is; 0 until it has answered
	body   io.ReadCloser
	at     time.Time // when it was asked for
	http1  bool      // it has a connection for itself, though it need not
	heard  bool      // an event has come
}

// silenceError is the cause with which a subscription ends on which nothing comes.
type silenceError struct {
	shard string
	after time.Duration
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("nothing came on the subscription to shard %s for %v", e.shard, e.after)
}

// subscribe opens a subscription. The error is the service's, or says that it did not answer in time.
func (s *subscriber) subscribe(ctx context.Context, consumer string, from *kinesis.GetShardIteratorInput) (*subscription, error) {
	sub := &subscription{at: s.clock.Now()}
	limit := s.polling.cfg.RequestTimeout
	ctx, cancel := context.WithCancelCause(ctx)
	sub.ctx, sub.cancel = ctx, cancel
	sub.alarm = s.clock.NewAlarm(func() {
		if silent := time.Duration(sub.limit.Load()); silent > 0 {
			sub.cancel(&silenceError{s.start.ShardID, silent})
			return
		}
		sub.cancel(&loop.TimeoutError{What: "subscribe to shard " + s.start.ShardID, After: limit})
	})
	in := &kinesis.SubscribeToShardInput{
		ConsumerARN: &consumer, ShardId: &s.start.ShardID,
		StartingPosition: &types.StartingPosition{Type: from.ShardIteratorType, SequenceNumber: from.StartingSequenceNumber, Timestamp: from.Timestamp},
	}
	var out *kinesis.SubscribeToShardOutput
	err := s.turn(ctx, func(ctx context.Context) (err error) {
		sub.at = s.clock.Now()
		sub.alarm.Set(limit)
		defer sub.alarm.Stop()
		out, err = s.registration.api.SubscribeToShard(ctx, in, unread(sub))
		return err
	})
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		err = cause
	case err == nil && sub.body == nil:
		if stream := out.GetStream(); stream != nil {
			_ = stream.Close()
		}
		err = errors.New("the client does not pass options on: fan-out needs one that does (see retrieval.FanOutAPI)")
	}
	if err != nil {
		sub.close()
		return nil, err
	}
	if now, ok := middleware.GetServerTime(out.ResultMetadata); ok {
		s.place.opened(from, now)
	}
	return sub, nil
}

// close ends a subscription and gives its connection, or its part of one, back.
func (sub *subscription) close() {
	sub.alarm.Close()
	sub.cancel(errUnwanted)
	if sub.body != nil {
		_ = sub.body.Close()
	}
}

// protocol is that of our subscriptions, whatever the client speaks otherwise: payloads are read as JSON.
var protocol = awsjson.New11(schemas.Kinesis_20131202)

// eventStreams is the SDK's step that would read the answer (service/kinesis 1.55 and later).
const eventStreams = "OperationEventStreamDeserializer"

// unread makes a call leave its answer to sub. Its retries are ours.
func unread(sub *subscription) func(*kinesis.Options) {
	return func(o *kinesis.Options) {
		o.Retryer = aws.NopRetryer{}
		o.RetryMaxAttempts = 0
		o.Protocol = protocol
		o.APIOptions = append(slices.Clip(o.APIOptions), func(stack *smithymiddleware.Stack) error {
			if _, err := stack.Deserialize.Remove(eventStreams); err != nil {
				return fmt.Errorf("this version of the AWS SDK cannot be used for fan-out: %w", err)
			}
			return stack.Deserialize.Insert(takeBody{sub}, "OperationDeserializer", smithymiddleware.Before)
		})
	}
}

// takeBody is the step in its place.
type takeBody struct{ sub *subscription }

func (takeBody) ID() string { return "ShardleaseSubscription" }

func (t takeBody) HandleDeserialize(ctx context.Context, in smithymiddleware.DeserializeInput, next smithymiddleware.DeserializeHandler) (
	out smithymiddleware.DeserializeOutput, m smithymiddleware.Metadata, err error,
) {
	out, m, err = next.HandleDeserialize(ctx, in)
	r, ok := out.RawResponse.(*smithyhttp.Response)
	switch {
	case !ok:
	case err != nil:
		_ = r.Body.Close()
	default:
		t.sub.body = r.Body
		t.sub.http1 = r.ProtoMajor < 2 && r.Request != nil && r.Request.URL.Scheme == "https"
	}
	return out, m, err
}

// next waits for the next message for at most limit, in which time it is read, and for room for it in the budget, for which the service
// waits. It returns an event, with what was claimed for it, or neither if the message means nothing to us.
// io.EOF is the end of the subscription.
func (s *subscriber) next(sub *subscription, limit time.Duration) (e *event, granted int64, err error) {
	asked := s.clock.Now()
	sub.limit.Store(int64(limit))
	sub.alarm.Set(limit)
	p, err := readPrelude(sub.body)
	sub.alarm.Stop()
	if err != nil {
		return nil, 0, sub.why(err)
	}
	if sub.heard { // the first event takes longer than those after it
		s.fanout.patience.heard(s.clock.Since(asked))
	}
	n, err := p.length()
	if err != nil {
		return nil, 0, err
	}
	// The records need less than the text of which they are made. While that is done an event is in memory twice, but no more events at
	// a time than there are processors.
	b := s.polling.budget
	if granted, err = b.claimWhole(sub.ctx, &s.account, n); err != nil {
		return nil, 0, err
	}
	sub.alarm.Set(limit)
	e, unknown, err := readEvent(sub.body, p, n)
	sub.alarm.Stop()
	if e == nil {
		b.settle(&s.account, granted, 0, 0)
		granted = 0
	}
	if unknown != "" {
		s.fanout.warned.unknown.Do(func() {
			s.polling.log.Warn("the service sends events that this version does not know; they are left out",
				"worker", s.polling.opts.Worker, "lease", s.start.LeaseKey, "type", unknown)
		})
	}
	return e, granted, sub.why(err)
}

// why is the reason of an error: if the subscription was ended by us, that is it.
func (sub *subscription) why(err error) error {
	if cause := context.Cause(sub.ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
