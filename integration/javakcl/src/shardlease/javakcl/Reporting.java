package shardlease.javakcl;

import java.nio.charset.StandardCharsets;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicLong;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.retrieval.KinesisClientRecord;

/** Reports each batch and checkpoints then: a kill in between makes records come again, never get lost. */
final class Reporting implements ShardRecordProcessor {
  private static final AtomicLong TENURES = new AtomicLong();

  private final Reports to;
  private final long tenure = TENURES.incrementAndGet(); // KCL has no fencing token; the parent orders tenures by their beginning
  private String shard = "";

  Reporting(Reports to) {
    this.to = to;
  }

  @Override
  public void initialize(InitializationInput in) {
    shard = in.shardId();
    to.mention("started", shard, tenure, null);
  }

  @Override
  public void processRecords(ProcessRecordsInput in) {
    if (in.records().isEmpty()) {
      return;
    }
    StringJoiner keys = new StringJoiner(",", ",\"keys\":[", "]");
    StringJoiner numbers = new StringJoiner(",", ",\"numbers\":[", "]");
    for (KinesisClientRecord r : in.records()) {
      keys.add(Reports.quoted(r.partitionKey()));
      numbers.add(StandardCharsets.US_ASCII.decode(r.data().asReadOnlyBuffer()));
    }
    try {
      to.say("batch", shard, tenure, keys.toString() + numbers);
      in.checkpointer().checkpoint();
    } catch (Exception e) {
      // KCL goes on with the next batch, whatever happens here; the next checkpoint covers this one, too.
      to.mention("uncheckpointed", shard, tenure, e);
    }
  }

  @Override
  public void leaseLost(LeaseLostInput in) {
    to.mention("lost", shard, tenure, null);
  }

  @Override
  public void shardEnded(ShardEndedInput in) {
    try {
      in.checkpointer().checkpoint();
      to.mention("ended", shard, tenure, null);
    } catch (Exception e) {
      to.mention("uncheckpointed", shard, tenure, e);
    }
  }

  @Override
  public void shutdownRequested(ShutdownRequestedInput in) {
    try {
      in.checkpointer().checkpoint();
      to.mention("released", shard, tenure, null);
    } catch (Exception e) {
      to.mention("uncheckpointed", shard, tenure, e);
    }
  }
}
