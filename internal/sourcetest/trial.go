package sourcetest

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// trialTime is how long a case may take that is not expected to succeed.
const trialTime = 8 * time.Second

// trial is what a case is given that is expected to fail: it notes failures instead of failing the test.
type trial struct {
	testing.TB
	ctx    func() context.Context
	failed atomic.Bool
}

// try runs a case and tells whether it passes.
func try(t *testing.T, run func(tb testing.TB, e *env), e *env) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), trialTime)
	defer cancel()
	attempt := &trial{TB: t, ctx: func() context.Context { return ctx }}
	done := make(chan struct{})
	go func() { // of its own, because a failing case ends its goroutine
		defer close(done)
		defer func() {
			// What a server leaves out of an answer may be what the case looks at next.
			if recover() != nil {
				attempt.failed.Store(true)
			}
		}()
		run(attempt, e)
	}()
	<-done
	return !attempt.failed.Load()
}

func (a *trial) Context() context.Context { return a.ctx() }
func (a *trial) Fail()                    { a.failed.Store(true) }
func (a *trial) Failed() bool             { return a.failed.Load() }
func (a *trial) Error(...any)             { a.Fail() }
func (a *trial) Errorf(string, ...any)    { a.Fail() }
func (a *trial) Fatal(...any)             { a.FailNow() }
func (a *trial) Fatalf(string, ...any)    { a.FailNow() }
func (a *trial) FailNow() {
	a.Fail()
	runtime.Goexit()
}
