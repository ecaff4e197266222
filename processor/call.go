package processor

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/shardlease/shardlease/config"
)

// stuckAfter is how often a warning is written about a method that goes on after its context was cancelled, unless
// LogWarningForTaskAfter says otherwise.
const stuckAfter = 10 * time.Second

// call runs one method of the user. A panic in it is reported with its stack and becomes an error.
func (c *ShardConsumer) call(method string, f func() error) (err error) {
	c.calling(method)
	defer c.calling("")
	if d := c.o.Lifecycle.LogWarningForTaskAfter; d > 0 {
		defer c.watchCall(method, d)()
	}
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if c.o.Hooks.Panicked != nil {
			c.o.Hooks.Panicked(config.PanicEvent{
				Worker: c.o.Worker, LeaseKey: c.o.Shard.LeaseKey, What: method, Value: v, Stack: debug.Stack(),
			})
		}
		if cause, ok := v.(error); ok {
			err = fmt.Errorf("%s panicked: %w", method, cause)
		} else {
			err = fmt.Errorf("%s panicked: %v", method, v)
		}
	}()
	return f()
}

// watchCall warns each d while method runs. The function that it returns ends the watch and waits for its goroutine.
func (c *ShardConsumer) watchCall(method string, d time.Duration) (stop func()) {
	returned, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.every(d, returned, func(since time.Duration) {
			c.o.Logger.WarnContext(c.work, "user code is still running",
				"lease", c.o.Shard.LeaseKey, "method", method, "running_for", since, "cancelled", c.work.Err() != nil)
		})
	}()
	return func() {
		close(returned)
		<-ended
	}
}

// watchCancelled warns about a method that goes on after its context was cancelled, until the consumer's end. It is called when the
// lease has ended, or the context of Run.
func (c *ShardConsumer) watchCancelled() {
	if c.o.Lifecycle.LogWarningForTaskAfter > 0 {
		return // watchCall does it
	}
	c.mu.Lock()
	watched := c.watching
	c.watching = true
	c.mu.Unlock()
	if watched {
		return
	}
	c.every(stuckAfter, c.over.Done(), func(since time.Duration) {
		// LeaseLost has a context of its own, and may have been called just now.
		if s := c.Status(); s.Calling != "" && c.clock.Since(s.CallingSince) >= lastWords {
			c.o.Logger.WarnContext(c.work, "user code is still running after its context was cancelled",
				"lease", c.o.Shard.LeaseKey, "method", s.Calling, "cancelled_for", since, "cause", context.Cause(c.work))
		}
	})
}

// every calls f each d until done is closed, with the time that has passed.
func (c *ShardConsumer) every(d time.Duration, done <-chan struct{}, f func(since time.Duration)) {
	began := c.clock.Now()
	t := c.clock.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			f(c.clock.Since(began))
			t.Reset(d)
		}
	}
}
