package config

import "time"

// LeaseManagementConfig is about the lease table and how leases are held. Durations that are zero are derived, so that
// changing FailoverTime alone is enough. All workers of an application should use the same values; they need not.
type LeaseManagementConfig struct {
	// TableName is the lease table. Default: ApplicationName. 3 to 255 characters of a-z, A-Z, 0-9, '_', '.', '-'.
	// (KCL: tableName)
	TableName string

	// FailoverTime is how long a lease is respected that its owner does not renew: a crashed worker's shards stand still
	// for about that long. Shorter recovers faster and costs more writes (each lease is renewed three times in it), and a
	// pause of the process or the network that is longer costs it its leases. Default 10s; 500ms to 10min.
	// (KCL: failoverTimeMillis, leaseDurationMillis)
	FailoverTime time.Duration

	// RenewInterval is the pause between two renewals of a lease. Default FailoverTime/3 − 25ms; 50ms to FailoverTime/3, so
	// that one lost renewal loses no lease. (KCL: leaseRenewalPeriodMillis, derived there)
	RenewInterval time.Duration

	// LeaseTakerInterval is the pause between two looks at the table while all is calm, drawn anew up to a tenth longer: how late
	// a worker notices new leases and imbalance. Expired leases do not wait for it. Default FailoverTime/2; 50ms to 3×FailoverTime. (KCL: derived, 2 × failoverTimeMillis)
	LeaseTakerInterval time.Duration

	// MaxLeasesForWorker is how many leases this worker holds at most; leases that no worker may hold stay unread.
	// Default 0, no limit; never negative. (KCL: maxLeasesForWorker)
	MaxLeasesForWorker int

	// ReadBudget is how many DynamoDB read units a second the whole fleet should spend on looking at the table. A fleet that
	// would spend more reads parts of the table most of the time, and everything only when something happens or once in
	// 6×FailoverTime; then it may still read more, but less than a fleet of KCL 2.x does. Default 110; 1 to 100000.
	ReadBudget int

	// MaxLeasesToStealAtOneTime bounds how many leases of living owners this worker moves to itself in one look.
	// Default 0: what the plan says, of Java owners, which cannot be asked to hand over, one; never negative. (KCL: maxLeasesToStealAtOneTime, 1)
	MaxLeasesToStealAtOneTime int

	// AssignmentStrategy names the built-in rule of who should hold which leases, one of the constants of this package:
	// LeaseCount, ThroughputVariance, Sticky, ConsistentHash or Average. What each is good for stands with the type of its name
	// in package leases. shardlease.WithAssignmentStrategy sets one of your own, or leases.Zone, instead. All workers of an
	// application must use the same one. Default LeaseCount. (KCL: leaseAssignmentStrategy)
	AssignmentStrategy string

	// ShardSyncInterval is the period of the audit that compares the leases with the whole ring of hash keys and repairs what
	// is missing. Shards that end create their children's leases themselves and do not wait for it. Default 120s; 1s to 24h.
	// (KCL: leasesRecoveryAuditorExecutionFrequencyMillis)
	ShardSyncInterval time.Duration

	// ShardSyncConfidence is in how many audits in a row the same hole must be seen before it is believed. Default 3; 1 to 100.
	// (KCL: leasesRecoveryAuditorInconsistencyConfidenceThreshold)
	ShardSyncConfidence int

	// GracefulHandoffTimeout is how long an owner that was asked for a lease may take, from the moment of asking, to finish its
	// batch and hand it over. Shortly before, its processor's context is cancelled; then the lease is taken, and what the owner
	// had not checkpointed comes again. Owners learn that they are asked at their next renewal: below 2 × RenewInterval their
	// processors are given half of it from then on. Nothing is taken before a FailoverTime has passed. Default 30s; 100ms to 1h.
	// (KCL: gracefulLeaseHandoffTimeoutMillis)
	GracefulHandoffTimeout time.Duration

	// CheckpointInterval, if set, has Checkpoint and CheckpointAt return before the checkpoint is durable: it is written with the next
	// renewal of the lease, at the latest after CheckpointInterval, so that a processor may checkpoint as often as it likes. A
	// CheckpointInterval of RenewInterval or more adds no write to the renewals; a shorter one makes one write in each, as long
	// as there is something new. The price: after a crash, or when the lease is lost, the records of that time come again, up to
	// the smaller of CheckpointInterval and RenewInterval, and the time of one write. Nothing is lost, and nothing comes again
	// after a graceful stop or a hand-off. The end of a shard and checkpoints in two phases are durable at once all the same;
	// Checkpointer.Flush makes durable whatever is not. Default 0: each checkpoint is durable when its call returns; otherwise
	// 50ms to 10min.
	CheckpointInterval time.Duration

	// MaxLeaseRenewalThreads is how many renewals run at once. More keep more leases alive over a slow table, at the price
	// of more connections. Default 20; 1 to 1000. (KCL: maxLeaseRenewalThreads)
	MaxLeaseRenewalThreads int

	// RequestTimeout is how long one attempt of one request to the table may take, answer included. Reads and writes of single
	// rows get at most FailoverTime/6, so that several attempts fit into the life of a lease; the whole of it is for pages of
	// listings and for the table itself. Default 10s; 50ms to 5min. (KCL: dynamoDbRequestTimeout, 60 s)
	RequestTimeout time.Duration

	// ConsistentReads makes listings of the table strongly consistent, which costs twice the read units. Not needed for
	// correctness: every write is conditional, and single rows are always read consistently. Default false.
	// (KCL: consistentReads)
	ConsistentReads bool

	// ScanSegments is in how many segments the table is listed in parallel. Default 0: decided by the table's size; at most
	// 1000. (KCL: leaseTableScanTotalSegments)
	ScanSegments int

	// Zone is where this worker runs, usually the availability zone; it is written beside its leases, for people to see.
	// Default none; at most 128 bytes of UTF-8.
	Zone string

	// CreateTable has the table created if it is missing; the fields below say how, and matter only then. With false, a
	// missing table ends Run with an error. Default sets true; the zero value is false.
	CreateTable bool

	// BillingMode of a table that is created. Default OnDemand. (KCL: billingMode)
	BillingMode BillingMode

	// ReadCapacity and WriteCapacity are the capacity units of a table that is created with BillingMode Provisioned, and
	// only allowed there. A fleet writes about 3 units in FailoverTime for each lease. Default 10 each; at least 1.
	// (KCL: initialLeaseTableReadCapacity, initialLeaseTableWriteCapacity)
	ReadCapacity, WriteCapacity int64

	// PointInTimeRecovery switches continuous backups on for a table that is created. Default false.
	// (KCL: leaseTablePitrEnabled)
	PointInTimeRecovery bool

	// DeletionProtection has DynamoDB refuse to delete a table that is created. Default false.
	// (KCL: leaseTableDeletionProtectionEnabled)
	DeletionProtection bool

	// Tags of a table that is created. Default none; at most 50, keys of 1 to 128 characters that do not start with "aws:",
	// values of at most 256 characters; letters, digits, spaces and _.:/=+-@. (KCL: tags)
	Tags map[string]string
}

// BillingMode is how the lease table is paid for.
type BillingMode string

// The billing modes of DynamoDB.
const (
	OnDemand    BillingMode = "PAY_PER_REQUEST"
	Provisioned BillingMode = "PROVISIONED"
)

// The names of the built-in assignment strategies. Package leases has a type of the same name for each, which says when to
// choose it.
const (
	LeaseCount         = "LeaseCount"         // the same number of leases for every worker
	ThroughputVariance = "ThroughputVariance" // the same throughput for every worker
	Sticky             = "Sticky"             // leases stay with their owners
	ConsistentHash     = "ConsistentHash"     // the place on a circle of hashes decides
	Average            = "Average"            // contiguous ranges of hash keys
)

// AssignmentStrategies returns the names of the built-in assignment strategies.
func AssignmentStrategies() []string {
	return []string{LeaseCount, ThroughputVariance, Sticky, ConsistentHash, Average}
}
