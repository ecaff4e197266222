package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Tracker knows, for one tenure of one shard, what was delivered, what is handled and what is durable. The shard's consumer
// tells it about batches; user code sees only its [Checkpointer]. All methods may be called from any goroutine; those that
// tell about batches belong to the consumer, whose calls do not overlap.
// (KCL: ShardRecordProcessorCheckpointer)
type Tracker struct {
	store Store
	later Deferrer // the store as one; nil if it is none
	opts  TrackerOptions

	mu sync.Mutex
	// turn holds one token, which whoever writes takes out: it serialises writes, and waiting for it obeys ctx. closed is closed by Close,
	// after cause was set. Both are made by the first call of a Checkpointer, since most shards of a large worker are idle.
	turn, closed chan struct{}

	cause     error                  // why the tracker was closed
	last      ExtendedSequenceNumber // durable
	floor     ExtendedSequenceNumber // the largest place that is or may be durable, or was deferred; never before last
	good      ExtendedSequenceNumber // end of the last handled batch, or where this tenure started
	inHand    ExtendedSequenceNumber // end of the batch in hand; zero if there is none
	delivered ExtendedSequenceNumber // largest end of a batch, or where this tenure started
	failed    bool                   // the last batch was not handled, and comes again from its beginning
	ended     bool                   // the shard has no more records
	waiting   bool                   // floor was deferred and its write has not ended
	late      error                  // why what was deferred will not be written, until a call has returned it
}

// TrackerOptions are optional.
type TrackerOptions struct {
	// LeaseKey names the shard in errors.
	LeaseKey string
	Observer Observer // may be nil
}

// Observer is told what became of the calls of a [Checkpointer]. Its methods are called on the goroutine of the caller, or the
// store's for what was deferred; they must not block, nor checkpoint.
type Observer interface {
	// Now reads the clock for Event.Elapsed, which is 0 without an Observer.
	Now() time.Time
	// Written is called after each successful write, in the order of the writes and before the next one starts.
	Written(e Event)
	// Refused is called after each call that failed, whatever the reason, and when what was deferred will not be written.
	Refused(e Event)
}

// Event is about one call of a [Checkpointer].
type Event struct {
	At      ExtendedSequenceNumber
	Pending bool          // it was a Prepare
	Elapsed time.Duration // of the write; 0 if there was none
	Err     error
}

// NewTracker starts at the shard's stored checkpoint, or at the sentinel it starts from. Writes go to store.
func NewTracker(store Store, from ExtendedSequenceNumber, opts TrackerOptions) *Tracker {
	if opts.LeaseKey == "" {
		opts.LeaseKey = "shard"
	}
	t := &Tracker{
		store: store, opts: opts,
		last: from, floor: from, good: from, delivered: from,
	}
	t.later, _ = store.(Deferrer)
	return t
}

// Checkpointer returns what user code gets.
func (t *Tracker) Checkpointer() *Checkpointer { return &Checkpointer{t: t} }

// BeginBatch says that ProcessRecords is about to be called with records that end at last. The zero value stands for a
// batch without records. A batch that is repeated may end earlier than it did before; what was delivered stays delivered.
func (t *Tracker) BeginBatch(last ExtendedSequenceNumber) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inHand = last
	if last.Compare(t.delivered) > 0 {
		t.delivered = last
	}
}

// EndBatch says that ProcessRecords has returned. If handled is false (an error, a panic), Checkpoint covers only the
// batches before it from now on; its records may still be named in CheckpointAt. They come again, also those up to a place
// in the middle of it that was checkpointed: to name one of these once more says nothing new.
func (t *Tracker) EndBatch(handled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if handled && t.inHand.Compare(t.good) > 0 {
		t.good = t.inHand
	}
	t.failed = !handled
	t.inHand = ExtendedSequenceNumber{}
}

// BeginShardEnd says that every record of the shard was delivered and handled, and that ShardEnded is about to be called.
// From now on Checkpoint means SHARD_END, and so does the number of the last record, however often ShardEnded is repeated:
// the number is the largest one delivered, which no later call changes.
func (t *Tracker) BeginShardEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// Last returns the last checkpoint that is known to be durable.
func (t *Tracker) Last() ExtendedSequenceNumber {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Close ends the tracker: every call that has not begun to write yet, and every later one, fails with an error that wraps
// [ErrLeaseLost] and cause. Close does not wait for a write that has begun; that one obeys its own context. Only the first
// Close has an effect.
func (t *Tracker) Close(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause != nil {
		return
	}
	switch {
	case cause == nil:
		t.cause = ErrLeaseLost
	case errors.Is(cause, ErrLeaseLost):
		t.cause = cause
	default:
		t.cause = fmt.Errorf("%w: %w", ErrLeaseLost, cause)
	}
	if t.closed != nil {
		close(t.closed)
	}
}

// channels makes turn and closed, if they were not made before.
func (t *Tracker) channels() (turn, closed chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == nil {
		t.turn, t.closed = make(chan struct{}, 1), make(chan struct{})
		t.turn <- struct{}{}
		if t.cause != nil {
			close(t.closed)
		}
	}
	return t.turn, t.closed
}

// request is one call of a Checkpointer: where to, as decided when the call was made.
type request struct {
	at      ExtendedSequenceNumber
	all     bool // at is not the caller's but what was handled when it called
	flush   bool // at is not the caller's but whatever is not known to be durable
	now     bool // not to be deferred
	pending bool
	state   []byte
}

// handled is the request of Checkpoint: see covered.
func (t *Tracker) handled() request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return request{at: t.covered(), all: true}
}

