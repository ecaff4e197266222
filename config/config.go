package config

import (
	"log/slog"
	"time"
)

// Config is everything a worker can be told. Start from [Default] and change what matters. It is read once, by
// shardlease.New; later changes have no effect. Where a field's comment names a default, the zero value means that default;
// WorkerID, LeaseManagement.CreateTable and Retrieval.Deaggregate, which [Default] sets, say themselves what their zero value means.
type Config struct {
	// ApplicationName names the application: all workers of one application share the stream's shards among them, different
	// applications each read everything. It is also the default name of the lease table. Required;
	// 3 to 255 characters of a-z, A-Z, 0-9, '_', '.', '-'. (KCL: applicationName)
	ApplicationName string

	// StreamName is the stream to read. Required unless StreamARN says it, or Streams or a tracker name several; 1 to 128 characters of a-z, A-Z, 0-9, '_', '.', '-'.
	// (KCL: streamName)
	StreamName string

	// StreamARN names the stream in full, as arn:aws:kinesis:REGION:ACCOUNT:stream/NAME; needed if the stream belongs to
	// another account. The name in it must be StreamName, or StreamName must be empty. Default: the stream of
	// Retrieval.FanOut.ConsumerARN if that is set and Mode is FanOut; otherwise none, the stream is looked up by name in the account of the
	// credentials. A worker with a shardlease.WithSource reads the stream of a DynamoDB table, whose ARN must stand here, as
	// arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE/stream/LABEL; StreamName is then the table's, or empty. (KCL: streamArn)
	StreamARN string

	// Streams are the streams to read if they are several, or may become several: their leases share one table, and the
	// workers share them as if they were one stream's. In place of StreamName and StreamARN; InitialPosition must not be set
	// beside it, each stream has its own. Leases have other keys then than those of a worker of one stream, so that the two
	// kinds never share a table. Streams that change while workers run are named by a shardlease.StreamTracker instead.
	// Default: none. (KCL: MultiStreamTracker)
	Streams []StreamConfig

	// FormerStreams is about the leases of streams that Streams, or the tracker, named once and does not any more.
	FormerStreams FormerStreamsConfig

	// WorkerID tells workers of one application apart, and stands in the lease table as the owner of leases. No two living
	// workers may share one. A worker that comes back with the id it had before regains its leases at once; one that comes
	// back with a new id waits for FailoverTime, unless it released them when it stopped. Default makes one from the host's
	// name, the process id and 8 random hex digits. Required; 1 to 2048 bytes of UTF-8. (KCL: workerIdentifier)
	WorkerID string

	// InitialPosition is where reading starts in a shard that has no checkpoint, and only there: once leases exist it moves
	// nothing. Default: TrimHorizon(). (KCL: initialPositionInStreamExtended, in practice LATEST there)
	InitialPosition InitialPosition

	LeaseManagement LeaseManagementConfig
	Cleanup         LeaseCleanupConfig
	Coordinator     CoordinatorConfig
	Lifecycle       LifecycleConfig
	Retrieval       RetrievalConfig

	// Logger gets what somebody should know, as [SlogHooks] tells it, and a little more; a healthy idle worker logs nothing
	// above debug. Default: nothing is logged.
	Logger *slog.Logger

	// Hooks are called when something happens. They need not log: Logger does. Default: none.
	Hooks *Hooks
}

// LeaseCleanupConfig is about removing the leases of shards that were read to their end. Until they go they cost one renewal
// each like any other.
type LeaseCleanupConfig struct {
	// Interval is the pause between two looks for leases of finished shards whose children have made progress, which may
	// go. Shorter keeps the table smaller after a resharding, longer saves reads. Default 60s; 1s to 24h.
	// (KCL: leaseCleanupIntervalMillis)
	Interval time.Duration

	// GarbageInterval is the pause between two looks for leases whose shard the stream has forgotten. Default 30min; 1s to
	// 24h. (KCL: garbageLeaseCleanupIntervalMillis)
	GarbageInterval time.Duration

	// KeepFinished is how long the lease of a finished shard stays at least, counted from when the worker that cleans up has seen it
	// finished. It must be longer than a request to create the lease can be under way: one that came after the deletion would make
	// the lease again, and the shard would be read twice. The default allows for requests that the network holds up for 30s
	// after their sender has given them up; for more, add that to 20s. DynamoDB itself refuses requests that were signed
	// more than five minutes ago. Default 50s; 1s to 24h. (KCL: none; five minutes,
	// completedLeaseCleanupIntervalMillis, after it has last deleted any it deletes what it can, however young a row is)
	KeepFinished time.Duration
}

// CoordinatorConfig is about the worker's own loops.
type CoordinatorConfig struct {
	// ParentShardPollInterval is the pause between two looks at the leases of a shard's parents, which must be finished
	// before the shard is read: how much later than necessary a child starts whose parent ends on another worker. A parent
	// that ends on this worker is noticed at once. Each look is one consistent read a parent. Default 1s; 50ms to 10min.
	// (KCL: parentShardPollIntervalMillis, 10 s)
	ParentShardPollInterval time.Duration
}

