package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
)

// losableLease is a lease in memory, which lose takes away. Like the real one it refuses every write from then on.
type losableLease struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	usable func(context.Context) error // nil: always

	mu      sync.Mutex
	written []checkpoint.ExtendedSequenceNumber
	pending []checkpoint.Pending
	refuse  error // what the next writes fail with
	asked   int   // calls of Usable
	handled int   // bytes
}

func newLosableLease() *losableLease {
	l := &losableLease{}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

var errTaken = fmt.Errorf("%w: taken by worker b", checkpoint.ErrLeaseLost)

func (l *losableLease) Processed(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled += bytes
}

func (l *losableLease) lose()                    { l.cancel(errTaken) }
func (l *losableLease) Context() context.Context { return l.ctx }
func (l *losableLease) Grant() checkpoint.Grant {
	return checkpoint.Grant{LeaseKey: "shard-1", Token: 7}
}

func (l *losableLease) Usable(ctx context.Context) error {
	l.mu.Lock()
	l.asked++
	f := l.usable
	l.mu.Unlock()
	if f != nil {
		return f(ctx)
	}
	return context.Cause(l.ctx)
}

func (l *losableLease) WriteCheckpoint(ctx context.Context, at checkpoint.ExtendedSequenceNumber) error {
	if err := errors.Join(context.Cause(l.ctx), context.Cause(ctx)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	l.written = append(l.written, at)
	return nil
}

func (l *losableLease) WritePending(_ context.Context, p checkpoint.Pending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, p)
	return context.Cause(l.ctx)
}

func (l *losableLease) checkpoints() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s []string
	for _, at := range l.written {
		s = append(s, at.SequenceNumber)
	}
	return s
}

func (l *losableLease) refuseWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = err
}

// scriptedSource delivers its batches and then what is pushed, waits for that with its context, or fails. Nobody has to wait for it.
type scriptedSource struct {
	batches []Batch
	err     error // after the batches; nil: wait

	mu       sync.Mutex
	given    int
	released []int // per batch
	closed   int
	stopped  int
	came     chan struct{} // closed by push; nil if nobody waits
	ready    func()
}

// push adds a batch.
func (s *scriptedSource) push(b Batch) {
	s.mu.Lock()
	s.batches = append(s.batches, b)
	came, ready := s.came, s.ready
	s.came, s.ready = nil, nil
	s.mu.Unlock()
	if came != nil {
		close(came)
	}
	if ready != nil {
		ready()
	}
}

func (s *scriptedSource) Await(ready func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = ready
	return s.given < len(s.batches) || s.err != nil
}

func (s *scriptedSource) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped++
}

func (s *scriptedSource) Next(ctx context.Context) (Batch, error) {
	s.mu.Lock()
	if s.given < len(s.batches) {
		i := s.given
		s.given++
		b := s.batches[i]
		s.released = append(s.released, 0)
		b.Release = func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.released[i]++
		}
		s.mu.Unlock()
		return b, nil
	}
	if s.err != nil {
		s.mu.Unlock()
		return Batch{}, s.err
	}
	came := make(chan struct{})
	s.came = came
	s.mu.Unlock()
	select {
	case <-came:
		return s.Next(ctx)
	case <-ctx.Done():
		return Batch{}, context.Cause(ctx)
	}
}

func (s *scriptedSource) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

// check returns what the consumer did wrong with the source.
func (s *scriptedSource) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range s.released {
		if n != 1 {
			return fmt.Errorf("batch %d was released %d times", i, n)
		}
	}
	if s.closed != 1 {
		return fmt.Errorf("the source was closed %d times", s.closed)
	}
	return nil
}

// numbered returns a batch with the records first … last.
func numbered(first, last int) Batch {
	var b Batch
	for n := first; n <= last; n++ {
		b.Records = append(b.Records, Record{SequenceNumber: strconv.Itoa(n)})
	}
	b.MillisBehindLatest = int64(1000 - last)
	return b
}

func at(n int) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.Itoa(n)}
}

// journal is a processor that writes down its calls and then does what its functions say; those that are nil return nil.
type journal struct {
	initialize func(context.Context, InitializationInput) error
	process    func(context.Context, ProcessRecordsInput) error
	lost       func(context.Context, LeaseLostInput)
	ended      func(context.Context, ShardEndedInput) error
	requested  func(context.Context, ShutdownRequestedInput) error

	mu    sync.Mutex
	lines []string
}

func (j *journal) write(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) calls() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) Initialize(ctx context.Context, in InitializationInput) error {
	j.write("Initialize %s", in.Position)
	if j.initialize != nil {
		return j.initialize(ctx, in)
	}
	return nil
}

func (j *journal) ProcessRecords(ctx context.Context, in ProcessRecordsInput) error {
	if n := len(in.Records); n > 0 {
		j.write("ProcessRecords %s-%s", in.Records[0].SequenceNumber, in.Records[n-1].SequenceNumber)
	} else {
		j.write("ProcessRecords empty")
	}
	if j.process != nil {
		return j.process(ctx, in)
	}
	return nil
}

func (j *journal) LeaseLost(ctx context.Context, in LeaseLostInput) {
	j.write("LeaseLost")
	if j.lost != nil {
		j.lost(ctx, in)
	}
}

