package shardlease.javakcl;

import java.net.URI;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.common.KinesisClientUtil;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/** One worker of the Java KCL that reports what it does on standard output; its log goes to standard error. */
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    try {
      run(new Settings(args));
      System.exit(0);
    } catch (Throwable t) {
      t.printStackTrace();
      System.exit(1); // the SDK's threads would keep the process
    }
  }

  private static void run(Settings set) throws Exception {
    Reports reports = new Reports();
    Scheduler scheduler = scheduler(set, reports);
    Thread worker = new Thread(scheduler, "worker");
    Thread stopper = new Thread(() -> stop(scheduler, set, worker), "stopper");
    Runtime.getRuntime().addShutdownHook(stopper); // SIGTERM
    worker.start();
    worker.join();
    try {
      Runtime.getRuntime().removeShutdownHook(stopper);
    } catch (IllegalStateException e) {
      stopper.join(); // the stop was asked for
    }
  }

  /** Runs while the JVM shuts down: when it returns, the process ends. */
  private static void stop(Scheduler scheduler, Settings set, Thread worker) {
    try {
      scheduler.startGracefulShutdown().get(set.number("stopMillis", 40_000), TimeUnit.MILLISECONDS);
      worker.join(1_000);
    } catch (Exception e) {
      e.printStackTrace();
      Runtime.getRuntime().halt(3);
    }
  }

  private static Scheduler scheduler(Settings set, Reports reports) throws Exception {
    // The worker's id is its access key, by which the emulator tells its requests from those of others.
    var credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create(set.text("worker"), "secret"));
    var endpoint = URI.create(set.text("endpoint"));
    // KCL's own client: HTTP/2, CBOR, its window and pings.
    KinesisAsyncClient kinesis = KinesisClientUtil.createKinesisAsyncClient(KinesisAsyncClient.builder()
        .credentialsProvider(credentials).region(Region.US_EAST_1).endpointOverride(endpoint));
    DynamoDbAsyncClient dynamo = DynamoDbAsyncClient.builder()
        .credentialsProvider(credentials).region(Region.US_EAST_1).endpointOverride(endpoint).build();
    // Never asked, since metrics go nowhere.
    CloudWatchAsyncClient cloudWatch = CloudWatchAsyncClient.builder()
        .credentialsProvider(credentials).region(Region.US_EAST_1).endpointOverride(endpoint).build();

    var position = InitialPositionInStream.valueOf(set.text("start", "TRIM_HORIZON"));
    var tracker = new SingleStreamTracker(set.text("stream"), InitialPositionInStreamExtended.newInitialPosition(position));
    var configs = new ConfigsBuilder(tracker, set.text("application"), kinesis, dynamo, cloudWatch, set.text("worker"),
        () -> new Reporting(reports));
    var retrieval = configs.retrievalConfig(); // by fan-out, if nothing else is said
    if (set.text("retrieval", "Polling").equals("Polling")) {
      var polling = new PollingConfig(set.text("stream"), kinesis);
      polling.idleTimeBetweenReadsInMillis(250);
      retrieval.retrievalSpecificConfig(polling);
    }
    var leases = configs.leaseManagementConfig();
    var coordinator = configs.coordinatorConfig();

    // What makes a test wait is shortened; how leases move is KCL's own but for the failover time.
    leases.failoverTimeMillis(set.number("failoverMillis", 10_000));
    leases.shardSyncIntervalMillis(1_000);
    leases.leasesRecoveryAuditorExecutionFrequencyMillis(set.number("auditMillis", 5_000));
    coordinator.parentShardPollIntervalMillis(1_000);
    coordinator.shardConsumerDispatchPollIntervalMillis(250);
    coordinator.schedulerInitializationBackoffTimeMillis(500);
    KCL3.configure(set, leases, coordinator);

    return new Scheduler(configs.checkpointConfig(), coordinator, leases, configs.lifecycleConfig(),
        configs.metricsConfig().metricsFactory(new NullMetricsFactory()), configs.processorConfig(), retrieval);
  }
}
