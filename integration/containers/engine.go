package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// RequireEnv names the variable that, set to 1, makes a test fail that would use an engine and finds none.
const RequireEnv = "SHARDLEASE_REQUIRE_CONTAINERS"

// Howto says how to get an engine, for messages.
const Howto = "start Docker or Podman, or set DOCKER_HOST; in a clone of shardlease, as root on Debian or Ubuntu, `make containers` installs Docker, starts it for the tests and takes it down again"

// engineTimeout bounds the question whether there is an engine. One that is there answers within milliseconds.
const engineTimeout = 10 * time.Second

// ErrNoEngine is what [Engine] returns, with the cause, where no container engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// Engine returns nil where a container engine answers, and else an error that is [ErrNoEngine] and says why. It takes ten
// seconds at most. It may be called at any time and by several goroutines; testcontainers-go remembers for the life of
// the process where it found an engine.
func Engine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	err := withoutPanic(func() error {
		client, err := testcontainers.NewDockerClientWithOpts(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // it has done its work
		// The providers' Health answers from memory: it would find an engine that is gone.
		return ask(ctx, client.Ping)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	return nil
}

// ask makes a call with the zero value of its options, whose type is of a module that is none of our direct dependencies.
func ask[Options, Answer any](ctx context.Context, call func(context.Context, Options) (Answer, error)) error {
	var o Options
	_, err := call(ctx, o)
	return err
}

// withoutPanic returns a panic of f as an error. Some functions of testcontainers-go panic if they find no socket; in a
// user's test that would end all the others.
func withoutPanic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

// Required tells whether the environment says that an engine must be there. It returns an error for a value of
// [RequireEnv] that is neither yes nor no.
func Required() (bool, error) {
	v := os.Getenv(RequireEnv)
	if v == "" {
		return false, nil
	}
	must, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%s is %q, want 1 or 0", RequireEnv, v)
	}
	return must, nil
}

// quiet drops what testcontainers-go would print of each step.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
