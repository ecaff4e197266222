package retrieval

import (
	"context"
	"sync"

	"github.com/shardlease/shardlease/processor"
)

// queue has the pages that a reader has fetched and its consumer has not taken. In place of a channel, which has room for all of them and
// for whoever waits, it has what is needed now: most shards of a large worker are idle. It belongs to one reader and one consumer.
type queue struct {
	most int // pages, that of a reader who waits included

	mu    sync.Mutex
	pages []processor.Batch
	over  bool          // nothing more comes
	came  chan struct{} // closed when there is something to take; nil if nobody waits for it
	room  chan struct{} // closed when a page was taken; nil if nobody waits for it
	ready func()        // called once when there is something to take; may be nil
}

// put adds a page, and waits until there is room for another one. It fails with ctx's cause only.
func (q *queue) put(ctx context.Context, b processor.Batch) error {
	q.mu.Lock()
	if n := len(q.pages); n > 0 && len(q.pages[n-1].Records) == 0 {
		q.pages = q.pages[:n-1] // it said how far behind the shard was
	}
	q.pages = append(q.pages, b)
	var room chan struct{}
	if len(q.pages) >= q.most {
		room = make(chan struct{})
		q.room = room
	}
	q.mu.Unlock()
	q.tell()
	if room == nil {
		return nil
	}
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// offer adds a page without records, of which one that has something to do wants to know nothing.
func (q *queue) offer(b processor.Batch) {
	q.mu.Lock()
	if len(q.pages) > 0 {
		q.mu.Unlock()
		return
	}
	q.pages = append(q.pages, b)
	q.mu.Unlock()
	q.tell()
}

// end says that nothing more comes.
func (q *queue) end() {
	q.mu.Lock()
	q.over = true
	q.mu.Unlock()
	q.tell()
}

// tell lets whoever waits know that there is something to take.
func (q *queue) tell() {
	q.mu.Lock()
	came, ready := q.came, q.ready
	q.came, q.ready = nil, nil
	q.mu.Unlock()
	if came != nil {
		close(came)
	}
	if ready != nil {
		ready()
	}
}

// take returns the next page. Without one it returns what is closed when there is one, or nil at the end.
func (q *queue) take() (b processor.Batch, ok bool, came <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pages) == 0 {
		if q.over {
			return processor.Batch{}, false, nil
		}
		if q.came == nil {
			q.came = make(chan struct{})
		}
		return processor.Batch{}, false, q.came
	}
	b = q.pages[0]
	if q.pages = q.pages[1:]; len(q.pages) == 0 {
		q.pages = nil
	}
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	return b, true, nil
}

// await reports whether there is something to take, or nothing more comes. If not, ready is called when that has changed, and none that
// was given before.
func (q *queue) await(ready func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pages) > 0 || q.over {
		q.ready = nil
		return true
	}
	q.ready = ready
	return false
}

// close drops what was not taken and whoever waits for more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pages, q.ready, q.over = nil, nil, true
}
