package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestStopOn_takesSignalsOfOneMomentForOneAndALaterOneForAKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 8)
		var log bytes.Buffer
		code := 0
		ctx := stopOn(t.Context(), signals, &log, func(c int) { code = c })
		send := func(s os.Signal) {
			signals <- s
			synctest.Wait()
		}
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("stopped before there was a signal")
		}
		for range 3 {
			send(syscall.SIGTERM)
		}
		time.Sleep(sameSignal - time.Millisecond)
		send(os.Interrupt)
		if ctx.Err() == nil || code != 0 || log.Len() != 0 {
			t.Errorf("after signals of one moment: %v, exit code %d, %q; want a graceful stop", ctx.Err(), code, &log)
		}
		time.Sleep(time.Millisecond)
		send(os.Interrupt)
		if code != 128+int(syscall.SIGINT) || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "stopped at once, by a second signal (interrupt)") {
			t.Errorf("after another signal: exit code %d, %q; want 130 and a line that says so", code, &log)
		}
		close(signals)
	})
}
