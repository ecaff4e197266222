package shardlease

import (
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
)

// KinesisAPI is what a worker needs of Kinesis; *kinesis.Client has it.
type KinesisAPI = retrieval.KinesisAPI

// Option changes how a worker is built. One that is nil changes nothing.
type Option func(*options)

type options struct {
	kinesis  KinesisAPI
	clients  map[string]KinesisAPI // by ARN
	tracker  StreamTracker
	tracked  bool // there is to be a tracker
	source   Source
	sourced  bool // there is to be a source
	dynamodb leases.DynamoDBAPI
	strategy leases.AssignmentStrategy
	given    []given // what must not be nil
}

// must notes that an option was given a value that must not be nil.
func (o *options) must(option string, value any, want string) {
	o.given = append(o.given, given{option, want, value})
}

// WithKinesis makes the worker read through api instead of a client made from the aws.Config that [New] was given: for a
// client with another account, endpoint or HTTP settings. Retries of the client's own are switched off call by call, since
// the worker retries by itself. If the worker is to read by enhanced fan-out, api must have the methods of retrieval.FanOutAPI, too, as
// *kinesis.Client has; its HTTP client is left as it is, and should speak HTTP/2 (docs/fan-out.md).
func WithKinesis(api KinesisAPI) Option {
	return func(o *options) {
		o.kinesis = api
		o.must("WithKinesis", api, "a client; leave the option out to have one made")
	}
}

// WithDynamoDB makes the worker keep its leases through api; see [WithKinesis].
func WithDynamoDB(api leases.DynamoDBAPI) Option {
	return func(o *options) {
		o.dynamodb = api
		o.must("WithDynamoDB", api, "a client; leave the option out to have one made")
	}
}

// WithAssignmentStrategy makes the worker share leases by s instead of the built-in strategy that
// config.LeaseManagementConfig.AssignmentStrategy names. All workers of an application must use the same one.
func WithAssignmentStrategy(s leases.AssignmentStrategy) Option {
	return func(o *options) {
		o.strategy = s
		o.must("WithAssignmentStrategy", s, "a strategy; leave the option out to share by LeaseManagement.AssignmentStrategy")
	}
}
