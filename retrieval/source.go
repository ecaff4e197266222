package retrieval

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardlease/shardlease/processor"
)

// source is the consumer's end of a reader, and its beginning: the reader has a goroutine while it reads, and none from one read to the
// next.
type source struct {
	reader *reader
	loop   interface {
		// run reads until ctx is done, the shard has ended, or nothing is to be done for rest: then it is called again after that.
		run(ctx context.Context) (rest time.Duration, err error)
	}
	ctx context.Context //nolint:containedctx // given to Open

	mu      sync.Mutex
	cancel  context.CancelCauseFunc // ends run; nil while it does not run
	left    chan struct{}           // closed when the goroutine of run is gone; nil if nobody waits for that
	enter   func() (stopped bool)   // while the reader waits for its turn
	stopped bool                    // nothing is read any more
	closed  bool

	rest rest // guarded by Polling.rests.mu
}

var _ processor.Announcer = (*source)(nil)

var (
	errUnwanted = errors.New("no more records are wanted")
	errNoEnd    = errors.New("the source has no more records and not come to an end: it was stopped, or a hook ended its goroutine instead of returning")
)

// due has the reader go on, as soon as there is a turn for its first request.
func (s *source) due() {
	s.mu.Lock()
	stopped := s.stopped // just now
	if !stopped {
		s.enter = s.reader.polling.turns.enter(func() {
			s.reader.admitted = true
			s.read()
		})
	}
	s.mu.Unlock()
	if stopped {
		s.reader.queue.end()
	}
}

// read gives the reader a goroutine, this one, until it rests or has ended.
func (s *source) read() {
	s.mu.Lock()
	if s.stopped { // just now
		s.mu.Unlock()
		s.reader.yield()
		s.reader.queue.end()
		return
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.cancel, s.enter = cancel, nil
	s.mu.Unlock()

	var rest time.Duration
	defer func() { s.leave(rest) }() // a hook may end the goroutine
	rest, s.reader.final.err = s.loop.run(ctx)
}

// leave ends the goroutine's work. The reader has ended if there is no rest.
func (s *source) leave(rest time.Duration) {
	s.reader.disarm()
	s.reader.yield()
	s.mu.Lock()
	s.cancel(errUnwanted)
	s.cancel = nil
	if s.left != nil {
		close(s.left)
	}
	rests := rest > 0 && !s.stopped
	if rests {
		s.reader.polling.rests.add(s, s.reader.clock, rest)
	}
	s.mu.Unlock()
	if !rests {
		s.reader.queue.end()
	}
}

// Next implements processor.RecordSource. After the end of the shard, or a final error, it returns the same again.
func (s *source) Next(ctx context.Context) (processor.Batch, error) {
	for {
		b, ok, came := s.reader.queue.take()
		if ok {
			return b, nil
		}
		if came == nil {
			break
		}
		select {
		case <-came:
		case <-ctx.Done():
			return processor.Batch{}, context.Cause(ctx)
		}
	}
	switch f := s.reader.final; { // the reader has ended
	case f.err != nil:
		return processor.Batch{}, f.err
	case f.end == nil:
		return processor.Batch{}, errNoEnd
	default:
		return processor.Batch{End: f.end, MillisBehindLatest: f.behind, Release: func() {}}, nil
	}
}

// Await implements processor.Announcer.
func (s *source) Await(ready func()) bool { return s.reader.queue.await(ready) }

// Stop implements processor.Announcer.
func (s *source) Stop() {
	s.mu.Lock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel(errUnwanted)
	}
	rested := s.enter != nil && s.enter() || s.reader.polling.rests.remove(s)
	s.mu.Unlock()
	if rested {
		s.reader.queue.end()
	}
}

// Close implements processor.RecordSource.
func (s *source) Close() {
	s.Stop()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	var left chan struct{}
	if s.cancel != nil {
		left = make(chan struct{})
		s.left = left
	}
	s.mu.Unlock()
	if left != nil {
		<-left
	}
	s.reader.queue.close()
	s.reader.polling.budget.close(&s.reader.account)
}
