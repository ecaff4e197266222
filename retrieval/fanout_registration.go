package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// registration is the application's consumer of one stream, which all of its workers share. Whoever needs it first looks for
// it, and registers it if it is not there; others of this worker wait meanwhile, and others of the fleet may do the same at
// the same time: one of them registers, the others find it.
type registration struct {
	fanout *FanOut
	api    FanOutAPI
	stream string
	said   string // its ARN if the worker was told it, otherwise its name: what a person needs to find it

	turn      chan struct{} // one slot: who looks
	streamARN string        // belongs to whoever has the turn

	mu       sync.Mutex
	arn      string // of the consumer that is ACTIVE; empty if not known
	standing standing
}

// standing is what the last look has shown of whether there is a consumer.
type standing int

const (
	uncertain standing = iota // nobody has looked, or the answer did not tell
	present                   // found, or registered
	absent                    // it was not there and was refused, or this worker may not even know of which stream it would be
)

func newRegistration(f *FanOut, start Start) *registration {
	api := f.api
	if start.FanOutAPI != nil {
		api = start.FanOutAPI
	}
	g := &registration{
		fanout: f, api: api, stream: start.Stream, streamARN: start.StreamARN, said: cmp.Or(start.StreamARN, start.Stream),
		turn: make(chan struct{}, 1),
	}
	if arn := f.cfg.ConsumerARN; arn != "" && g.own(arn) == nil {
		g.arn = arn
	}
	return g
}

// own returns an error if a consumer belongs to another stream, as far as this one is known: what is read with it would be
// checkpointed as this stream's.
func (g *registration) own(consumer string) error {
	of, _, _ := strings.Cut(consumer, "/consumer/")
	if g.streamARN != "" && of != g.streamARN || !strings.HasSuffix(of, ":stream/"+g.stream) {
		return fmt.Errorf("consumer %s belongs to another stream than %s", consumer, cmp.Or(g.streamARN, g.stream))
	}
	return nil
}

// consumer returns the ARN of the consumer once it is ACTIVE. It goes on until then; its error is ctx's cause, or says that the worker
// is to poll (errPoll), or that the service does not know the stream (*noStreamError).
func (g *registration) consumer(ctx context.Context) (string, error) {
	if arn := g.known(); arn != "" {
		return arn, nil
	}
	if g.fanout.polls.Load() { // whoever has the turn may not see that for long
		return "", errPoll
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	pause := loop.Backoff{Base: time.Second, Max: 30 * time.Second}
	for {
		if arn := g.known(); arn != "" { // somebody else had the turn
			return arn, nil
		}
		if g.fanout.polls.Load() {
			return "", errPoll
		}
		arn, err := g.look(ctx)
		if err == nil {
			g.mu.Lock()
			g.arn = arn
			g.mu.Unlock()
			return arn, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return "", cause
		}
		if g.fanout.fallBack(g.stream, err) {
			return "", errPoll
		}
		if _, gone := errors.AsType[*noStreamError](err); gone {
			return "", err
		}
		wait := pause.Next()
		if errors.Is(err, errNotYet) {
			wait = loop.Jitter(time.Second, 0.5)
		}
		p := g.fanout.polling
		if f := p.opts.Hooks.Retried; f != nil {
			f(config.RetryEvent{Worker: p.opts.Worker, What: "register the stream's consumer", Attempt: pause.Tries(), Wait: wait, Err: err})
		}
		if err := loop.ClockOf(ctx).Sleep(ctx, wait); err != nil {
			return "", err
		}
	}
}

// errPoll says that the worker has fallen back to polling, errNotYet that nothing is wrong but the time.
var (
	errPoll   = errors.New("the worker polls")
	errNotYet = errors.New("not yet")
)

// noStreamError is ResourceNotFound of a stream.
type noStreamError struct{ error }

func (e *noStreamError) Unwrap() error { return e.error }

// ofStream marks an error of a call that names a stream only.
func ofStream(err error) error {
	if err != nil && faultOf(err) == notFound {
		return &noStreamError{err}
	}
	return err
}

func (g *registration) known() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.arn
}

// forget makes the next one look again, unless another consumer is known meanwhile.
func (g *registration) forget(arn string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.arn == arn {
		g.arn = ""
	}
}

// look finds the consumer, or registers it.
func (g *registration) look(ctx context.Context) (arn string, err error) {
	f := g.fanout
	if f.cfg.ConsumerARN != "" { // it was forgotten, because the service did not know it, or is another stream's
		if err := g.own(f.cfg.ConsumerARN); err != nil {
			return "", fmt.Errorf("FanOut.ConsumerARN: %w", err)
		}
		c, err := g.describe(ctx, &kinesis.DescribeStreamConsumerInput{ConsumerARN: &f.cfg.ConsumerARN})
		if faultOf(err) == notFound {
			return "", fmt.Errorf("there is no consumer %s: register it, or name none (FanOut.ConsumerARN), and the worker will register one: %w", f.cfg.ConsumerARN, err)
		}
		return g.active(c, err)
	}
	if err := g.name(ctx); err != nil {
		if faultOf(err) == denied {
			g.stands(absent)
		}
		return "", err
	}
	c, err := g.describe(ctx, &kinesis.DescribeStreamConsumerInput{StreamARN: &g.streamARN, ConsumerName: &f.cfg.ConsumerName})
	if err == nil {
		g.stands(present)
	}
	if err == nil || faultOf(err) != notFound {
		return g.active(c, err)
	}
	return g.register(ctx)
}

