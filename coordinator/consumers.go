package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/processor"
)

const (
	// releasesAtOnce bounds how many finished leases are released at the same time. One release is one small write.
	releasesAtOnce = 20
	// releaseLimit is how long one release may take, its repetitions included.
	releaseLimit = 3 * time.Second
	// afterGrace is how long user code may take to notice that its context has ended, LeaseLost included, before Run leaves
	// it behind. Together with the default ShutdownGrace it stays below the 30 s that container platforms give by default.
	afterGrace = 4 * time.Second
)

// consumers keeps one consumer for each held lease whose shard is not finished.
type consumers struct {
	o        Options
	settings *processor.ConsumerSettings
	streams  *directory
	release  func(context.Context, *leases.Held) error // set before the first start
	forsake  func(*leases.Held, error)                 // likewise
	onFinish func()                                    // a shard was read to its end: its children may start

	escorts sync.WaitGroup // hand-offs under way
	// fatal holds the first fault that concerns the whole stream, which ends the worker.
	fatal chan error

	mu        sync.Mutex
	draining  bool              // the worker is stopping: leases that come now are given up at once
	closed    bool              // no hand-off begins any more
	aborted   error             // why user code's time is over; nil while it is not
	byKey     map[string]*entry // the newest tenure of each lease key
	faults    []error           // of consumers, for Run
	abandoned []string
}

func newConsumers(o Options, streams *directory) *consumers {
	return &consumers{
		o: o, streams: streams, fatal: make(chan error, 1), byKey: map[string]*entry{},
		settings: &processor.ConsumerSettings{
			Factory: o.Factory, ParentPoll: o.Config.Coordinator.ParentShardPollInterval, Rests: true,
			Lifecycle: o.Config.Lifecycle, Worker: o.Config.WorkerID, Hooks: o.Config.Hooks, Logger: o.Config.Logger,
		},
	}
}

