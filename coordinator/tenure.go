package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/shardsync"
)

var _ processor.LeaseHandle = (*leases.Held)(nil)

// errGoexit is why a consumer ended whose Run did not return.
var errGoexit = errors.New("the processor ended its goroutine instead of returning")

// entry is one tenure of one lease.
type entry struct {
	held *leases.Held
	done loop.Latch // closed when nothing of this tenure, or of an earlier one of the same lease, runs any more
	stop loop.Latch // closed when the entry must not start another consumer

	// Of the goroutine of follow.
	back    loop.Backoff
	wait    time.Duration                     // before the next consumer
	running *processor.ShardConsumer          // has not ended; it rests if there is no such goroutine
	from    checkpoint.ExtendedSequenceNumber // where that began

	stream *reading // guarded by consumers.mu

	// Guarded by consumers.mu.
	before   *entry                   // the tenure before this one; nil once nothing of it runs
	consumer *processor.ShardConsumer // nil before it starts and for a finished shard
	finished bool
	escorted bool // its hand-off has begun
}

// calling names the user's method that keeps the entry, or a tenure before it, from ending. The caller holds mu.
func (e *entry) calling() string {
	for ; e != nil; e = e.before {
		if e.consumer == nil {
			continue
		}
		if method := e.consumer.Status().Calling; method != "" {
			return method
		}
	}
	return "the processor"
}

// halt makes the entry start nothing more. The caller holds mu.
func (e *entry) halt() {
	e.stop.Close()
	if e.consumer != nil {
		e.consumer.RequestShutdown()
	}
}

// follow is the goroutine of one entry. It ends when nothing of this tenure and of those before runs any more, which may be
// later than the end of the worker if user code does not return.
//
// While the consumer rests, as that of an idle shard does, there is no goroutine: its Resume starts another one, which goes on with it.
//
// User code may end the goroutine instead of returning, by runtime.Goexit, as t.FailNow does. Nothing of it runs any more
// then, and another goroutine goes on with the entry, as after any other failure of its consumer.
func (c *consumers) follow(ctx context.Context, e *entry) {
	returned := false
	defer func() {
		if !returned {
			go c.follow(ctx, e)
		}
	}()
	if c.live(ctx, e) {
		c.awaitBefore(e)
		c.forget(e)
		e.done.Close()
	}
	returned = true
}

// awaitTurn waits for the tenure before this one, as long as this one has something to do.
func (c *consumers) awaitTurn(e *entry) {
	before := c.before(e)
	if before == nil {
		return
	}
	select {
	case <-before.done.Done():
	case <-e.stop.Done():
	case <-e.held.Context().Done():
	}
}

// awaitBefore returns when nothing of the tenures before this one runs any more.
func (c *consumers) awaitBefore(e *entry) {
	if before := c.before(e); before != nil {
		<-before.done.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		e.before = nil
	}
}

func (c *consumers) before(e *entry) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.before
}

// live is what happens under one tenure, from the end of the one before to the release of the lease. While the one before
// has not ended, nothing runs under this one, and the lease may be given up at any time.
//
// A finished shard's lease is kept until a stop, which is drain's business. But a shard may finish after drain has looked:
//  1. The stop begins while ShardEnded runs; drain asks its consumer to stop.
//  2. ShardEnded checkpoints SHARD_END.
//  3. Were the lease left to drain, it would name a worker that is gone until it expires.
//
// It reports whether that is over; if not, the consumer rests, and the entry must not be touched any more.
func (c *consumers) live(ctx context.Context, e *entry) (over bool) {
	if e.running == nil { // else it goes on after a rest
		c.awaitTurn(e)
	}
	if !c.consume(ctx, e) {
		return false
	}
	if e.stop.Closed() || e.held.Asked() {
		c.giveUp(ctx, e)
	}
	return true
}

// consume runs consumers under one lease until the shard is finished, the lease is gone, or a stop is asked for; or until the
// consumer rests: then it is not over. A consumer
// that ends by itself for another reason (a source that gave up, a factory that returned nothing, a method that ended its
// goroutine) is made anew after a pause: a shard whose lease we hold is never left unread in silence.
func (c *consumers) consume(ctx context.Context, e *entry) (over bool) {
	for {
		if e.running == nil {
			c.pause(ctx, e)
			if !c.usable(ctx, e) {
				continue
			}
			consumer := c.arm(ctx, e)
			if consumer == nil {
				return true
			}
			e.running, e.from = consumer, e.held.Lease().Checkpoint
		}
		if over, rests := c.run(ctx, e); over || rests {
			return over
		}
	}
}

// usable reports whether the stream of an entry can be read, or the entry is over, which arm will see. Otherwise the entry
// waits until it is worth another look: one of several streams was deleted, and the others are read on.
func (c *consumers) usable(ctx context.Context, e *entry) bool {
	if c.streams.only != nil || c.isOver(e) || ctx.Err() != nil {
		return true
	}
	stream := c.streams.of(e.held.Lease()) // it may be configured in another way now
	c.mu.Lock()
	e.stream = stream
	c.mu.Unlock()
	wait, err := stream.usable(ctx)
	e.wait = wait
	return err == nil
}

// isOver reports whether nothing is to be run under an entry any more.
func (c *consumers) isOver(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.stop.Closed() || e.finished || e.held.Context().Err() != nil
}

