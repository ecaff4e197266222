package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// sameSignal is within what time a second signal is the first one again: timeout(1) signals its child and then the whole group, and who
// presses a key twice takes longer.
const sameSignal = 100 * time.Millisecond

// stopOn returns a context that the first signal ends, for a graceful stop. A later one ends the process at once, by exit, which says so on log.
func stopOn(ctx context.Context, signals <-chan os.Signal, log io.Writer, exit func(code int)) context.Context {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		var first time.Time
		for s := range signals {
			switch {
			case first.IsZero():
				first = time.Now()
				stop()
			case time.Since(first) >= sameSignal:
				_, _ = fmt.Fprintf(log, "shardlease: stopped at once, by a second signal (%v): what the graceful stop was still doing is left undone\n", s)
				exit(exitCodeOf(s))
			}
		}
	}()
	return ctx
}

// exitCodeOf is what a shell gives for a process that a signal has ended.
func exitCodeOf(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