// stands notes what is known of the consumer.
func (g *registration) stands(s standing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.standing = s
}

func (g *registration) stood() standing {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.standing
}

// name looks up the stream's ARN, if it is not known. The caller has the turn.
func (g *registration) name(ctx context.Context) error {
	if g.streamARN != "" {
		return nil
	}
	var out *kinesis.DescribeStreamSummaryOutput
	err := g.call(ctx, "look up the ARN of", func(ctx context.Context) (err error) {
		out, err = g.api.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &g.stream}, ourRetries...)
		return err
	})
	if err != nil {
		return ofStream(err)
	}
	if out.StreamDescriptionSummary == nil || text(out.StreamDescriptionSummary.StreamARN) == "" {
		return fmt.Errorf("the service does not say the ARN of stream %q: set StreamARN", g.stream)
	}
	g.streamARN = *out.StreamDescriptionSummary.StreamARN
	return nil
}

// active returns the ARN of a consumer that can be used.
func (g *registration) active(c *types.ConsumerDescription, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case c.ConsumerStatus != types.ConsumerStatusActive:
		return "", fmt.Errorf("consumer %s is %s: %w", g.fanout.described(g.stream), c.ConsumerStatus, errNotYet)
	}
	return text(c.ConsumerARN), g.own(text(c.ConsumerARN))
}

func (g *registration) register(ctx context.Context) (string, error) {
	f := g.fanout
	var out *kinesis.RegisterStreamConsumerOutput
	err := g.call(ctx, "register a consumer of", func(ctx context.Context) (err error) {
		out, err = g.api.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{StreamARN: &g.streamARN, ConsumerName: &f.cfg.ConsumerName}, ourRetries...)
		return err
	})
	switch {
	case err == nil || faultOf(err) == inUse:
		g.stands(present)
	case faultOf(err) == denied || code(err) == "LimitExceededException":
		g.stands(absent)
	default: // it may have landed
		g.stands(uncertain)
	}
	switch {
	case err != nil && faultOf(err) == inUse:
		return "", fmt.Errorf("%w: another worker registers it: %w", errNotYet, err)
	case code(err) == "LimitExceededException":
		return "", g.full(ctx, err)
	case err != nil:
		return "", ofStream(err)
	case out.Consumer == nil || out.Consumer.ConsumerStatus != types.ConsumerStatusActive:
		return "", fmt.Errorf("consumer %s was registered and is not ACTIVE: %w", f.described(g.stream), errNotYet)
	}
	return text(out.Consumer.ConsumerARN), g.own(text(out.Consumer.ConsumerARN))
}

// full explains why a consumer cannot be registered: the stream may have as many as it can have, some of them perhaps left by
// applications that are no more.
func (g *registration) full(ctx context.Context, cause error) error {
	names, err := g.consumers(ctx)
	if err != nil || len(names) < fewConsumers {
		return cause // too many calls, or too many that are being created
	}
	return &fullError{fmt.Errorf("%w; stream %q has %d consumers (%s): remove one that no application uses, with: shardlease consumers deregister --stream %s NAME",
		cause, g.stream, len(names), strings.Join(names, ", "), g.said)}
}

// fullError says that a stream has all the consumers that it can have.
type fullError struct{ error }

func (e *fullError) Unwrap() error { return e.error }

// fewConsumers is how many every stream may have.
const fewConsumers = 20

// consumers are the names of the stream's consumers.
func (g *registration) consumers(ctx context.Context) (names []string, err error) {
	in := &kinesis.ListStreamConsumersInput{StreamARN: &g.streamARN}
	for {
		var out *kinesis.ListStreamConsumersOutput
		err := g.call(ctx, "list the consumers of", func(ctx context.Context) (err error) {
			out, err = g.api.ListStreamConsumers(ctx, in, ourRetries...)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, c := range out.Consumers {
			names = append(names, text(c.ConsumerName))
		}
		if text(out.NextToken) == "" || len(out.Consumers) == 0 {
			return names, nil
		}
		in.NextToken = out.NextToken
	}
}

func (g *registration) describe(ctx context.Context, in *kinesis.DescribeStreamConsumerInput) (*types.ConsumerDescription, error) {
	var out *kinesis.DescribeStreamConsumerOutput
	err := g.call(ctx, "look for the consumer of", func(ctx context.Context) (err error) {
		out, err = g.api.DescribeStreamConsumer(ctx, in, ourRetries...)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case out.ConsumerDescription == nil:
		return nil, errors.New("the service answers without a description of the consumer")
	}
	return out.ConsumerDescription, nil
}

// exists asks whether the service knows a consumer. An error says that this cannot be found out.
func (g *registration) exists(ctx context.Context, arn string) (bool, error) {
	_, err := g.describe(ctx, &kinesis.DescribeStreamConsumerInput{ConsumerARN: &arn})
	if err != nil && faultOf(err) == notFound {
		return false, nil
	}
	return err == nil, err
}

func (g *registration) call(ctx context.Context, what string, f func(context.Context) error) error {
	doing := fmt.Sprintf("%s stream %q", what, g.stream)
	if err := attempt(ctx, g.fanout.polling.cfg.RequestTimeout, doing, f); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// code is the name that the service gives an error, "" if it is none of its own.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// unknownOperation reports whether a server does not know fan-out at all.
func unknownOperation(err error) bool {
	c := code(err)
	return c == "UnknownOperationException" || c == "UnknownOperation" || c == "InvalidAction"
}