// run runs the entry's consumer until it rests or to its end. Then it reports whether nothing is left to do under the lease.
func (c *consumers) run(ctx context.Context, e *entry) (over, rests bool) {
	out := processor.Outcome{Err: errGoexit} // unless Run returns
	defer func() {
		if rests = out.Resting; !rests {
			e.running = nil
			over = c.judge(ctx, e, out)
		}
	}()
	out = e.running.Run(loop.Root(ctx)) // it is told by abort
	return over, rests
}

// judge takes in how a consumer has ended. It reports whether it was the entry's last, and sets the pause before the next one
// otherwise.
func (c *consumers) judge(ctx context.Context, e *entry, out processor.Outcome) (over bool) {
	ended := out.Reason == processor.LeaseLost || e.held.Context().Err() != nil || ctx.Err() != nil || e.stop.Closed()
	if out.Finished || ended {
		c.fault(e, out.Err)
	}
	if out.Finished {
		c.finish(e)
	}
	if out.Finished || ended {
		return true
	}
	_, trimmed := errors.AsType[*processor.TrimmedError](out.Err)
	if isGone(out.Err) && c.streams.only == nil {
		e.wait = c.streamOf(e).fail(loop.ClockOf(ctx).Now(), out.Err)
		c.retried(e, out.Err, 1, e.wait)
		return false
	}
	if trimmed || isGone(out.Err) {
		select {
		case c.fatal <- ofShard(e.held.Lease().Key, out.Err):
		default: // another shard was first
		}
	}
	if e.held.Lease().Checkpoint != e.from { // it was of use
		e.back.Reset()
	}
	e.wait = e.back.Next()
	c.retried(e, out.Err, e.back.Tries(), e.wait)
	return false
}

// arm makes the entry's next consumer, or nil if there must be none.
func (c *consumers) arm(ctx context.Context, e *entry) *processor.ShardConsumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.stop.Closed() || e.finished || e.held.Context().Err() != nil {
		return nil
	}
	l, stream := e.held.Lease(), e.stream
	e.consumer = processor.NewShardConsumer(processor.ConsumerOptions{
		Shard: processor.Shard{
			Stream: stream.Name, StreamIdentifier: stream.Identifier, ID: l.Shard(), LeaseKey: l.Key, ParentIDs: slices.Clone(l.ParentShardIDs),
		},
		Position:         l.Checkpoint,
		Pending:          l.Pending,
		Lease:            e.held,
		Upstream:         &upstream{c, e, stream, ctx},
		ConsumerSettings: c.settings,
	})
	if c.aborted != nil {
		e.consumer.Abort(c.aborted)
	}
	return e.consumer
}

// upstream is what an entry's consumer knows of us.
type upstream struct {
	c      *consumers
	e      *entry
	stream *reading
	ctx    context.Context //nolint:containedctx // of follow
}

func (u *upstream) Open(ctx context.Context, from checkpoint.ExtendedSequenceNumber) (processor.RecordSource, error) {
	return u.stream.Open(ctx, u.e.held.Lease(), from)
}

func (u *upstream) ParentsEnded(ctx context.Context) (bool, error) {
	return u.stream.Syncer.ParentsEnded(ctx, u.stream.local(u.e.held.Lease()))
}

func (u *upstream) EndShard(ctx context.Context, end processor.End) error {
	return u.stream.Syncer.EndShard(ctx, u.stream.local(u.e.held.Lease()), endOf(end))
}

func (u *upstream) Resume() { go u.c.follow(u.ctx, u.e) }

// endOf says for shardsync, which knows nothing of processors, what a source has said.
func endOf(end processor.End) shardsync.End {
	out := shardsync.End{Gone: end.Gone}
	for _, child := range end.Children {
		out.Children = append(out.Children, shardsync.ChildShard(child))
	}
	return out
}

// cut ends the contexts of an entry's user code. It was halted before.
func (c *consumers) cut(e *entry, why error) {
	c.mu.Lock()
	consumer := e.consumer
	c.mu.Unlock()
	if consumer != nil {
		consumer.Abort(why)
	}
}

// finish notes the end of a shard and lets those start who waited for it: the local taker looks for the children's leases
// at once, and children that this worker holds already ask again.
func (c *consumers) finish(e *entry) {
	c.mu.Lock()
	e.finished, e.consumer = true, nil
	var others []*processor.ShardConsumer
	for _, o := range c.byKey {
		if o.consumer != nil {
			others = append(others, o.consumer)
		}
	}
	c.mu.Unlock()
	for _, o := range others {
		o.Wake()
	}
	c.onFinish()
}

func (c *consumers) streamOf(e *entry) *reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.stream
}

func (c *consumers) isFinished(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.finished
}

// pause waits for what the last failure of the entry's consumer has left to wait for.
func (c *consumers) pause(ctx context.Context, e *entry) {
	if e.wait <= 0 {
		return
	}
	t := loop.ClockOf(ctx).NewTimer(e.wait)
	e.wait = 0
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-e.stop.Done():
	case <-e.held.Context().Done():
	case <-t.C:
	}
}

func (c *consumers) retried(e *entry, err error, attempt int, wait time.Duration) {
	if f := c.o.Config.Hooks.Retried; f != nil {
		f(config.RetryEvent{
			Worker: c.o.Config.WorkerID, LeaseKey: e.held.Lease().Key, What: "consume shard", Attempt: attempt, Wait: wait, Err: err,
		})
	}
}