// LifecycleConfig is about calls of user code and about stopping.
type LifecycleConfig struct {
	// ShutdownGrace is how long a graceful stop may take in all, but for up to 4 s more if user code then goes on although its context was cancelled. For 2.4 × FailoverTime of it, at most, the worker goes on and
	// waits for others to ask for its leases, so below that (24 s by default) some shards may stand still until another
	// worker's next look. When it has passed, the contexts of user code are cancelled and the leases released as they are. Keep it below what the platform allows before it kills (Kubernetes: 30 s).
	// Default 25s; 1ms to 24h.
	ShutdownGrace time.Duration

	// TaskBackoff is about the first pause before a call of user code that failed is repeated; pauses double up to
	// MaxTaskBackoff. Shorter recovers faster, longer spares what the call depends on. Default 500ms; 1ms to MaxTaskBackoff.
	// (KCL: taskBackoffTimeMillis)
	TaskBackoff time.Duration

	// MaxTaskBackoff bounds those pauses, and is thus how late a processor notices that what it depends on is back.
	// Default 30s, or TaskBackoff if that is longer; TaskBackoff to 1h.
	MaxTaskBackoff time.Duration

	// LogWarningForTaskAfter is how long a call of user code may run before a warning is logged. The call goes on. Default 0:
	// only a call is warned about that goes on after its context was cancelled; otherwise 1ms to 24h.
	// (KCL: logWarningForTaskAfterMillis)
	LogWarningForTaskAfter time.Duration

	// CallProcessRecordsEvenForEmptyRecordList has ProcessRecords called also when a read brought no records, for processors
	// that flush by time or report their lag. Default false. (KCL: callProcessRecordsEvenForEmptyRecordList)
	CallProcessRecordsEvenForEmptyRecordList bool
}

// TrimmedPolicy is what to do about records that may be lost.
type TrimmedPolicy string

// The policies of RetrievalConfig.OnTrimmed.
const (
	// ContinueReading goes on with the oldest record that there is, and tells of the gap.
	ContinueReading TrimmedPolicy = "ContinueReading"
	// FailRun ends the worker. The lease is released, so that the fleet's others end as well, one after the other, until somebody has
	// decided what to do: that is a fleet that stands rather than skip a record.
	FailRun TrimmedPolicy = "FailRun"
)

// RetrievalConfig is about reading from the stream.
type RetrievalConfig struct {
	// Mode is how records are fetched: [Polling], which shares what a shard gives with all other applications that poll it, or
	// [FanOut], which costs money. Positions in the stream are the same in both: the mode may change from one start of a worker to the next, also
	// worker by worker. Default Polling. (KCL: retrievalSpecificConfig, in practice FanOut there)
	Mode RetrievalMode

	// FanOut is about enhanced fan-out; it means nothing in another Mode.
	FanOut FanOutConfig

	// MaxRecords is how many records are asked for in one GetRecords. Fewer make smaller batches for ProcessRecords and
	// slower catching up, since a shard allows five calls a second. Default 10000; 1 to 10000. (KCL: maxRecords)
	MaxRecords int

	// IdleTime is the pause between reads of a shard while records come. A shard allows five reads a second, shared by
	// all applications that poll it. Default 250ms, which leaves one read a second to another application; 200ms to 4min, and at most MaxIdleTime if that is set. (KCL: idleTimeBetweenReadsInMillis, 1500 ms)
	IdleTime time.Duration

	// MaxIdleTime bounds the pause between reads of a shard that brings nothing, which grows from IdleTime: the delay of
	// the first record after a silence. Default 1s, or IdleTime if that is longer; IdleTime to 4min (an iterator lives 5min).
	MaxIdleTime time.Duration

	// BehindLatestThreshold is how far behind the newest record a shard may be and still count as caught up: below it reads are IdleTime apart,
	// from it on the next one follows at once, as it does after a full answer. More makes fewer and larger reads of a shard that
	// is always a little behind. It means nothing to FanOut. Default 1s; 1ms to 24h.
	BehindLatestThreshold time.Duration

	// OnTrimmed is what happens to a shard whose position, the record that was handled last, the stream does not keep any more, because
	// nobody read it for longer than the stream's retention period: [ContinueReading] goes on with the oldest record that there is, with a
	// warning and Hooks.Trimmed, which name the gap; [FailRun] ends Run with a *processor.TrimmedError that names it: nothing is skipped,
	// and the checkpoint stays. Default ContinueReading. (KCL: none, it goes on and says nothing)
	OnTrimmed TrimmedPolicy

	// ByteBudget is how many bytes of record data may be fetched and not yet handled, all shards of the worker together; an
	// aggregate counts as it came, and 144 bytes more for each user record. It bounds memory while catching up; reads wait when it is
	// spent. By polling, a shard whose next record is larger than its share of the budget reads that record all the same, and holds it. Default
	// 256 MiB; at least 10 MiB, which is the largest answer to one GetRecords.
	ByteBudget int64

	// MaxPendingBatches is how many batches a shard may be ahead of its processor. More smooth out a processor of uneven
	// speed and cost memory. Default 3; 1 to 100. (KCL: maxPendingProcessRecordsInput)
	MaxPendingBatches int

	// Deaggregate has KPL aggregates taken apart, so that processors see the user records in them, each with its own keys
	// and a SubSequenceNumber. Without it, or for what begins like an aggregate and is none, a record comes as it is. See
	// docs/configuration.md before you switch it in an application that has checkpoints. Default: true, in what Default
	// returns. (KCL: AggregatorUtil, always on)
	Deaggregate bool

	// RequestTimeout is how long one attempt of one request to Kinesis may take, answer included. Default 30s; 100ms to 5min.
	// (KCL: kinesisRequestTimeout)
	RequestTimeout time.Duration
}
