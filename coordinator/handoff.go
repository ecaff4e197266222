package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// asked is told that a peer has asked for a lease that this worker holds. It does not block. ctx is what user code's contexts
// end with.
//
// A lease may be asked for before its entry is there: then start sees it.
func (c *consumers) asked(ctx context.Context, h *leases.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[h.Lease().Key]; e != nil && e.held == h {
		c.escort(ctx, e)
	}
}

// escort starts the hand-off of an entry's lease, once. The caller holds mu.
func (c *consumers) escort(ctx context.Context, e *entry) {
	if !e.escorted && !c.closed {
		e.escorted = true
		c.escorts.Go(func() { c.handOver(ctx, e) })
	}
}

// handOver leads one entry to the end of its tenure, so that its shard stands still for as short as possible:
//
//  1. The write that showed us the mark has moved the counter. The peer, which reads the row now and then, notices within
//     NoticeTime and reads it often from then on; until then the consumer goes on.
//  2. The consumer stops right after a batch: what came in is handled, and the next records are still to come.
//  3. Its processor checkpoints, and the entry gives the lease up: see live.
//
// Where no records are being read (the shard waits for its parents, or the processor is being initialised) there is nothing
// to wait for. A processor that does not finish in time has its context cancelled; if it does not return all the same, the
// peer takes the lease by its counter. Should the peer be gone, nobody else would ask or take as long as its mark stands and we
// renew; so a little later the lease is left to expire.
func (c *consumers) handOver(ctx context.Context, e *entry) {
	if c.isFinished(e) { // nothing runs under it
		c.giveUp(ctx, e)
		return
	}
	cfg := c.o.Config
	grace := leases.HandoffGrace(cfg.LeaseManagement)
	before := time.Duration(0)
	if c.isReading(e) {
		// Neither may eat up the time of a processor that is given little.
		notice := min(leases.NoticeTime(cfg.LeaseManagement), grace/4)
		batch := min(cfg.Retrieval.IdleTime+cfg.Retrieval.IdleTime/4+50*time.Millisecond, time.Second, grace/4)
		if !c.await(ctx, e, notice) || c.stopAfterBatch(e) && !c.await(ctx, e, batch) {
			return
		}
		before = notice + batch
	}
	c.mu.Lock()
	e.halt()
	c.mu.Unlock()
	if !c.await(ctx, e, grace-before) {
		return
	}
	why := fmt.Errorf("a peer has asked for the lease, and its LeaseManagement.GracefulHandoffTimeout of %v is almost over",
		cfg.LeaseManagement.GracefulHandoffTimeout)
	c.cut(e, why)
	if c.await(ctx, e, cfg.LeaseManagement.RenewInterval+cfg.LeaseManagement.FailoverTime/20) {
		c.forsake(e.held, why)
	}
}

func (c *consumers) isReading(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.consumer != nil && e.consumer.IsReading()
}

// stopAfterBatch lets the entry's consumer stop after a batch, and no other one start.
func (c *consumers) stopAfterBatch(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.consumer == nil || !e.consumer.RequestShutdownAfterBatch() {
		return false
	}
	e.stop.Close()
	return true
}

// await reports whether d passed before the entry was done, or user code's time was over.
func (c *consumers) await(ctx context.Context, e *entry, d time.Duration) bool {
	t := loop.ClockOf(ctx).NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-e.done.Done():
	case <-t.C:
		return true
	}
	return false
}
