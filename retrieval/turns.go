package retrieval

import (
	"context"
	"sync"
)

// turns lets so many begin at once, in the order in which they came. Who waits for a turn needs no goroutine for that: ten thousand shards
// whose worker has just started, or goes on after a pause, would all have one, whose descriptor the runtime keeps for ever.
type turns struct {
	mu    sync.Mutex
	free  int
	queue []*turn
}

// turn is a place in the queue. begin is nil once it has its turn, or was given up.
type turn struct{ begin func() }

func newTurns(free int) *turns { return &turns{free: free} }

// enter calls begin on a goroutine of its own when there is a turn, which begin has to end by leave. stop keeps begin from being called, and
// reports whether it was in time.
func (t *turns) enter(begin func()) (stop func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		go begin()
		return func() bool { return false }
	}
	w := &turn{begin}
	t.queue = append(t.queue, w)
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		waited := w.begin != nil
		w.begin = nil
		return waited
	}
}

// await is enter for a goroutine that waits itself. It fails with ctx's cause only; else the caller has to call leave.
func (t *turns) await(ctx context.Context) error {
	t.mu.Lock()
	if t.free > 0 && ctx.Err() == nil {
		t.free--
		t.mu.Unlock()
		return nil
	}
	t.mu.Unlock()
	came := make(chan struct{})
	stop := t.enter(func() { close(came) })
	select {
	case <-came:
		return nil
	case <-ctx.Done():
	}
	if !stop() {
		<-came
		t.leave()
	}
	return context.Cause(ctx)
}

// taken reports whether whoever wants a turn now has to wait.
func (t *turns) taken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free == 0
}

// leave ends a turn: the next one in the queue has it.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		w := t.queue[0]
		t.queue[0], t.queue = nil, t.queue[1:]
		if begin := w.begin; begin != nil {
			w.begin = nil
			go begin()
			return
		}
	}
	t.queue = nil
	t.free++
}
