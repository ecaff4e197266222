package leases

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/loop"
)

// Table is the lease table: rows in, conditional writes out. It holds no leases and knows no time but that of its calls;
// all its methods are safe for concurrent use.
//
// Every write carries a condition, and every method says which. A write whose outcome is unknown (the reply was lost, the
// service stumbled) is repeated until it is known or ctx is done; if its condition then fails, the row tells whether an
// earlier attempt had landed. So there are three ends: nil, the write is in the table; an error for which
// errors.Is(err, [ErrLeaseLost]) holds, it is not and the lease is not ours; any other error, unknown: it may have landed or
// may yet land, and calling again with the same arguments finds out. A *[PermanentError] is of the last kind, but calling
// again is of no use.
//
// Calls have no deadline but that of ctx; give a held lease's own. One attempt lasts at most a sixth of FailoverTime, or
// LeaseManagement.RequestTimeout if that is less, and one that is to keep a held lease at most a third of the time that this still
// has. (KCL: LeaseRefresher)
type Table struct {
	api     DynamoDBAPI
	cfg     config.LeaseManagementConfig
	worker  string
	hooks   *config.Hooks
	attempt time.Duration // longest of one attempt at a single row
	page    time.Duration // longest of one attempt at anything else
	budget  *budget       // which request goes first when the table throttles

	names    atomic.Pointer[map[string]string] // the worker ids and the like of the last listing
	segments atomic.Int32                      // into how many the next listing divides the table
	rows     atomic.Int32                      // that the last listing of everything has read
	keys     Keys
	tolerant atomic.Bool // rows with other keys are left out
	mixed    atomic.Bool // and were warned about
	shared   *sharedListing

	mu      sync.Mutex
	skipped map[string]struct{} // keys that were warned about
}

// TableOptions is what a [Table] may be told beside its configuration.
type TableOptions struct {
	Worker string        // our worker id, for events
	Hooks  *config.Hooks // nil: none; called: LeaseSkipped, Retried
	Keys   Keys          // of the leases that listings accept; see [Table.LeaveOtherKeysOut]
}

// NewTable makes a Table of a complete configuration. It does no I/O.
func NewTable(api DynamoDBAPI, cfg config.LeaseManagementConfig, opts TableOptions) *Table {
	t := &Table{api: api, cfg: cfg, worker: opts.Worker, hooks: opts.Hooks, keys: opts.Keys, shared: newSharedListing(), skipped: map[string]struct{}{}}
	if t.hooks == nil {
		t.hooks = &config.Hooks{}
	}
	t.attempt, t.page = attempts(cfg)
	t.budget = &budget{urgent: urgentOf(cfg)}
	t.names.Store(&map[string]string{})
	return t
}

// defaultRequestTimeout serves a configuration that was not completed. (KCL: dynamoDbRequestTimeout)
const defaultRequestTimeout = time.Minute

// Written is what a write left in the table.
type Written struct {
	Lease     Lease // the row after the write
	Recovered Recovery
	// sent is when the request left that this counts from; zero if there was none, or the table does not tell. A call that had to
	// wait for its turn, or was refused at first, counts from later than its beginning.
	sent stamp
}

// Recovery says from when a write counts as a renewal.
type Recovery int

const (
	// NotRecovered means that the write was answered; it counts from before the call.
	NotRecovered Recovery = iota
	// ByThisCall means that replies were lost, but a write of this call is in the table; it counts from before the call.
	ByThisCall
	// ByEarlierCall means that what the call was to achieve is in the table, but perhaps since an earlier call, which was reported as
	// failed. Adopt the row; extend nothing, and renew at once.
	ByEarlierCall
)

func (r Recovery) String() string {
	switch r {
	case ByThisCall:
		return "by this call"
	case ByEarlierCall:
		return "by an earlier call"
	case NotRecovered:
	}
	return "not recovered"
}

// Renewal is what a renewal may carry.
type Renewal struct {
	ThroughputKBps *float64 // nil: leave it
}

// Update is what a checkpoint write changes. Checkpoint, Pending or both must be set.
type Update struct {
	// Checkpoint, if set, becomes the checkpoint; what was pending goes, unless Pending is set too.
	Checkpoint *checkpoint.ExtendedSequenceNumber
	// Pending, if set, becomes the first half of a two-phase checkpoint.
	Pending *checkpoint.Pending
	// ThroughputKBps is written along; nil: leave it.
	ThroughputKBps *float64
}

// Metadata is what may be known of a shard after its row was created. Empty fields are left as they are.
type Metadata struct {
	ChildShardIDs []string
	HashKeyRange  hashkey.Range
	StartAtMillis int64 // written only if the row has none
}

// noRetries switches the SDK's retries off for one call: attempts and pauses are ours, because they must end with the
// lease. By default the SDK would spend four attempts and five seconds on a throttled request.
func noRetries(o *dynamodb.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 0
}

// call does something until its outcome is known: it repeats what failed for a passing reason, with pauses, until ctx is
// done. The error is that of a failed condition as it came, or a *[PermanentError], or says that ctx ended it.
func (t *Table) call(ctx context.Context, op operation, f func(context.Context) error) error {
	clock := loop.ClockOf(ctx)
	pause := op.pauses()
	var last error
	for try := 1; ; try++ {
		if err := context.Cause(ctx); err != nil {
			return op.ended(err, try-1, last)
		}
		if err := t.budget.admit(ctx, op.rank); err != nil {
			return op.ended(err, try-1, last)
		}
		began := stampOf(clock)
		first := op.sent != nil && op.sent.mono.IsZero()
		if first {
			*op.sent = began
		}
		limit, by := op.limit, needOf(ctx).by
		if !by.IsZero() {
			limit = op.attempt(by.Sub(began.mono))
		}
		attempt, cancel := loop.Timeout(ctx, limit, op.String())
		err := f(attempt)
		timeout := context.Cause(attempt)
		cancel()
		t.budget.judge(clock.Now(), op.rank, verdictOn(ctx, err, timeout, clock.Since(began.mono), op.limit))
		if err == nil {
			return nil
		}
		if first && isThrottled(err) {
			*op.sent = stamp{}
		}
		k := kindOf(err)
		if k == conditionFailed {
			return err
		}
		if cause := context.Cause(ctx); cause != nil {
			return op.ended(cause, try, err)
		}
		if k == permanent || k == skewed && try >= mostSkewed {
			return &PermanentError{Doing: op.String(), Advice: advice(err, op.action, t.cfg.TableName), Err: err}
		}
		if timeout != nil {
			err = timeout // says what took too long, and how long that was
		}
		last = err
		wait := pause.Next()
		if !by.IsZero() {
			wait = hasten(wait, by.Sub(clock.Now()))
		}
		if f := t.hooks.Retried; f != nil {
			f(config.RetryEvent{Worker: t.worker, LeaseKey: op.key, What: op.what, Attempt: try, Wait: wait, Err: err})
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return op.ended(err, try, last)
		}
	}
}

// verdictOn says what the outcome of an attempt tells of the table's load. timeout is why the attempt was given up, if it was.
func verdictOn(ctx context.Context, err, timeout error, took, limit time.Duration) verdict {
	switch {
	case isThrottled(err):
		return tableThrottled
	case err != nil && kindOf(err) != conditionFailed && (timeout == nil || ctx.Err() != nil):
		return noVerdict
	case timeout != nil || took > limit/2:
		return tableSlow
	}
	return tableAnswered
}

const (
	retryBase  = 25 * time.Millisecond
	retryMax   = 2 * time.Second
	mostSkewed = 3
)