// explicit is the request of CheckpointAt. At the end of the shard the number of the last record means SHARD_END. That
// comes before any comparison with the last checkpoint: a program that checkpointed the last record while it processed it,
// and names it again in ShardEnded, means to complete the shard.
func (t *Tracker) explicit(at ExtendedSequenceNumber) request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended && !at.IsSentinel() && at.Compare(t.delivered) == 0 {
		at = ShardEnd
	}
	return request{at: at}
}

// covered returns what Checkpoint covers at this moment. The caller holds mu.
func (t *Tracker) covered() ExtendedSequenceNumber {
	switch {
	case t.ended:
		return ShardEnd
	case t.inHand.Compare(t.good) > 0:
		return t.inHand
	}
	return t.good
}

// set waits for its turn, decides, and writes. It returns the place that was decided on.
func (t *Tracker) set(ctx context.Context, r request) (ExtendedSequenceNumber, error) {
	release, err := t.await(ctx)
	if err != nil {
		return r.at, t.refuse(r, 0, err)
	}
	defer release()

	at, write, err := t.decide(r)
	r.at = at
	if err != nil {
		return at, t.refuse(r, 0, err)
	}
	if !write {
		return at, nil
	}
	if !r.pending && !r.now && !at.IsShardEnd() {
		if postponed, err := t.postpone(at); postponed || err != nil {
			return at, t.refuse(r, 0, err)
		}
	}
	began := t.now()
	if r.pending {
		err = t.store.WritePending(ctx, Pending{At: at, State: r.state})
	} else {
		err = t.store.WriteCheckpoint(ctx, at)
		t.record(at, err)
	}
	elapsed := t.now().Sub(began)
	if err != nil {
		return at, t.refuse(r, elapsed, err)
	}
	if o := t.opts.Observer; o != nil {
		o.Written(Event{At: at, Pending: r.pending, Elapsed: elapsed})
	}
	return at, nil
}

// postpone gives the place to a store that writes later, and reports whether there is one. The caller has the turn.
func (t *Tracker) postpone(at ExtendedSequenceNumber) (bool, error) {
	if t.later == nil {
		return false, nil
	}
	t.mu.Lock()
	floor, waiting := t.floor, t.waiting
	if waiting && floor.Compare(at) == 0 {
		t.mu.Unlock()
		return true, nil
	}
	t.floor, t.waiting = at, true // now, since it may be durable before the call returns
	t.mu.Unlock()
	deferred, err := t.later.DeferCheckpoint(at, t.postponed)
	if !deferred {
		t.mu.Lock()
		t.floor, t.waiting = floor, waiting
		t.mu.Unlock()
	}
	return deferred, err
}

// postponed is told how the write of a deferred place has ended.
func (t *Tracker) postponed(at ExtendedSequenceNumber, elapsed time.Duration, err error) {
	if err != nil {
		err = t.refuse(request{at: at}, elapsed, fmt.Errorf("it was to be written later: %w", err))
	}
	t.mu.Lock()
	t.waiting = t.waiting && t.floor.Compare(at) > 0
	if err != nil {
		t.late = err
	} else if at.Compare(t.last) > 0 {
		t.last = at
	}
	t.mu.Unlock()
	if o := t.opts.Observer; err == nil && o != nil {
		o.Written(Event{At: at, Elapsed: elapsed})
	}
}

// await takes the token out of turn, which release puts back. It prefers a closed tracker and a done ctx to a free turn, so that a call
// which must fail never writes.
func (t *Tracker) await(ctx context.Context) (release func(), err error) {
	turn, closed := t.channels()
	select {
	case <-closed:
		return nil, t.closedBy()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-turn:
	}
	select {
	case <-closed:
		err = t.closedBy()
	default:
		if err = context.Cause(ctx); err == nil {
			return func() { turn <- struct{}{} }, nil
		}
	}
	turn <- struct{}{}
	return nil, err
}

