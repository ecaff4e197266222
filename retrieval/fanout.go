package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/processor"
)

// FanOutAPI is what enhanced fan-out needs of Kinesis. *kinesis.Client has it. It must be safe for concurrent use, and a
// client of another kind must pass the options of SubscribeToShard on to one of the SDK's, because the answer's body is read
// here and not by the SDK.
type FanOutAPI interface {
	DeregisterStreamConsumer(context.Context, *kinesis.DeregisterStreamConsumerInput, ...func(*kinesis.Options)) (*kinesis.DeregisterStreamConsumerOutput, error)
	DescribeStreamConsumer(context.Context, *kinesis.DescribeStreamConsumerInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamConsumerOutput, error)
	DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error)
	ListStreamConsumers(context.Context, *kinesis.ListStreamConsumersInput, ...func(*kinesis.Options)) (*kinesis.ListStreamConsumersOutput, error)
	RegisterStreamConsumer(context.Context, *kinesis.RegisterStreamConsumerInput, ...func(*kinesis.Options)) (*kinesis.RegisterStreamConsumerOutput, error)
	SubscribeToShard(context.Context, *kinesis.SubscribeToShardInput, ...func(*kinesis.Options)) (*kinesis.SubscribeToShardOutput, error)
}

var _ FanOutAPI = (*kinesis.Client)(nil)

// FanOut opens shards for reading with SubscribeToShard, by which the service pushes records over a connection of two
// MiB a second for each shard and consumer. It is safe for concurrent use. (KCL: FanOutConfig, FanOutRecordsPublisher)
type FanOut struct {
	api      FanOutAPI
	polling  *Polling // whose budget, turns, hooks and fall-back are shared
	cfg      config.FanOutConfig
	patience patience
	polls    atomic.Bool // fallen back
	warned   warnings

	mu      sync.Mutex
	streams map[string]*registration // by ARN, or by name
}

// warnings are what is said once.
type warnings struct{ fallBack, http1, timeout, unknown sync.Once }

// NewFanOut makes a FanOut of a complete configuration. It does no I/O: the consumer is registered when the first shard is
// opened. Beside what api does, everything goes through polling: its budget of bytes is the worker's, its options serve both,
// and shards are read by it if the configuration allows a fall-back and fan-out is denied.
func NewFanOut(api FanOutAPI, polling *Polling) *FanOut {
	cfg := polling.cfg.FanOut
	return &FanOut{
		api: api, polling: polling, cfg: cfg, patience: patience{most: cfg.SilenceTimeout},
		streams: map[string]*registration{},
	}
}

// Open begins to read a shard, as [Polling.Open] does, with the same promises and errors. Beside its source's goroutine
// there is one of net/http while a subscription is open over HTTP/2.
func (f *FanOut) Open(ctx context.Context, start Start) (processor.RecordSource, error) {
	s, err := f.polling.source(ctx, start)
	if err != nil {
		return nil, err
	}
	s.loop = &subscriber{reader: s.reader, fanout: f, registration: f.registration(start)}
	if f.polls.Load() {
		s.due() //nolint:contextcheck // it has kept ctx
	} else {
		go s.read() //nolint:contextcheck // likewise
	}
	return s, nil
}

// registration is that of a stream.
func (f *FanOut) registration(start Start) *registration {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := cmp.Or(start.StreamARN, start.Stream)
	r := f.streams[key]
	if r == nil {
		r = newRegistration(f, start)
		f.streams[key] = r
	}
	return r
}

// fallBack makes the worker read by polling from now on, if fan-out is not to be had and the configuration says so.
func (f *FanOut) fallBack(stream string, err error) bool {
	_, full := errors.AsType[*fullError](err)
	if !f.cfg.FallBackToPolling || faultOf(err) != denied && !full && !unknownOperation(err) {
		return false
	}
	f.polls.Store(true)
	f.warned.fallBack.Do(func() {
		f.polling.log.Warn("enhanced fan-out is not to be had; the worker reads by polling until it is started anew",
			"worker", f.polling.opts.Worker, "stream", stream, "error", err)
	})
	return true
}

// described is the name of a stream's consumer, for messages.
func (f *FanOut) described(stream string) string {
	if f.cfg.ConsumerARN != "" {
		return f.cfg.ConsumerARN
	}
	return fmt.Sprintf("%q of stream %q", f.cfg.ConsumerName, stream)
}
