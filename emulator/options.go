package emulator

import "time"

// Option changes what [New] builds.
type Option func(*settings)

type settings struct {
	limits          bool
	maxRecord       int
	controlDelay    time.Duration
	indexDelay      time.Duration
	indexLag        time.Duration
	iteratorTTL     time.Duration
	subscriptionTTL time.Duration
	streamShards    int
	streamShardLife time.Duration
	streamRetention time.Duration
}

// WithLimits makes the server throttle as the services do: Kinesis shards take 1000 records and 1 MiB and give 2 MiB
// and five calls a second, control calls have their own rates, and DynamoDB tables of fixed throughput keep to it.
// Without it nothing is ever throttled, except by [Server.Inject].
func WithLimits() Option { return func(s *settings) { s.limits = true } }

// WithControlDelay sets how long CREATING, UPDATING and DELETING last, for streams, consumers and tables. The default,
// 0, finishes every change within the call that asks for it; a negative value counts as 0.
func WithControlDelay(d time.Duration) Option {
	return func(s *settings) { s.controlDelay = max(0, d) }
}

// WithMaxRecordSize sets how many bytes a Kinesis record may have, data and partition key together: the service allows a stream up
// to 10 MiB, if it is asked to. The default, also for values below 1, is its 1 MiB.
func WithMaxRecordSize(bytes int) Option { return func(s *settings) { s.maxRecord = bytes } }

// WithIndexDelay sets how long a global secondary index that UpdateTable adds stays CREATING while the service would
// fill it, and how long it stays DELETING. The default, also for values that are not positive, is [WithControlDelay]'s.
//
// Of two Java workers of KCL 3 that start at the same time on a table that is new to both, each wants to add the index, and one is
// refused, with or without a delay. KCL 3.5.1 does not bear that: it may end, or stay idle for ever. Start the second one later.
func WithIndexDelay(d time.Duration) Option {
	return func(s *settings) { s.indexDelay = max(0, d) }
}

// WithIndexLag sets by how much global secondary indexes run behind their tables. The default is 0; a negative value
// counts as 0.
func WithIndexLag(d time.Duration) Option {
	return func(s *settings) { s.indexLag = max(0, d) }
}

// WithIteratorTTL sets how long a shard iterator is good for. The default, also for values that are not positive, is
// the services' 5 minutes, 15 for the streams of DynamoDB's tables.
func WithIteratorTTL(d time.Duration) Option {
	return func(s *settings) { s.iteratorTTL = d }
}

// WithSubscriptionTTL sets how long a subscription (SubscribeToShard) lasts before the server ends it. The default,
// also for values that are not positive, is the service's 5 minutes.
func WithSubscriptionTTL(d time.Duration) Option {
	return func(s *settings) { s.subscriptionTTL = d }
}

// WithTableStreamShards sets how many shards the stream of a DynamoDB table has when it is enabled. The default, also for values
// below 1, is 1; the service has one for each partition of the table.
func WithTableStreamShards(n int) Option { return func(s *settings) { s.streamShards = n } }

// WithTableStreamShardLife sets how old a shard of a DynamoDB table's stream becomes before one that follows takes its place. The
// default, also for values that are not positive, is about what the service does, 4 hours. [Server.RollTableStream] does it at once.
func WithTableStreamShardLife(d time.Duration) Option {
	return func(s *settings) { s.streamShardLife = max(0, d) }
}

// WithTableStreamRetention sets how long the streams of DynamoDB tables keep records, shards that are closed, and streams that were
// disabled. The default, also for values that are not positive, is the service's 24 hours.
func WithTableStreamRetention(d time.Duration) Option {
	return func(s *settings) { s.streamRetention = max(0, d) }
}
