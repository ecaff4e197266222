package retrieval

import (
	"context"
	"errors"
	"time"
)

// A worker that has just taken many shards, or comes back from a pause, would ask for all of them at the same moment: a
// connection, its buffers and a deep stack each, most of which are of no use a second later but stay in the process. So
// only so many requests start at once.
const (
	// requestsAtOnce is how many requests of a worker may be young. It is as many as awshttp keeps connections for.
	requestsAtOnce = 100
	// youth is how long a request counts at most. One that takes longer, because it is large, comes from far away, or hangs,
	// keeps nobody waiting: 500 requests a second can start whatever becomes of them, and 5,000 if they take 20 ms.
	youth = 200 * time.Millisecond
)

var errNoReturn = errors.New("the client ended its goroutine instead of returning")

// request makes one request: it waits for its turn, and then for the answer. It returns ctx's cause if the turn did not
// come.
//
// The calls of the SDK are deeply nested and grow their goroutine's stack to 16 or 32 KB, which it keeps for some garbage
// collections. Each request has a goroutine of its own instead, whose stack is free when it ends; the reader's, which may wait for
// its consumer or for an event for long, stays at 4 KB.
func (r *reader) request(ctx context.Context, f func(context.Context) error) error {
	return r.turn(ctx, func(ctx context.Context) error {
		return attempt(ctx, r.polling.cfg.RequestTimeout, "read shard "+r.start.ShardID, f)
	})
}

// yield gives up the turn with which the reader began, if it still has it: for who has to wait for something else first.
func (r *reader) yield() {
	if r.admitted {
		r.admitted = false
		r.polling.turns.leave()
	}
}

// turn makes a request that bounds its time itself. The first one after a rest has had its turn before there was a goroutine.
func (r *reader) turn(ctx context.Context, f func(context.Context) error) error {
	turns := r.polling.turns
	if r.admitted {
		r.admitted = false
	} else if err := turns.await(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := errNoReturn
		defer func() { done <- err }()
		err = f(ctx)
	}()
	r.arm(youth)
	defer r.timer.Stop()
	select {
	case err := <-done:
		turns.leave()
		return err
	case <-r.timer.C:
		turns.leave()
	}
	return <-done
}
