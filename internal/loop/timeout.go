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
	stop := c.AfterFunc(d, func() { cancel(&TimeoutError{what, d}) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// Outlive returns a context with the values of ctx that ends d after ctx does: what is under way when ctx ends may be finished, but
// not for ever. The cause is then as that of [Timeout]. The function returned must be called.
func Outlive(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-out.Done():
			return
		case <-ctx.Done():
		}
		t := ClockOf(ctx).NewTimer(d)
		defer t.Stop()
		select {
		case <-out.Done():
		case <-t.C:
			cancel(&TimeoutError{what, d})
		}
	}()
	return out, func() { cancel(context.Canceled); <-done }
}
