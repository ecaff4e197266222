package emulator

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// errRefused ends a request that a Refuse rule turns away.
var errRefused = errors.New("connection refused by a fault rule")

// Rule is a fault: which requests, and what happens to them. An empty field puts no limit.
type Rule struct {
	Client    string                 // requests of this client only (see ClientConfig)
	Service   Service                // requests to this service only
	Operation string                 // requests of this operation only, as GetRecords
	Match     func(body []byte) bool // requests whose body this function takes; it is called concurrently and must not keep the body

	Skip        int     // leave this many matching requests alone first
	Times       int     // end after this many effects; 0: never
	Probability float64 // strike each matching request with this probability; 0 means always, as 1 does
	Seed        uint64  // of the random numbers that Probability takes: the same seed strikes the same requests

	Effect Effect // what happens; the zero Effect is nothing
}

// Effect is what a [Rule] does to a request: [Delay], [DelayReply], [Freeze], [Throttle], [Fail], [Refuse], [DropReply]
// or [CutBody]; of subscriptions also [SilenceAfter], [CutEventAfter], [GarbageAfter], [UnknownEventAfter], [EndAfter] or
// [ExceptionAfter].
type Effect struct {
	kind    effectKind
	delay   time.Duration
	status  int
	code    string
	message string
	bytes   int
	stream  streamFaultKind
	events  int
}

type effectKind int

const (
	noEffect effectKind = iota
	delayEffect
	delayReplyEffect
	freezeEffect
	throttleEffect
	failEffect
	refuseEffect
	dropEffect
	cutEffect
	streamEffect
)

// Delay makes the request wait for d before the service sees it.
func Delay(d time.Duration) Effect { return Effect{kind: delayEffect, delay: d} }

// DelayReply makes the reply wait for d after the service has done what was asked. A client that gives up meanwhile does
// not know that it was done. Subscriptions are not delayed.
func DelayReply(d time.Duration) Effect { return Effect{kind: delayReplyEffect, delay: d} }

// Freeze makes a request that arrives wait, before the service sees it, until its rule is removed; then it goes on. With
// Rule.Client it is a client cut off from the world that comes back. Subscriptions that are open go on.
func Freeze() Effect { return Effect{kind: freezeEffect} }

// Throttle answers with the throttling error of the service and operation (ProvisionedThroughputExceededException, or
// LimitExceededException and ThrottlingException of control calls and of DynamoDB Streams) and applies nothing.
func Throttle() Effect { return Effect{kind: throttleEffect} }

// Fail answers with an error of this HTTP status, code and message and applies nothing.
func Fail(status int, code, message string) Effect {
	return Effect{kind: failEffect, status: status, code: code, message: message}
}

// Refuse refuses the connection: the client gets an error of the network, and nothing is applied.
func Refuse() Effect { return Effect{kind: refuseEffect} }

// DropReply does what was asked and then breaks the connection instead of answering.
func DropReply() Effect { return Effect{kind: dropEffect} }

// CutBody does what was asked and breaks the connection after n bytes of the answer's body; a shorter answer goes
// through whole. The SDK (smithy-go 1.28.9) takes an event stream that is cut within an event for one that ended well.
func CutBody(n int) Effect { return Effect{kind: cutEffect, bytes: max(0, n)} }

type faults struct {
	mu    sync.Mutex
	rules []*activeRule
}

type activeRule struct {
	Rule
	random   *rand.Rand
	seen     int
	struck   int
	released chan struct{} // closed by removal
}

// Inject adds a fault rule and returns the function that removes it, which may be called more than once. All rules that
// match strike a request, in the order of their injection: waits add up, the first error ends it.
//
// Inside a testing/synctest bubble call it within the bubble.
func (s *Server) Inject(rule Rule) (remove func()) {
	active := &activeRule{Rule: rule, random: rand.New(rand.NewPCG(rule.Seed, 0)), released: make(chan struct{})}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = append(s.faults.rules, active)
	return sync.OnceFunc(func() {
		s.faults.mu.Lock()
		defer s.faults.mu.Unlock()
		// A new slice: requests walk the old one without the lock.
		s.faults.rules = slices.DeleteFunc(slices.Clone(s.faults.rules), func(r *activeRule) bool { return r == active })
		close(active.released)
	})
}