func (t *Tracker) closedBy() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// decide returns the place to write and whether there is anything to write. It runs with the turn held, so that what it
// compares with does not change before the write:
//
//  1. Goroutine A calls CheckpointAt(5), goroutine B CheckpointAt(9), both find the last checkpoint at 3.
//  2. B writes first.
//  3. If A's place had been compared when A called, A would now move the row from 9 back to 5.
func (t *Tracker) decide(r request) (at ExtendedSequenceNumber, write bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = r.at
	if r.flush {
		at = t.floor
	}
	if err := t.late; err != nil {
		t.late = nil
		return at, false, err
	}
	if r.flush {
		return at, at.Compare(t.last) != 0, nil
	}
	if r.all {
		// While the call waited its batch may have failed: then it is not handled. Or the next batch has begun: the caller
		// did not mean that one. So it is the smaller of then and now; but what is or may be durable was said already.
		if now := t.covered(); now.Compare(at) < 0 {
			at = now
		}
		if at.Compare(t.floor) < 0 {
			at = t.floor
		}
	} else if t.repeats(r) {
		at = t.floor
	} else if err := t.check(at); err != nil {
		return at, false, err
	}
	// If a write of unknown outcome lies beyond the durable place, at is not smaller than that one and thus written again.
	return at, at.Compare(t.last) != 0, nil
}

// repeats reports whether the caller names a place that it went beyond before the batch failed, which comes again from its beginning: it means no
// less than what it has said already. To refuse that would have a program that checkpoints record by record fail for ever. A place of
// another batch, and a commit, are no repetition; nor is a prepared place while the larger one is not durable, since its state is
// another's. The caller holds mu.
func (t *Tracker) repeats(r request) bool {
	return t.failed && !r.now && r.at.Check() == nil && !r.at.IsSentinel() && r.at.Compare(t.good) > 0 && r.at.Compare(t.floor) < 0 &&
		(!r.pending || t.floor.Compare(t.last) == 0)
}

// check decides about a place that the caller named. The caller holds mu.
func (t *Tracker) check(at ExtendedSequenceNumber) error {
	if err := at.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrOutOfRange, err)
	}
	switch {
	case at.Compare(t.floor) < 0:
		switch {
		case t.waiting:
			return fmt.Errorf("%w: %s is behind the last checkpoint %s, which is to be written soon", ErrOutOfRange, at, t.floor)
		case t.floor.Compare(t.last) != 0:
			return fmt.Errorf("%w: %s is behind %s, whose write failed but may have landed (Flush writes it)", ErrOutOfRange, at, t.floor)
		}
		return fmt.Errorf("%w: %s is behind the last checkpoint %s", ErrOutOfRange, at, t.last)
	case at.Compare(t.floor) == 0:
		return nil
	case at.IsShardEnd() && t.ended:
		return nil
	case at.IsShardEnd():
		return fmt.Errorf("%w: %s before the end of the shard, delivered up to %s", ErrOutOfRange, at, t.delivered)
	case at.IsSentinel():
		return fmt.Errorf("%w: %s is not the place of a record, last checkpoint is %s", ErrOutOfRange, at, t.last)
	case at.Compare(t.delivered) > 0:
		return fmt.Errorf("%w: %s is beyond the last delivered record %s", ErrOutOfRange, at, t.delivered)
	}
	return nil
}

// record keeps what a checkpoint write has shown. A lost lease changed nothing in the row; any other error may have come
// after the write landed, so that place becomes the floor.
func (t *Tracker) record(at ExtendedSequenceNumber, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.last, t.floor, t.waiting = at, at, false
	case !errors.Is(err, ErrLeaseLost):
		t.floor = at
	}
}

// refuse reports a call that failed, and wraps its error; nil stays nil.
func (t *Tracker) refuse(r request, elapsed time.Duration, cause error) error {
	if cause == nil {
		return nil
	}
	what, told := "checkpoint", true
	switch {
	case r.pending:
		what = "prepare checkpoint"
	case r.flush:
		what = "flush checkpoint"
		if r.at.IsZero() { // it had no turn, and may have had nothing to do
			t.mu.Lock()
			r.at, told = t.floor, t.floor.Compare(t.last) != 0
			t.mu.Unlock()
		}
	}
	err := fmt.Errorf("%s %s at %s: %w", what, t.opts.LeaseKey, r.at, cause)
	if o := t.opts.Observer; told && o != nil {
		o.Refused(Event{At: r.at, Pending: r.pending, Elapsed: elapsed, Err: err})
	}
	return err
}

func (t *Tracker) now() time.Time {
	if o := t.opts.Observer; o != nil {
		return o.Now()
	}
	return time.Time{}
}
