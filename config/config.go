package config

import (
	"log/slog"
	"time"
)

// Config is everything a worker can be told. Start from [Default] and change what matters; zero durations are derived.
type Config struct {
	ApplicationName string
	StreamName      string
	StreamARN       string
	WorkerID        string
	InitialPosition InitialPosition
	LeaseManagement LeaseManagementConfig
	Cleanup         LeaseCleanupConfig
	Coordinator     CoordinatorConfig
	Lifecycle       LifecycleConfig
	Retrieval       RetrievalConfig
	Logger          *slog.Logger
	Hooks           *Hooks
}

// LeaseManagementConfig is about the lease table and how leases are held.
type LeaseManagementConfig struct {
	TableName                 string
	FailoverTime              time.Duration
	RenewInterval             time.Duration
	LeaseTakerInterval        time.Duration
	MaxLeasesForWorker        int
	ReadBudget                int
	MaxLeasesToStealAtOneTime int
	AssignmentStrategy        string // name of a built-in strategy
	ShardSyncInterval         time.Duration
	ShardSyncConfidence       int
	GracefulHandoffTimeout    time.Duration
	MaxLeaseRenewalThreads    int // how many renewals run at once
	RequestTimeout            time.Duration
	ConsistentReads           bool
	ScanSegments              int
	Zone                      string

	CreateTable         bool
	BillingMode         BillingMode
	ReadCapacity        int64
	WriteCapacity       int64
	PointInTimeRecovery bool
	DeletionProtection  bool
	Tags                map[string]string
}

// BillingMode is how the lease table is paid for.
type BillingMode string

// The billing modes of DynamoDB.
const (
	OnDemand    BillingMode = "PAY_PER_REQUEST"
	Provisioned BillingMode = "PROVISIONED"
)

// LeaseCleanupConfig is about removing leases of finished shards.
type LeaseCleanupConfig struct {
	Interval        time.Duration
	GarbageInterval time.Duration
}

// CoordinatorConfig is about the worker's own loops.
type CoordinatorConfig struct {
	ParentShardPollInterval time.Duration
}

// LifecycleConfig is about calls of user code and stopping.
type LifecycleConfig struct {
	ShutdownGrace                            time.Duration
	TaskBackoff                              time.Duration // first pause before a failed call of user code is repeated
	MaxTaskBackoff                           time.Duration
	LogWarningForTaskAfter                   time.Duration
	CallProcessRecordsEvenForEmptyRecordList bool
}

// RetrievalConfig is about reading from the stream.
type RetrievalConfig struct {
	MaxRecords        int           // records asked for in one GetRecords
	IdleTime          time.Duration // pause between reads while records come
	MaxIdleTime       time.Duration // pause between reads of a shard that is idle
	ByteBudget        int64         // bytes fetched and not yet handled, all shards of the worker together
	MaxPendingBatches int           // batches fetched ahead per shard
	RequestTimeout    time.Duration
}
