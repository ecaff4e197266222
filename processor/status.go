package processor

import (
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
)

// Status is a consumer at one moment. Times are readings of this process's monotonic clock.
type Status struct {
	State   State
	Since   time.Time // when State was entered; zero before Run
	Calling string    // the method of the user that runs now, "Factory" included; empty if none
	// CallingSince is when that method was called; zero if none runs.
	CallingSince time.Time
	// LastDelivered is the place of the last record that was fetched for the processor, the starting point before that.
	LastDelivered  checkpoint.ExtendedSequenceNumber
	LastCheckpoint checkpoint.ExtendedSequenceNumber // the last durable one
	// MillisBehindLatest is how far the last fetch was from the tip of the shard; -1 before the first one.
	MillisBehindLatest int64
}

// Status returns what the consumer is doing now.
func (c *ShardConsumer) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *ShardConsumer) entered() {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.State, c.status.Since = State(c.phase.State), now
}

func (c *ShardConsumer) calling(method string) {
	var now time.Time
	if method != "" {
		now = c.clock.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Calling, c.status.CallingSince = method, now
}

func (c *ShardConsumer) fetched(b Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.MillisBehindLatest = b.MillisBehindLatest
	if n := len(b.Records); n > 0 {
		c.status.LastDelivered = b.Records[n-1].Position()
	}
}

// observed is the consumer as the observer of its tracker.
type observed ShardConsumer

func (c *observed) Now() time.Time { return c.clock.Now() }

func (c *observed) Written(e checkpoint.Event) {
	if !e.Pending {
		c.mu.Lock()
		c.status.LastCheckpoint = e.At
		c.mu.Unlock()
	}
	if f := c.o.Hooks.CheckpointWritten; f != nil {
		f(c.about(e))
	}
}

func (c *observed) Refused(e checkpoint.Event) {
	if f := c.o.Hooks.CheckpointRefused; f != nil {
		f(c.about(e))
	}
}

func (c *observed) about(e checkpoint.Event) config.CheckpointEvent {
	return config.CheckpointEvent{
		Worker: c.o.Worker, LeaseKey: c.o.Shard.LeaseKey,
		SequenceNumber: e.At.SequenceNumber, SubSequenceNumber: e.At.SubSequenceNumber,
		Pending: e.Pending, Elapsed: e.Elapsed, Err: e.Err,
	}
}
