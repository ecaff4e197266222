package config

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// The defaults that are not derived.
const (
	defaultFailoverTime           = 10 * time.Second
	defaultReadBudget             = 110
	defaultShardSyncInterval      = 120 * time.Second
	defaultShardSyncConfidence    = 3
	defaultGracefulHandoffTimeout = 30 * time.Second
	defaultRenewalThreads         = 20
	defaultTableTimeout           = 10 * time.Second // no healthy request to DynamoDB takes that long
	defaultCapacity               = 10
	defaultCleanupInterval        = time.Minute
	defaultGarbageInterval        = 30 * time.Minute
	defaultKeepFinished           = 50 * time.Second
	defaultParentPoll             = time.Second
	defaultShutdownGrace          = 25 * time.Second
	defaultTaskBackoff            = 500 * time.Millisecond
	defaultMaxTaskBackoff         = 30 * time.Second
	defaultMaxRecords             = 10_000
	defaultIdleTime               = 250 * time.Millisecond
	defaultMaxIdleTime            = time.Second
	defaultBehindLatest           = time.Second // a reader at the tip can be a little behind without there being much to read
	defaultByteBudget             = 256 << 20
	defaultMaxPendingBatches      = 3
	defaultKinesisTimeout         = 30 * time.Second
	defaultFormerWait             = time.Hour
	defaultSilenceTimeout         = 35 * time.Second

	// renewSlack is KCL's epsilon: with it the third renewal is under way before FailoverTime has passed.
	renewSlack = 25 * time.Millisecond
)

// Default returns a configuration that needs nothing else: it reads stream from TRIM_HORIZON and shares it with the other
// workers of application, creating the table that the application's name names if it is missing. WorkerID is made of the
// host's name, the process id and 8 random hex digits, new at each call. Everything that is not set is derived later, by
// [Config.Complete].
func Default(application, stream string) Config {
	return Config{
		ApplicationName: application,
		StreamName:      stream,
		WorkerID:        newWorkerID(),
		LeaseManagement: LeaseManagementConfig{
			FailoverTime:           defaultFailoverTime,
			ReadBudget:             defaultReadBudget,
			AssignmentStrategy:     LeaseCount,
			ShardSyncInterval:      defaultShardSyncInterval,
			ShardSyncConfidence:    defaultShardSyncConfidence,
			GracefulHandoffTimeout: defaultGracefulHandoffTimeout,
			MaxLeaseRenewalThreads: defaultRenewalThreads,
			CreateTable:            true,
			BillingMode:            OnDemand,
		},
		Cleanup:     LeaseCleanupConfig{Interval: defaultCleanupInterval, GarbageInterval: defaultGarbageInterval, KeepFinished: defaultKeepFinished},
		Coordinator: CoordinatorConfig{ParentShardPollInterval: defaultParentPoll},
		Lifecycle:   LifecycleConfig{ShutdownGrace: defaultShutdownGrace, TaskBackoff: defaultTaskBackoff},
		Retrieval: RetrievalConfig{
			Mode:              Polling,
			MaxRecords:        defaultMaxRecords,
			IdleTime:          defaultIdleTime,
			OnTrimmed:         ContinueReading,
			ByteBudget:        defaultByteBudget,
			MaxPendingBatches: defaultMaxPendingBatches,
			Deaggregate:       true,
			RequestTimeout:    defaultKinesisTimeout,
		},
	}
}

// newWorkerID lets people see which host and process owns a shard, and keeps a process that was given the pid of its
// predecessor from being taken for it.
func newWorkerID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}

