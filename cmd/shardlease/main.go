// Command shardlease shows and uses the library: a demonstration of a whole fleet, a consumer for the shell, a producer to
// feed it, and the emulator for other programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // it was understood and did not work
	exitUsage  = 2 // it was not understood
)

// usageError is a fault of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	// A reader that goes away (shardlease consume | head) is an error of a write, to be met with a graceful stop;
	// without this it would be a sudden death.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(stopOn(context.Background(), signals, os.Stderr, os.Exit), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// run is main with everything from outside as an argument.
func run(ctx context.Context, args []string, s streams) int {
	err := dispatch(ctx, args, s)
	if err == nil {
		return exitOK
	}
	// The library's errors begin with its name as well.
	_, _ = fmt.Fprintf(s.err, "shardlease: %s\n", strings.TrimPrefix(oneLine(err), "shardlease: "))
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// oneLine is for errors that were joined.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}
