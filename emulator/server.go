package emulator

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
	"github.com/shardlease/shardlease/emulator/internal/kinesis"
	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Service names one of the emulated services.
type Service string

// The emulated services.
const (
	Kinesis  Service = "kinesis"
	DynamoDB Service = "dynamodb"
	// DynamoDBStreams are the streams of DynamoDB's tables, on the same endpoint.
	DynamoDBStreams Service = "dynamodbstreams"
)

// Server is all services in memory. It is an http.Handler, safe for concurrent use; make it with [New].
type Server struct {
	kinesis   *kinesis.Service
	dynamodb  *dynamodb.DynamoDB
	services  map[string]backend // by the prefix of X-Amz-Target
	faults    faults
	counts    counter
	observers observers
	items     itemObservers
	requests  atomic.Uint64
}

// backend is what the server knows of a service.
type backend struct {
	name      Service
	codecs    []wire.Codec             // the first is for requests that name none
	namespace func(code string) string // what precedes an error's code
	handler   http.Handler
}

// New makes a server without streams and tables.
func New(opts ...Option) *Server {
	var set settings
	for _, o := range opts {
		o(&set)
	}
	k := kinesis.New(kinesis.Config{
		ControlDelay: set.controlDelay, Limits: set.limits, MaxRecord: set.maxRecord,
		IteratorTTL: set.iteratorTTL, SubscriptionTTL: set.subscriptionTTL,
	})
	d := &dynamodb.DynamoDB{
		TableDelay: set.controlDelay, IndexDelay: set.indexDelay, IndexLag: set.indexLag, Limits: set.limits,
		StreamShards: set.streamShards, StreamShardLife: set.streamShardLife, StreamRetention: set.streamRetention,
		StreamIteratorTTL: max(0, set.iteratorTTL),
	}
	s := &Server{
		kinesis: k, dynamodb: d,
		services: map[string]backend{
			"Kinesis_20131202":     {Kinesis, kinesis.Codecs, func(string) string { return "" }, k},
			"DynamoDB_20120810":    {DynamoDB, dynamodb.Codecs, dynamoNamespace, d},
			dynamodb.StreamsTarget: {DynamoDBStreams, dynamodb.Codecs, dynamoNamespace, d},
		},
		counts: counter{by: Counts{}},
	}
	d.Changed = s.items.notify
	return s
}

func dynamoNamespace(code string) string {
	switch code {
	case "ValidationException":
		return "com.amazon.coral.validate#"
	case "ThrottlingException", "UnknownOperationException", "SerializationException":
		return "com.amazon.coral.service#"
	}
	return "com.amazonaws.dynamodb.v20120810#"
}

// CreateStream adds a provisioned stream, as the Kinesis call of that name does, and lets it be ACTIVE at once whatever
// [WithControlDelay] says. The error says what is wrong with the name or the number of shards, or that there is such a
// stream.
func (s *Server) CreateStream(name string, shards int) error {
	if err := s.kinesis.CreateStream(name, shards); err != nil {
		return fmt.Errorf("create stream %q with %d shards: %w", name, shards, err)
	}
	return nil
}

// ServeHTTP implements http.Handler. A fault rule that breaks the connection makes it panic with http.ErrAbortHandler,
// which is how a handler tells net/http's server to do so.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serve(clientOf(r), w, r) != nil {
		panic(http.ErrAbortHandler) //nolint:forbidigo // net/http has no other way to break a connection, and recovers it
	}
}

// clientOf is the access key id with which the request is signed.
func clientOf(r *http.Request) string {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(credential, "/")
	return id
}

// serve answers one request. An error means that the client gets no answer, or not all of it.
func (s *Server) serve(client string, w http.ResponseWriter, r *http.Request) error {
	at := time.Now()
	w.Header().Set("Date", at.UTC().Format(http.TimeFormat))
	w.Header().Set("X-Amzn-Requestid", fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(at.Unix()), s.requests.Add(1)))
	body, err := wire.ReadBody(r)
	if err != nil {
		return fmt.Errorf("read the request's body: %w", err)
	}
	prefix, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	service, known := s.services[prefix]
	if !known {
		unknown := wire.Errorf("UnknownOperationException", "X-Amz-Target %q of a %s request is of no service that the emulator knows", r.Header.Get("X-Amz-Target"), r.Method)
		wire.WriteError(w, wire.JSON11, "", unknown)
		return nil
	}
	key := CountKey{Client: client, Service: service.name, Operation: operation}
	resp := &response{to: w, ctx: r.Context(), crc: service.name != Kinesis, cut: -1}
	var used wire.Usage
	err = s.apply(key, service, resp, r, body, &used)

	code := resp.code()
	n := Count{Requests: 1, ReadUnits: used.ReadUnits, WriteUnits: used.WriteUnits}
	if err != nil || code != "" || resp.drop {
		n.Errors = 1
	}
	if slices.Contains(throttlingCodes, code) {
		n.Throttled = 1
	}
	if resp.conditionFailed(code) {
		n.FailedConditions = 1
	}
	s.counts.add(key, n)
	if s.observers.any() {
		event := Event{
			Client: client, Service: service.name, Operation: operation, At: at, Duration: time.Since(at),
			Request: body, Status: resp.status, Code: code, Response: resp.body,
		}
		if err != nil || resp.drop {
			event.Status = 0
		}
		s.observers.notify(event)
	}
	if err != nil {
		return err
	}
	return resp.finish()
}

// throttlingCodes are the errors that tell a client to ask less often.
var throttlingCodes = []string{
	"ProvisionedThroughputExceededException", "LimitExceededException", "ThrottlingException", "RequestLimitExceeded",
	"KMSThrottlingException",
}

// apply lets the fault rules and the service work on a request. An error means that no answer is to be sent.
func (s *Server) apply(key CountKey, service backend, resp *response, r *http.Request, body []byte, used *wire.Usage) error {
	struck := s.faults.strike(key, body)
	delay := after(resp, struck)
	if err := before(r.Context(), key, struck); err != nil {
		if modelled, ok := errors.AsType[*wire.Error](err); ok {
			codec, unknown := wire.CodecFor(r.Header.Get("Content-Type"), service.codecs...)
			if unknown != nil {
				codec = service.codecs[0]
			}
			wire.WriteError(resp, codec, service.namespace(modelled.Code), modelled)
			return nil
		}
		return err
	}
	in := r.WithContext(wire.WithClient(wire.WithUsage(r.Context(), used), key.Client))
	in.Body, in.ContentLength = wire.NewBody(body), int64(len(body))
	service.handler.ServeHTTP(resp, in)
	if delay > 0 && !resp.streaming {
		return wait(r.Context(), delay, nil)
	}
	return nil
}