// Complete returns a copy in which every zero field that has a default or is derived from others is filled in, so that
// reading code needs no defaults of its own. Values that are set stay as they are, wrong ones too: call [Config.Validate]
// before. Complete is pure, and completing twice changes nothing. Logger and Hooks are not nil afterwards; ApplicationName
// and WorkerID have no default.
func (c Config) Complete() Config {
	if arn, err := parseARN(c.StreamARN); err == nil && c.StreamName == "" { // a broken ARN is a matter for Validate
		c.StreamName = arn.name
	}
	if arn, ok := parseTableStream(c.StreamARN); ok {
		c.StreamName = cmp.Or(c.StreamName, arn.table)
	}
	if c.Retrieval.Mode == FanOut && c.StreamName != "" { // a name alone may be that of another account's or region's stream
		c.StreamARN = cmp.Or(c.StreamARN, streamOfConsumer(c.Retrieval.FanOut.ConsumerARN))
	}
	c.FormerStreams.Deletion = cmp.Or(c.FormerStreams.Deletion, KeepLeases)
	c.FormerStreams.Wait = cmp.Or(c.FormerStreams.Wait, defaultFormerWait)
	c.LeaseManagement = c.LeaseManagement.complete(c.ApplicationName)

	c.Cleanup.Interval = cmp.Or(c.Cleanup.Interval, defaultCleanupInterval)
	c.Cleanup.GarbageInterval = cmp.Or(c.Cleanup.GarbageInterval, defaultGarbageInterval)
	c.Cleanup.KeepFinished = cmp.Or(c.Cleanup.KeepFinished, defaultKeepFinished)
	c.Coordinator.ParentShardPollInterval = cmp.Or(c.Coordinator.ParentShardPollInterval, defaultParentPoll)

	l := &c.Lifecycle
	l.ShutdownGrace = cmp.Or(l.ShutdownGrace, defaultShutdownGrace)
	l.TaskBackoff = cmp.Or(l.TaskBackoff, defaultTaskBackoff)
	l.MaxTaskBackoff = cmp.Or(l.MaxTaskBackoff, max(defaultMaxTaskBackoff, l.TaskBackoff))

	r := &c.Retrieval
	r.Mode = cmp.Or(r.Mode, Polling)
	r.FanOut.ConsumerName = cmp.Or(r.FanOut.ConsumerName, consumerOfARN(r.FanOut.ConsumerARN), c.ApplicationName)
	r.FanOut.SilenceTimeout = cmp.Or(r.FanOut.SilenceTimeout, defaultSilenceTimeout)
	r.MaxRecords = cmp.Or(r.MaxRecords, defaultMaxRecords)
	r.IdleTime = cmp.Or(r.IdleTime, defaultIdleTime)
	r.MaxIdleTime = cmp.Or(r.MaxIdleTime, max(defaultMaxIdleTime, r.IdleTime))
	r.BehindLatestThreshold = cmp.Or(r.BehindLatestThreshold, defaultBehindLatest)
	r.OnTrimmed = cmp.Or(r.OnTrimmed, ContinueReading)
	r.ByteBudget = cmp.Or(r.ByteBudget, defaultByteBudget)
	r.MaxPendingBatches = cmp.Or(r.MaxPendingBatches, defaultMaxPendingBatches)
	r.RequestTimeout = cmp.Or(r.RequestTimeout, defaultKinesisTimeout)

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Hooks == nil {
		c.Hooks = &Hooks{}
	}
	return c
}

func (m LeaseManagementConfig) complete(application string) LeaseManagementConfig {
	m.TableName = cmp.Or(m.TableName, application)
	m.FailoverTime = cmp.Or(m.FailoverTime, defaultFailoverTime)
	m.RenewInterval = cmp.Or(m.RenewInterval, m.FailoverTime/3-renewSlack)
	m.LeaseTakerInterval = cmp.Or(m.LeaseTakerInterval, m.FailoverTime/2)
	m.RequestTimeout = cmp.Or(m.RequestTimeout, defaultTableTimeout)
	m.ReadBudget = cmp.Or(m.ReadBudget, defaultReadBudget)
	m.AssignmentStrategy = cmp.Or(m.AssignmentStrategy, LeaseCount)
	m.ShardSyncInterval = cmp.Or(m.ShardSyncInterval, defaultShardSyncInterval)
	m.ShardSyncConfidence = cmp.Or(m.ShardSyncConfidence, defaultShardSyncConfidence)
	m.GracefulHandoffTimeout = cmp.Or(m.GracefulHandoffTimeout, defaultGracefulHandoffTimeout)
	m.MaxLeaseRenewalThreads = cmp.Or(m.MaxLeaseRenewalThreads, defaultRenewalThreads)
	m.BillingMode = cmp.Or(m.BillingMode, OnDemand)
	if m.BillingMode == Provisioned {
		m.ReadCapacity = cmp.Or(m.ReadCapacity, defaultCapacity)
		m.WriteCapacity = cmp.Or(m.WriteCapacity, defaultCapacity)
	}
	return m
}
