package retrieval

import (
	"context"
	"errors"
	"sync"

	"github.com/shardlease/shardlease/processor"
)

// source is the consumer's end of a reader.
type source struct {
	reader *reader
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the reader's goroutine is gone
	closed sync.Once
}

var errClosed = errors.New("the source was closed")

// Next implements processor.RecordSource. After the end of the shard, or a final error, it returns the same again.
func (s *source) Next(ctx context.Context) (processor.Batch, error) {
	select {
	case b, ok := <-s.reader.batches:
		if ok {
			return b, nil
		}
	case <-ctx.Done():
		return processor.Batch{}, context.Cause(ctx)
	}
	// The channel was closed, so the reader writes no more.
	if f := s.reader.final; f.err != nil {
		return processor.Batch{}, f.err
	}
	return processor.Batch{End: s.reader.final.end, MillisBehindLatest: s.reader.final.behind, Release: func() {}}, nil
}

// Close implements processor.RecordSource.
func (s *source) Close() {
	s.cancel(errClosed)
	<-s.done
	for range s.reader.batches { // let go of pages that nobody wants
	}
	s.closed.Do(func() { s.reader.polling.budget.close(&s.reader.account) })
}
