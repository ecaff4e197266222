package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/internal/states"
)

// lastWords is how long LeaseLost may use its context. It fits between the default grace period (25 s) and the 30 s after
// which container platforms kill a process.
const lastWords = 5 * time.Second

func (c *ShardConsumer) awaitParents() states.Event {
	if len(c.o.Shard.ParentIDs) == 0 {
		return states.ParentsEnded
	}
	ended, err := c.o.Upstream.ParentsEnded(c.fetch)
	switch {
	case err != nil:
		if c.fetch.Err() == nil {
			c.retry("look whether the parents have ended", err)
		}
	case ended:
		return states.ParentsEnded
	default:
		c.backoff.Reset()
		c.pause = c.o.ParentPoll
	}
	return states.Again
}

func (c *ShardConsumer) initialize() states.Event {
	if !c.usable() {
		return states.Again
	}
	if c.processor == nil {
		if err := c.makeProcessor(); err != nil {
			c.retry("make the processor", err)
			return states.Again
		}
	}
	if p := c.o.Pending; p != nil && !p.At.IsSentinel() {
		// The earlier owner had been given the records up to p.At. For the tracker that is a batch that was delivered and
		// not handled, so that Initialize can commit it. (A sentinel could be SHARD_END only: that one waits for ShardEnded.)
		c.tracker.BeginBatch(p.At)
		c.tracker.EndBatch(false)
	}
	err := c.call("Initialize", func() error {
		return c.processor.Initialize(c.work, InitializationInput{
			Shard: c.o.Shard, Position: c.tracker.Last(), Pending: c.o.Pending,
			Checkpointer: c.tracker.Checkpointer(), Grant: c.o.Lease.Grant(),
		})
	})
	if err != nil {
		c.retry("initialize", err)
		return states.InitializeFailed
	}
	return states.Initialized
}

func (c *ShardConsumer) makeProcessor() error {
	return c.call("Factory", func() error {
		c.processor = c.o.Factory(c.o.Shard)
		if c.processor == nil {
			return fmt.Errorf("make the processor of shard %s: Factory returned nil", c.o.Shard.ID)
		}
		return nil
	})
}

// process delivers the batch in hand, or the next one. A batch stays in hand until ProcessRecords returns nil.
func (c *ShardConsumer) process() states.Event {
	if c.batch == nil {
		if e := c.fetchBatch(); e != states.BatchDone {
			return e
		}
	}
	b := c.batch
	if len(b.Records) > 0 || b.End == nil && c.o.Lifecycle.CallProcessRecordsEvenForEmptyRecordList {
		// The fetch may have waited for long: only now is it certain that the lease was not lost, nor a stop requested.
		if e, ok := c.interruption(); ok {
			return e
		}
		if !c.usable() {
			return states.Again
		}
		if err := c.deliver(b); err != nil {
			c.retry("process records", err)
			return states.Again
		}
		size := 0
		for i := range b.Records {
			size += len(b.Records[i].Data)
		}
		c.o.Lease.Processed(size)
	}
	e := states.BatchDone
	if b.End != nil {
		c.end, e = b.End, states.LastBatchDone
	}
	c.release()
	c.mu.Lock()
	soon := c.stopSoon
	c.mu.Unlock()
	if soon {
		c.RequestShutdown()
	}
	return e
}

// fetchBatch fetches the next batch; batchDone means that there is one in hand.
func (c *ShardConsumer) fetchBatch() states.Event {
	if c.source == nil {
		source, err := c.o.Upstream.Open(c.o.Lease.Context(), c.tracker.Last())
		if err != nil {
			if c.fetch.Err() == nil {
				c.retry("open the shard for reading", err)
			}
			return states.Again
		}
		c.source = source
		c.backoff.Reset()
		c.mu.Lock()
		c.reading, _ = source.(Announcer)
		c.mu.Unlock()
		if cause := context.Cause(c.fetch); cause != nil { // just before that
			c.stopReading(cause)
		}
		if c.reading != nil && c.o.Rests {
			return states.Again // the first page may take long to come
		}
	}
	b, err := c.source.Next(c.fetch)
	if err != nil {
		if c.fetch.Err() != nil {
			return states.Again // it is an interruption
		}
		c.failure = err
		if !strings.Contains(err.Error(), c.o.Shard.ID) { // most sources say so themselves
			c.failure = fmt.Errorf("read shard %s: %w", c.o.Shard.ID, err)
		}
		return states.SourceFailed
	}
	c.batch, c.idle = &b, len(b.Records) == 0
	c.fetched(b)
	return states.BatchDone
}