func (j *journal) ShardEnded(ctx context.Context, in ShardEndedInput) error {
	j.write("ShardEnded")
	if j.ended != nil {
		return j.ended(ctx, in)
	}
	return in.Checkpointer.Checkpoint(ctx)
}

func (j *journal) ShutdownRequested(ctx context.Context, in ShutdownRequestedInput) error {
	j.write("ShutdownRequested")
	if j.requested != nil {
		return j.requested(ctx, in)
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// doubleUpstream does nothing where it has no function.
type doubleUpstream struct {
	open         func(context.Context, checkpoint.ExtendedSequenceNumber) (RecordSource, error)
	parentsEnded func(context.Context) (bool, error)
	endShard     func(context.Context, End) error
	resume       func()
}

func (u *doubleUpstream) Open(ctx context.Context, from checkpoint.ExtendedSequenceNumber) (RecordSource, error) {
	return u.open(ctx, from)
}

func (u *doubleUpstream) ParentsEnded(ctx context.Context) (bool, error) {
	if u.parentsEnded == nil {
		return true, nil
	}
	return u.parentsEnded(ctx)
}

func (u *doubleUpstream) EndShard(ctx context.Context, end End) error {
	if u.endShard == nil {
		return nil
	}
	return u.endShard(ctx, end)
}

func (u *doubleUpstream) Resume() { u.resume() }

// bench is a consumer with everything around it; change its parts before start.
type bench struct {
	t       *testing.T
	lease   *losableLease
	source  *scriptedSource
	journal *journal
	hooks   *config.Hooks
	options ConsumerOptions
	// upstream is that of options.
	upstream *doubleUpstream

	consumer *ShardConsumer
	ctx      context.Context
	abort    context.CancelCauseFunc
	done     chan struct{}
	outcome  Outcome

	mu      sync.Mutex
	retried []config.RetryEvent
	panics  []config.PanicEvent
}

// setup is called inside a bubble of virtual time.
func setup(t *testing.T, batches ...Batch) *bench {
	t.Helper()
	b := &bench{
		t: t, lease: newLosableLease(), source: &scriptedSource{batches: batches}, journal: &journal{},
		done: make(chan struct{}),
	}
	b.hooks = &config.Hooks{
		Retried: func(e config.RetryEvent) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.retried = append(b.retried, e)
		},
		Panicked: func(e config.PanicEvent) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.panics = append(b.panics, e)
		},
	}
	b.upstream = &doubleUpstream{
		open: func(_ context.Context, from checkpoint.ExtendedSequenceNumber) (RecordSource, error) {
			b.journal.write("open %s", from)
			return b.source, nil
		},
		endShard: func(_ context.Context, end End) error {
			b.journal.write("end %v", end.Children)
			return nil
		},
	}
	b.options = ConsumerOptions{
		Shard:    Shard{Stream: "s", ID: "shard-1", LeaseKey: "shard-1"},
		Position: checkpoint.TrimHorizon,
		Lease:    b.lease,
		Upstream: b.upstream,
		ConsumerSettings: &ConsumerSettings{
			Factory:    func(Shard) RecordProcessor { return b.journal },
			ParentPoll: 10 * time.Second,
			Rests:      true,
			Lifecycle:  config.LifecycleConfig{TaskBackoff: 500 * time.Millisecond, MaxTaskBackoff: 30 * time.Second},
			Worker:     "a",
			Hooks:      b.hooks,
		},
	}
	b.ctx, b.abort = context.WithCancelCause(context.Background())
	return b
}

// start runs the consumer, which may rest; when the test ends it must have ended too.
func (b *bench) start() {
	var run func()
	b.consumer, run = resting(b.ctx, b.options, func(out Outcome) {
		b.outcome = out
		close(b.done)
	})
	go run()
}

// resting makes a consumer that has no goroutine while it rests. run is to be called once, on a goroutine.
func resting(ctx context.Context, o ConsumerOptions, ended func(Outcome)) (c *ShardConsumer, run func()) {
	run = func() {
		if out := c.Run(ctx); !out.Resting {
			ended(out)
		}
	}
	if up, _ := o.Upstream.(*doubleUpstream); up.resume == nil {
		up.resume = func() { go run() }
	}
	c = NewShardConsumer(o)
	return c, run
}

// end waits for Run, in virtual time.
func (b *bench) end() Outcome {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(time.Hour):
		b.t.Fatalf("Run did not return; state %v, calls %q", b.consumer.Status().State, b.journal.calls())
	}
	return b.outcome
}

func (b *bench) retries() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s []string
	for _, e := range b.retried {
		s = append(s, fmt.Sprintf("%s %d: %v", e.What, e.Attempt, e.Err))
	}
	return s
}

// wait is how user code takes time.
func wait(d time.Duration) { _ = loop.Real().Sleep(context.Background(), d) }

// pass lets virtual time go by until nothing moves any more; for the test's own goroutine.
func pass(d time.Duration) {
	wait(d)
	synctest.Wait()
}

// failing returns a function that fails with the errors in turn and then returns nil. A string panics.
func failing(with ...any) func() error {
	return func() error {
		if len(with) == 0 {
			return nil
		}
		e := with[0]
		with = with[1:]
		if err, ok := e.(error); ok {
			return err
		}
		panic(e)
	}
}