// start gives a lease that was just taken its consumer. It does not block. ctx is what user code's contexts end with.
//
// A lease can be lost and taken again while the consumer of the earlier tenure still drains:
//  1. The lease is lost; its consumer's processor is in the middle of a batch.
//  2. Nobody else took it, so this worker takes it again.
//  3. A second consumer now would run beside the first: two goroutines in user code for one shard.
//
// So an entry waits for its predecessor first.
func (c *consumers) start(ctx context.Context, h *leases.Held) {
	key := h.Lease().Key
	life := c.o.Config.Lifecycle
	e := &entry{
		held: h, stream: c.streams.of(h.Lease()), finished: h.Lease().Finished(),
		back: loop.Backoff{Base: life.TaskBackoff, Max: life.MaxTaskBackoff},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.before = c.byKey[key]
	c.byKey[key] = e
	if c.draining {
		e.halt()
	}
	if h.Asked() {
		c.escort(ctx, e)
	}
	go c.follow(ctx, e)
}

// fault reports an error of a consumer that is not tried again: at once while the worker goes on, else with what Run returns.
func (c *consumers) fault(e *entry, err error) {
	if err == nil {
		return
	}
	key := e.held.Lease().Key
	c.mu.Lock()
	draining := c.draining
	if draining {
		c.faults = append(c.faults, ofShard(key, err))
	}
	c.mu.Unlock()
	if !draining {
		c.o.Config.Logger.Error("consumer ended with an error", "worker", c.o.Config.WorkerID, "lease", key, "error", err)
	}
}

// ofShard says of which lease an error is, unless it begins with that.
func ofShard(key string, err error) error {
	if strings.HasPrefix(err.Error(), "read shard "+key) {
		return err
	}
	return fmt.Errorf("shard %s: %w", key, err)
}

// giveUp releases the lease of an entry under which nothing runs. It outlives ctx, but not by much: if the table does not
// answer, peers take the lease when it has expired.
func (c *consumers) giveUp(ctx context.Context, e *entry) {
	if e.held.Context().Err() != nil {
		return
	}
	limit := min(releaseLimit, c.o.Config.LeaseManagement.FailoverTime/2)
	ctx, cancel := loop.Timeout(context.WithoutCancel(ctx), limit, "release lease "+e.held.Lease().Key)
	defer cancel()
	if err := c.release(ctx, e.held); err != nil && !errors.Is(err, leases.ErrLeaseLost) {
		c.fault(e, fmt.Errorf("release: %w", err))
	}
}

// forget drops an entry that is over, unless its lease is still held (a finished shard's) or a later tenure replaced it.
func (c *consumers) forget(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := e.held.Lease().Key
	if c.byKey[key] == e && e.held.Context().Err() != nil {
		delete(c.byKey, key)
	}
}

// dropped is told when a lease is held no more; it forgets finished shards, which have no goroutine to notice.
func (c *consumers) dropped(h *leases.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := h.Lease().Key
	if e := c.byKey[key]; e != nil && e.held == h && e.finished {
		delete(c.byKey, key)
	}
}

// lost returns the keys of the leases that are held no more and under which something still runs.
func (c *consumers) lost() (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.byKey {
		if e.held.Context().Err() != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// close makes every lease that comes from now on be given up at once, and what goes wrong be kept for Run. What runs goes on.
func (c *consumers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
}

// idle waits until nothing runs any more or ctx ends, and reports which: whether nothing runs.
func (c *consumers) idle(ctx context.Context) bool {
	c.mu.Lock()
	busy := slices.Collect(maps.Values(c.byKey))
	c.mu.Unlock()
	wait(ctx, busy)
	return ctx.Err() == nil
}

// drain asks every consumer to stop and waits until the last one is done and its lease given up, or until grace ends. The
// leases of finished shards are released at once.
func (c *consumers) drain(grace context.Context) {
	c.mu.Lock()
	c.draining = true
	var busy, finished []*entry
	for _, e := range c.byKey {
		e.halt()
		busy = append(busy, e)
		if e.finished {
			finished = append(finished, e)
		}
	}
	c.mu.Unlock()

	var group errgroup.Group
	group.SetLimit(releasesAtOnce)
	for _, e := range finished {
		group.Go(func() error { c.giveUp(grace, e); return nil })
	}
	wait(grace, busy)
	_ = group.Wait()
}

// abort ends the contexts of all user code, also of tenures whose leases are gone.
func (c *consumers) abort(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aborted = cause
	for _, e := range c.byKey {
		for ; e != nil; e = e.before {
			if e.consumer != nil {
				e.consumer.Abort(cause)
			}
		}
	}
}

// abandon waits a last time, after user code's contexts have ended, and then gives up on whatever still runs: its lease is
// left to expire, because user code may still act under it. The text names the shard and the method.
func (c *consumers) abandon(ctx context.Context) {
	c.mu.Lock()
	busy := make([]*entry, 0, len(c.byKey))
	for _, e := range c.byKey {
		busy = append(busy, e)
	}
	c.mu.Unlock()
	ctx, cancel := loop.Timeout(ctx, afterGrace, "wait for user code whose context has ended")
	defer cancel()
	wait(ctx, busy)
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.escorts.Wait() // they end with user code's contexts, but for a release under way

	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range busy {
		if !e.done.Closed() {
			c.abandoned = append(c.abandoned, fmt.Sprintf("shard %s: %s has not returned", e.held.Lease().Key, e.calling()))
		}
	}
}

// wait returns when all entries are done or ctx is.
func wait(ctx context.Context, entries []*entry) {
	for _, e := range entries {
		select {
		case <-e.done.Done():
		case <-ctx.Done():
			return
		}
	}
}

// err is what went wrong with consumers and is worth an error of Run.
func (c *consumers) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.faults)
	if len(c.abandoned) > 0 {
		slices.Sort(c.abandoned)
		all = append(all, fmt.Errorf("stopped without %d of the processors, whose leases will expire: %s",
			len(c.abandoned), strings.Join(c.abandoned, "; ")))
	}
	return errors.Join(all...)
}

// assignments returns what is held now, by lease key.
func (c *consumers) assignments() []Assignment {
	out := c.unsortedAssignments()
	slices.SortFunc(out, func(a, b Assignment) int { return strings.Compare(a.LeaseKey, b.LeaseKey) })
	return out
}

func (c *consumers) unsortedAssignments() []Assignment {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Assignment, 0, len(c.byKey))
	for _, e := range c.byKey {
		if e.held.Context().Err() == nil {
			out = append(out, e.assignment())
		}
	}
	return out
}
