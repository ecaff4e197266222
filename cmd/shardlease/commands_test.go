package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// watched is a stream whose text can be waited for.
type watched struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newWatched() *watched { return &watched{changed: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	return w.text.Write(p)
}

// wait returns what pattern matches, as soon as it does.
func (w *watched) wait(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		w.mu.Lock()
		found, text, changed := re.FindStringSubmatch(w.text.String()), w.text.String(), w.changed
		w.mu.Unlock()
		if found != nil {
			return found
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("waited 20 s for %q in\n%s", pattern, text)
		}
	}
}

// background runs a command until stop, which returns its exit code.
func background(t *testing.T, args ...string) (out, errs *watched, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs = newWatched(), newWatched()
	code := make(chan int, 1)
	go func() { code <- run(ctx, args, streams{strings.NewReader(""), out, errs}) }()
	stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { stop() })
	return out, errs, stop
}

func startEmulator(t *testing.T, args ...string) (url string) {
	t.Helper()
	out, _, stop := background(t, append([]string{"emulator", "--listen", "127.0.0.1:0"}, args...)...)
	t.Cleanup(func() {
		if code := stop(); code != exitOK {
			t.Errorf("emulator: exit code %d, want 0 after a stop", code)
		}
	})
	url = out.wait(t, `export AWS_ENDPOINT_URL=(\S+)\n`)[1]
	out.wait(t, "export AWS_REGION=us-east-1\nexport AWS_ACCESS_KEY_ID=.+\nexport AWS_SECRET_ACCESS_KEY=.+\n")
	return url
}

func TestPutAndConsume_shareAStreamOfTheEmulator(t *testing.T) {
	t.Parallel()
	url := startEmulator(t, "--stream", "flights:3", "--stream", "other:1")
	file := filepath.Join(t.TempDir(), "flights.json")
	var text strings.Builder
	for n := range 500 {
		fmt.Fprintf(&text, "{\"n\":%d,\"distance\":%d}\n", n, n%37)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	put := command(t.Context(), "", "put", "--stream", "flights", "--key-field", "distance", "--endpoint", url, file)
	if put.code != exitOK || put.out != "" || !strings.HasPrefix(put.err, "500 records, ") {
		t.Fatalf("put: %+v, want a summary of 500 records on standard error", put)
	}
	piped := command(t.Context(), "a line\n", "put", "--stream", "flights", "--kinesis-endpoint", url)
	if piped.code != exitOK || !strings.HasPrefix(piped.err, "1 records, ") {
		t.Fatalf("put of standard input: %+v", piped)
	}
	got := command(t.Context(), "", "consume", "--stream", "flights", "--app", "audit", "--endpoint", url, "--until-caught-up")
	if got.code != exitOK || strings.Count(got.out, "\n") != 501 {
		t.Fatalf("consume: exit code %d, %d lines, want 0 and 501; errors: %s", got.code, strings.Count(got.out, "\n"), got.err)
	}
	if want := `"key":"36","arrival":"20`; !strings.Contains(got.out, want) {
		t.Errorf("no line contains %s", want)
	}
	again := command(t.Context(), "", "consume", "--stream", "flights", "--app", "again", "--kinesis-endpoint", url, "--dynamodb-endpoint", url,
		"--until-caught-up", "--output", "data", "--max-leases", "9", "--worker-id", "w", "--start", "trim-horizon")
	if !strings.Contains(again.out, "a line\n") || strings.Count(again.out, "\n") != 501 || strings.Contains(again.out, "shardId") {
		t.Errorf("consume --output data printed %d lines, want the 501 that were put, as they were; errors: %s", strings.Count(again.out, "\n"), again.err)
	}
}

func TestConsume_stopsGracefullyAndReleases(t *testing.T) {
	t.Parallel()
	url := startEmulator(t, "--stream", "s:1")
	if got := command(t.Context(), "one\n", "put", "--stream", "s", "--endpoint", url); got.code != exitOK {
		t.Fatal(got.err)
	}
	out, errs, stop := background(t, "consume", "--stream", "s", "--app", "app", "--endpoint", url)
	out.wait(t, `"data":"one"`)
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
	errs.wait(t, "lease released")
}

func TestConsume_onAClosedPortSaysWhatItWaitsForUntilItIsStopped(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	args := []string{"consume", "--stream", "s", "--app", "app", "--endpoint", "http://" + addr}
	_, errs, stop := background(t, args...)
	errs.wait(t, `level=WARN.*http://`+regexp.QuoteMeta(addr))
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d, want 0 after a stop", code)
	}
	_, errs, stop = background(t, append(args, "--until-caught-up")...)
	errs.wait(t, `level=WARN.*http://`+regexp.QuoteMeta(addr))
	if code := stop(); code != exitFailed {
		t.Errorf("--until-caught-up: exit code %d, want %d after a stop", code, exitFailed)
	}
	errs.wait(t, "\nshardlease: stopped before it had caught up: not everything was read\n$")
}

func TestConsume_ofAStreamThatIsNotThereEndsWithOneLine(t *testing.T) {
	t.Parallel()
	url := startEmulator(t)
	got := command(t.Context(), "", "consume", "--stream", "nothing", "--app", "app", "--endpoint", url)
	lines := strings.Split(strings.TrimSpace(got.err), "\n")
	last := lines[len(lines)-1]
	if got.code != exitFailed || !strings.HasPrefix(last, "shardlease: ") || !strings.Contains(last, "nothing") {
		t.Errorf("exit code %d, last line %q; want 1 and a line that names the stream", got.code, last)
	}
}

func TestEmulator_namesThePortThatItCannotHave(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	got := command(t.Context(), "", "emulator", "--listen", l.Addr().String())
	if got.code != exitFailed || !strings.Contains(got.err, l.Addr().String()) {
		t.Errorf("exit code %d, error %q; want 1 and the address", got.code, got.err)
	}
}
