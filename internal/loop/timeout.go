package loop

import (
	"context"
	"fmt"
	"time"
)

// TimeoutError is the cause of a context made by [Timeout]: it says what took too long.
type TimeoutError struct {
	What  string
	After time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("%s took longer than %v", e.What, e.After) }

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout bounds ctx by d. The context's cause then names what, which is written as a verb with its object
// ("release lease shardId-000000000001").
func Timeout(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	c := ClockOf(ctx)
	if c == realClock {
		return context.WithTimeoutCause(ctx, d, &TimeoutError{what, d})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := c.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
			cancel(&TimeoutError{what, d})
		}
	}()
	return ctx, func() { cancel(context.Canceled); <-done }
}