// strike returns the rules that hit this request.
func (f *faults) strike(key CountKey, body []byte) []*activeRule {
	f.mu.Lock()
	rules := f.rules
	f.mu.Unlock()
	var hit []*activeRule
	for _, r := range rules {
		if r.Client != "" && r.Client != key.Client || r.Service != "" && r.Service != key.Service ||
			r.Operation != "" && r.Operation != key.Operation || r.Match != nil && !r.Match(body) {
			continue
		}
		if f.takes(r) {
			hit = append(hit, r)
		}
	}
	return hit
}

// takes counts a matching request and tells whether it is to be struck.
func (f *faults) takes(r *activeRule) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.seen++
	if r.seen <= r.Skip || r.Times > 0 && r.struck >= r.Times {
		return false
	}
	if r.Probability > 0 && r.Probability < 1 && r.random.Float64() >= r.Probability {
		return false
	}
	r.struck++
	return true
}

// before runs what the rules do ahead of the service. A *wire.Error is to be answered; any other error ends the request
// without an answer.
func before(ctx context.Context, key CountKey, rules []*activeRule) error {
	for _, r := range rules {
		var err error
		switch e := r.Effect; e.kind {
		case delayEffect:
			err = wait(ctx, e.delay, nil)
		case freezeEffect:
			err = wait(ctx, -1, r.released)
		case throttleEffect:
			err = throttling(key)
		case failEffect:
			err = &wire.Error{Status: e.status, Code: e.code, Message: e.message}
		case refuseEffect:
			err = errRefused
		case noEffect, delayReplyEffect, dropEffect, cutEffect, streamEffect: // of the reply: see after
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// after tells the response what the rules do to the reply; the wait is for the caller to keep.
func after(resp *response, rules []*activeRule) (delay time.Duration) {
	for _, r := range rules {
		switch r.Effect.kind {
		case delayReplyEffect:
			delay += r.Effect.delay
		case dropEffect:
			resp.drop = true
		case cutEffect:
			resp.cut = r.Effect.bytes
		case streamEffect:
			resp.events.faults = append(resp.events.faults, r.Effect)
		case noEffect, delayEffect, freezeEffect, throttleEffect, failEffect, refuseEffect: // of the request: see before
		}
	}
	return delay
}

// wait waits for d (forever if negative), for released, or for ctx, whose error it returns.
func wait(ctx context.Context, d time.Duration, released <-chan struct{}) error {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
		return nil
	case <-released:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// throttling is the error by which the service refuses this operation when it is asked too often.
func throttling(key CountKey) *wire.Error {
	code := "ProvisionedThroughputExceededException"
	switch key.Service {
	case Kinesis:
		if !slices.Contains([]string{"PutRecord", "PutRecords", "GetRecords", "GetShardIterator"}, key.Operation) {
			code = "LimitExceededException"
		}
	case DynamoDB:
		if !slices.Contains(dataCalls, key.Operation) {
			code = "ThrottlingException"
		}
	case DynamoDBStreams:
		if code = "ThrottlingException"; key.Operation == "GetRecords" {
			code = "LimitExceededException"
		}
	}
	return &wire.Error{Status: http.StatusBadRequest, Code: code, Message: "Rate exceeded: " + key.Operation + " throttled by a fault rule"}
}

// dataCalls are the operations of DynamoDB that tables throttle; the others have rates of the account.
var dataCalls = []string{
	"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan", "BatchGetItem", "BatchWriteItem",
	"TransactGetItems", "TransactWriteItems", "ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction",
}
