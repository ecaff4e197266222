package javakcl

import (
	"os"
	"strings"
	"testing"
)

// settings are the fields of KCL's configuration classes, those of 3.5.1 and 2.7.2, as javap lists them.
var settings = map[string]string{
	"LeaseManagementConfig": "tableName dynamoDBClient kinesisClient streamName workerIdentifier failoverTimeMillis leaseAssignmentIntervalMillis " +
		"enablePriorityLeaseAssignment shardSyncIntervalMillis cleanupLeasesUponShardCompletion leaseCleanupConfig maxLeasesForWorker " +
		"maxLeasesToStealAtOneTime initialLeaseTableReadCapacity initialLeaseTableWriteCapacity customShardDetectorProvider maxLeaseRenewalThreads " +
		"leaseTableScanTotalSegments ignoreUnexpectedChildShards consistentReads listShardsBackoffTimeInMillis maxListShardsRetryAttempts " +
		"dynamoDbRequestTimeout billingMode consumerTaskFactory workerUtilizationAwareAssignmentConfig leaseAssignmentStrategy " +
		"leaseTableDeletionProtectionEnabled leaseTablePitrEnabled tags leasesRecoveryAuditorExecutionFrequencyMillis " +
		"leasesRecoveryAuditorInconsistencyConfidenceThreshold initialPositionInStream maxCacheMissesBeforeReload " +
		"listShardsCacheAllowedAgeInSeconds cacheMissWarningModulus dynamoDbLockBasedLeaderLeaseDurationInMillis " +
		"dynamoDbLockBasedLeaderHeartbeatPeriodInMillis metricsFactory streamInfoMode streamIdOnboardingState executorService " +
		"tableCreatorCallback hierarchicalShardSyncer leaseManagementFactory gracefulLeaseHandoffConfig",
	"LeaseCleanupConfig": "leaseCleanupIntervalMillis completedLeaseCleanupIntervalMillis garbageLeaseCleanupIntervalMillis",
	"WorkerUtilizationAwareAssignmentConfig": "inMemoryWorkerMetricsCaptureFrequencyMillis workerMetricsReporterFreqInMillis " +
		"noOfPersistedMetricsPerWorkerMetrics disableWorkerMetrics workerMetricList maxThroughputPerHostKBps dampeningPercentage " +
		"reBalanceThresholdPercentage allowThroughputOvershoot staleWorkerMetricsEntryCleanupDuration workerMetricsTableConfig " +
		"varianceBalancingFrequency workerMetricsEMAAlpha",
	"GracefulLeaseHandoffConfig": "gracefulLeaseHandoffTimeoutMillis isGracefulLeaseHandoffEnabled",
	"CoordinatorConfig": "applicationName maxInitializationAttempts parentShardPollIntervalMillis skipShardSyncAtWorkerInitializationIfLeasesExist " +
		"shardConsumerDispatchPollIntervalMillis shardPrioritization workerStateChangeListener gracefulShutdownCoordinator coordinatorFactory " +
		"schedulerInitializationBackoffTimeMillis clientVersionConfig migrateAllEntitiesToLeaseTable tableMigrationCompleteBakeTimeSeconds " +
		"coordinatorStateTableConfig",
	"LifecycleConfig":  "logWarningForTaskAfterMillis taskBackoffTimeMillis aggregatorUtil taskExecutionListener readTimeoutsToIgnoreBeforeWarning",
	"ProcessorConfig":  "shardRecordProcessorFactory callProcessRecordsEvenForEmptyRecordList",
	"CheckpointConfig": "checkpointFactory",
	"MetricsConfig": "cloudWatchClient namespace metricsBufferTimeMillis metricsMaxQueueSize metricsLevel metricsEnabledDimensions " +
		"publisherFlushBuffer metricsBackend openTelemetry metricsFactory",
	"RetrievalConfig": "kinesisClient applicationName glueSchemaRegistryDeserializer appStreamTracker streamTracker listShardsBackoffTimeInMillis " +
		"maxListShardsRetryAttempts streamArnConstructor initialPositionInStreamExtended retrievalSpecificConfig retrievalFactory",
	"PollingConfig": "streamName usePollingConfigIdleTimeValue millisBehindLatestThresholdForReducedTps kinesisClient maxRecords " +
		"idleTimeBetweenReadsInMillis retryGetRecordsInSeconds maxGetRecordsThreadPool recordsFetcherFactory sleepTimeController " +
		"maxPendingProcessRecordsInput kinesisRequestTimeout",
	"FanOutConfig": "kinesisClient consumerArn streamName consumerName applicationName maxDescribeStreamSummaryRetries " +
		"maxDescribeStreamConsumerRetries registerStreamConsumerRetries retryBackoffMillis",
}

func TestMigrating_saysOfEachSettingOfKCLWhereItWent(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/migrating-from-kcl.md")
	if err != nil {
		t.Fatal(err)
	}
	for class, names := range settings {
		for name := range strings.FieldsSeq(names) {
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("%s.%s is not in docs/migrating-from-kcl.md", class, name)
			}
		}
	}
}
