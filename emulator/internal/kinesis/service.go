package kinesis

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Account and Region are those of every ARN.
const (
	Account = "000000000000"
	Region  = "us-east-1"
)

// Codecs are the encodings of requests and answers, that of requests which name none first. The SDK for Java speaks CBOR.
var Codecs = []wire.Codec{wire.JSON11, wire.JSON10, wire.CBOR{}}

// Config is what can be set. The zero value is the service's own behaviour with instant control calls and no limits.
type Config struct {
	ControlDelay    time.Duration // how long CREATING, UPDATING and DELETING last
	Limits          bool          // refuse what goes beyond the service's rates
	IteratorTTL     time.Duration // how long an iterator is good for; 5 min if not positive
	SubscriptionTTL time.Duration // how long a subscription lasts; 5 min if not positive
	MaxRecord       int           // bytes of a record; 1 MiB if not positive
}

// Service is Kinesis, an http.Handler for concurrent use.
type Service struct {
	cfg Config

	mu      sync.Mutex
	streams map[string]*stream
	rates   map[string]*bucket
}

// New makes a service without streams.
func New(cfg Config) *Service {
	if cfg.IteratorTTL <= 0 {
		cfg.IteratorTTL = 5 * time.Minute
	}
	if cfg.SubscriptionTTL <= 0 {
		cfg.SubscriptionTTL = 5 * time.Minute
	}
	if cfg.MaxRecord <= 0 {
		cfg.MaxRecord = maxRecord
	}
	return &Service{cfg: cfg, streams: map[string]*stream{}, rates: map[string]*bucket{}}
}

// operation decodes a request, carries it out and returns the answer, nil for an empty one.
type operation func(k *Service, codec wire.Codec, body []byte) (any, *wire.Error)

// op makes an operation of a function on its decoded input.
func op[In any](f func(k *Service, now time.Time, in *In) (any, *wire.Error)) operation {
	return func(k *Service, codec wire.Codec, body []byte) (any, *wire.Error) {
		var in In
		if err := wire.Decode(codec, body, &in); err != nil {
			return nil, err
		}
		return f(k, time.Now(), &in)
	}
}

// locked is op for the calls that change or describe settings: each holds the mutex from beginning to end.
func locked[In any](f func(k *Service, now time.Time, in *In) (any, *wire.Error)) operation {
	return op(func(k *Service, now time.Time, in *In) (any, *wire.Error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return f(k, now, in)
	})
}

// operations are all but SubscribeToShard, whose answer is a stream.
var operations = map[string]operation{
	"AddTagsToStream":               locked((*Service).addTagsToStream),
	"CreateStream":                  locked((*Service).createStream),
	"DecreaseStreamRetentionPeriod": locked((*Service).decreaseRetention),
	"DeleteStream":                  locked((*Service).deleteStream),
	"DeregisterStreamConsumer":      locked((*Service).deregisterConsumer),
	"DescribeLimits":                locked((*Service).describeLimits),
	"DescribeStream":                locked((*Service).describeStream),
	"DescribeStreamConsumer":        locked((*Service).describeConsumer),
	"DescribeStreamSummary":         locked((*Service).describeStreamSummary),
	"GetRecords":                    op((*Service).getRecords),
	"GetShardIterator":              locked((*Service).getShardIterator),
	"IncreaseStreamRetentionPeriod": locked((*Service).increaseRetention),
	"ListShards":                    locked((*Service).listShards),
	"ListStreamConsumers":           locked((*Service).listConsumers),
	"ListStreams":                   locked((*Service).listStreams),
	"ListTagsForResource":           locked((*Service).listTagsForResource),
	"ListTagsForStream":             locked((*Service).listTagsForStream),
	"MergeShards":                   locked((*Service).mergeShards),
	"PutRecord":                     op((*Service).putRecord),
	"PutRecords":                    op((*Service).putRecords),
	"RegisterStreamConsumer":        locked((*Service).registerConsumer),
	"RemoveTagsFromStream":          locked((*Service).removeTagsFromStream),
	"SplitShard":                    locked((*Service).splitShard),
	"StartStreamEncryption":         locked((*Service).startEncryption),
	"StopStreamEncryption":          locked((*Service).stopEncryption),
	"TagResource":                   locked((*Service).tagResource),
	"UntagResource":                 locked((*Service).untagResource),
	"UpdateShardCount":              locked((*Service).updateShardCount),
	"UpdateStreamMode":              locked((*Service).updateStreamMode),
}

// ServeHTTP implements http.Handler.
func (k *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	codec, problem := wire.CodecFor(r.Header.Get("Content-Type"), Codecs...)
	if problem != nil {
		wire.WriteError(w, wire.JSON11, "", problem)
		return
	}
	body, err := wire.ReadBody(r)
	if err != nil {
		wire.WriteError(w, codec, "", wire.Errorf("SerializationException", "read the request: %v", err))
		return
	}
	_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if name == "SubscribeToShard" {
		if problem := k.subscribeToShard(w, r, codec, body); problem != nil {
			wire.WriteError(w, codec, "", problem)
		}
		return
	}
	run, known := operations[name]
	if !known {
		wire.WriteError(w, codec, "", wire.Errorf("UnknownOperationException", "operation %q of Kinesis is not known to the emulator", name))
		return
	}
	answer, problem := run(k, codec, body)
	if problem != nil {
		wire.WriteError(w, codec, "", problem)
		return
	}
	wire.WriteResult(w, codec, answer)
}

func invalid(format string, args ...any) *wire.Error {
	return wire.Errorf("InvalidArgumentException", format, args...)
}

// malformed is for values that the request's own model excludes.
func malformed(format string, args ...any) *wire.Error {
	return wire.Errorf("ValidationException", format, args...)
}

func notFound(format string, args ...any) *wire.Error {
	return wire.Errorf("ResourceNotFoundException", format, args...)
}

func inUse(format string, args ...any) *wire.Error {
	return wire.Errorf("ResourceInUseException", format, args...)
}

// within checks an optional number, of which 1 is the least: nil gives the default.
func within(name string, n *int, standard, high int) (int, *wire.Error) {
	if n == nil {
		return standard, nil
	}
	if *n < 1 || *n > high {
		return 0, malformed("%s is %d, want 1 to %d", name, *n, high)
	}
	return *n, nil
}