func (c *ShardConsumer) deliver(b *Batch) error {
	var last checkpoint.ExtendedSequenceNumber
	if n := len(b.Records); n > 0 {
		last = b.Records[n-1].Position()
	}
	c.tracker.BeginBatch(last)
	began := c.clock.Now()
	err := c.call("ProcessRecords", func() error {
		return c.processor.ProcessRecords(c.work, ProcessRecordsInput{
			Records: b.Records, MillisBehindLatest: b.MillisBehindLatest,
			Checkpointer: c.tracker.Checkpointer(), Grant: c.o.Lease.Grant(),
		})
	})
	c.tracker.EndBatch(err == nil)
	if c.o.Hooks.BatchProcessed != nil {
		c.o.Hooks.BatchProcessed(config.BatchEvent{
			Worker: c.o.Worker, LeaseKey: c.o.Shard.LeaseKey, Records: len(b.Records),
			MillisBehindLatest: b.MillisBehindLatest, Elapsed: c.clock.Since(began), Err: err,
		})
	}
	return err
}

// notify calls ShutdownRequested once, whatever it returns: the lease is given up in any case.
func (c *ShardConsumer) notify() states.Event {
	c.closeSource()
	if !c.usable() {
		return states.Again
	}
	err := c.call("ShutdownRequested", func() error {
		return c.processor.ShutdownRequested(c.work, ShutdownRequestedInput{
			Checkpointer: c.tracker.Checkpointer(), Grant: c.o.Lease.Grant(),
		})
	})
	if !c.leaseIsLost() {
		// What waits for its write is written now, while there is somebody to be told if it fails.
		err = errors.Join(err, c.tracker.Checkpointer().Flush(c.work))
	}
	if c.leaseIsLost() {
		return states.LeaseIsLost // so err, if any, is its consequence
	}
	if err != nil {
		c.failure = errors.Join(c.failure, fmt.Errorf("ShutdownRequested of shard %s: %w", c.o.Shard.ID, err))
	}
	return states.Notified
}

func (c *ShardConsumer) recordEnd() states.Event {
	c.closeSource()
	if !c.usable() {
		return states.Again
	}
	if err := c.o.Upstream.EndShard(c.work, *c.end); err != nil {
		if errors.Is(err, checkpoint.ErrLeaseLost) && c.lost == nil {
			c.lost = err
			c.abandon(err)
			return states.LeaseIsLost
		}
		c.retry("record the end of the shard", err)
		return states.EndFailed
	}
	return states.EndRecorded
}

// callShardEnded succeeds when the checkpoint is SHARD_END. That is written by the user's code, so an error that it returns
// nevertheless changes nothing any more and is only reported.
func (c *ShardConsumer) callShardEnded() states.Event {
	if !c.usable() {
		return states.Again
	}
	c.tracker.BeginShardEnd()
	err := c.call("ShardEnded", func() error {
		return c.processor.ShardEnded(c.work, ShardEndedInput{
			Checkpointer: c.tracker.Checkpointer(), Grant: c.o.Lease.Grant(),
		})
	})
	if last := c.tracker.Last(); !last.IsShardEnd() {
		if err == nil {
			err = fmt.Errorf("ShardEnded of shard %s returned nil but did not checkpoint: the checkpoint is %s, want %s; "+
				"call Checkpointer.Checkpoint in it", c.o.Shard.ID, last, checkpoint.ShardEnd)
		}
		c.retry("end the shard", err)
		return states.EndFailed
	}
	if err != nil {
		c.failure = fmt.Errorf("ShardEnded of shard %s, after it checkpointed %s: %w", c.o.Shard.ID, checkpoint.ShardEnd, err)
	}
	if c.o.Hooks.ShardEnded != nil {
		c.o.Hooks.ShardEnded(config.LeaseEvent{
			Worker: c.o.Worker, LeaseKey: c.o.Shard.LeaseKey, Token: c.o.Lease.Grant().Token,
		})
	}
	return states.ShardEnded
}

// callLeaseLost closes the tracker before it calls the user: whatever the user's code still does, no checkpoint of it lands.
func (c *ShardConsumer) callLeaseLost() states.Event {
	cause := c.cause()
	c.closeAll(cause)
	ctx, cancel := loop.Timeout(context.WithoutCancel(c.run), lastWords, "LeaseLost of shard "+c.o.Shard.ID)
	defer cancel()
	err := c.call("LeaseLost", func() error {
		c.processor.LeaseLost(ctx, LeaseLostInput{Cause: cause})
		return nil
	})
	if err != nil {
		c.failure = errors.Join(c.failure, fmt.Errorf("LeaseLost of shard %s: %w", c.o.Shard.ID, err))
	}
	return states.Left
}

// cause is why the processor may not go on.
func (c *ShardConsumer) cause() error {
	switch {
	case c.lost != nil:
		return c.lost
	case c.o.Lease.Context().Err() != nil:
		return context.Cause(c.o.Lease.Context())
	case c.overdue() != nil:
		return fmt.Errorf("the time to stop is over: %w", c.overdue())
	}
	return errors.New("a stop was requested before the end of the shard could be recorded")
}

// closeSource stops reading; nothing fetched is handed over any more.
func (c *ShardConsumer) closeSource() {
	if c.source != nil {
		c.mu.Lock()
		c.reading = nil
		c.mu.Unlock()
		c.source.Close()
		c.source = nil
	}
	c.release()
}
