//go:build unix

package javakcl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/audit"
)

// worker is a process of the fleet.
type worker struct {
	id   string
	java bool
	cmd  *exec.Cmd
	log  string        // file with its standard error
	done chan struct{} // closed when it is gone and everything it said was read
	gone bool          // the test ended it
}

func (f *fleet) startJava(id string) *worker {
	f.t.Helper()
	return f.start(&worker{id: id, java: true, cmd: f.program.command(f.generation,
		"worker="+id, "application="+f.app, "stream="+f.stream, "endpoint="+f.url, "retrieval="+string(f.mode),
		fmt.Sprintf("failoverMillis=%d", failover.Milliseconds()), fmt.Sprintf("stopMillis=%d", stopTime.Milliseconds()),
	)})
}

// startJavas starts the first workers of a Java fleet. If its version wants an index, the second starts once the first has added it:
// KCL 3.5.1 bears no refusal of that, for which it is enough that two start at the same time, whatever the server.
func (f *fleet) startJavas(first, second string) []*worker {
	f.t.Helper()
	one := f.startJava(first)
	if f.generation.index {
		added := emulator.CountKey{Client: first, Operation: "UpdateTable"}
		f.until(first+" has added its index", time.Minute, func() bool { return f.server.Counts().Of(added).Requests > 0 })
	}
	return []*worker{one, f.startJava(second)}
}

func (f *fleet) startGo(id string) *worker {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.Marshal(goWorker{ID: id, Application: f.app, Stream: f.stream, Endpoint: f.url, Failover: *failover, Mode: f.mode})
	if err != nil {
		f.t.Fatal(err)
	}
	w := &worker{id: id, cmd: exec.Command(self)}
	w.cmd.Env = append(os.Environ(), envWorker+"="+string(text))
	return f.start(w)
}

func (f *fleet) start(w *worker) *worker {
	f.t.Helper()
	w.done = make(chan struct{})
	w.log = filepath.Join(f.t.ArtifactDir(), w.id+".log")
	log, err := os.Create(w.log)
	if err != nil {
		f.t.Fatal(err)
	}
	w.cmd.Stderr = log
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		f.t.Fatalf("start worker %s: %v", w.id, err)
	}
	f.say("start %s, %s", w.id, f.kind(w))
	f.workers = append(f.workers, w)
	go func() {
		defer close(w.done)
		f.listen(w, out)
		_ = w.cmd.Wait() // how it ended is asked later
		_ = log.Close()
	}()
	f.t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.done
	})
	return w
}

func (f *fleet) kind(w *worker) string {
	if w.java {
		return "Java " + f.generation.name
	}
	return "Go"
}

// listen keeps what a worker reports.
func (f *fleet) listen(w *worker, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var r audit.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = audit.Report{Kind: "unreadable", Err: fmt.Sprintf("%.80q: %v", lines.Bytes(), err)}
		}
		f.heard(w, r)
	}
	if err := lines.Err(); err != nil {
		f.heard(w, audit.Report{Kind: "unreadable", Err: err.Error()})
	}
}

// kill ends a worker as a crash would.
func (f *fleet) kill(w *worker) {
	f.t.Helper()
	f.fate(w, audit.Killed)
	if err := w.cmd.Process.Kill(); err != nil {
		f.t.Errorf("kill -9 of %s: %v", w.id, err)
	}
	<-w.done
}

// stop asks a worker to end and waits until it has.
func (f *fleet) stop(w *worker) {
	f.t.Helper()
	f.fate(w, audit.Stopped)
	f.stopped(w, f.terminate(w))
}

// stopAll stops those that are left, all at once.
func (f *fleet) stopAll() {
	f.t.Helper()
	left := slices.DeleteFunc(slices.Clone(f.workers), func(w *worker) bool { return w.gone })
	took := make([]time.Duration, len(left))
	var all sync.WaitGroup
	for i, w := range left {
		w.gone = true
		all.Go(func() { took[i] = f.terminate(w) })
	}
	all.Wait()
	for i, w := range left {
		f.stopped(w, took[i])
	}
}

// terminate sends SIGTERM, and SIGKILL if that does not end the process, and returns how long it took.
func (f *fleet) terminate(w *worker) time.Duration {
	began := time.Now()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		f.t.Errorf("SIGTERM of %s: %v", w.id, err)
	}
	timer := time.NewTimer(*stopTime + 10*time.Second)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		_ = w.cmd.Process.Kill()
		<-w.done
	}
	return time.Since(began)
}

func (f *fleet) stopped(w *worker, took time.Duration) {
	f.t.Helper()
	if took < *stopTime {
		f.say("%s stopped within %s", w.id, audit.Seconds(took))
		return
	}
	f.hangs++
	f.say("%s did not stop within %v and was killed", w.id, *stopTime)
	// KCL 2.7.2 never ends a stop while it holds the lease of a finished shard. 3.5.1 did so once in 34 stops, 0.3 s after shards were
	// merged: a stop of its own that meets the end of a shard. Go workers have no excuse.
	if !w.java || f.generation.kcl != kcl2.kcl && f.hangs > 1 {
		f.t.Errorf("%s, %s, did not end within %v of SIGTERM", w.id, f.kind(w), *stopTime)
	}
}

// exits waits until a worker has ended by itself, and returns the last line of its log.
func (f *fleet) exits(w *worker, limit time.Duration) (said string, in time.Duration) {
	f.t.Helper()
	began := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		f.t.Fatalf("%s still runs after %v", w.id, limit)
	}
	w.gone = true
	lines := f.logOf(w)
	if len(lines) == 0 {
		return "", time.Since(began)
	}
	return lines[len(lines)-1], time.Since(began)
}

// logOf are the lines that a worker has logged.
func (f *fleet) logOf(w *worker) []string {
	f.t.Helper()
	text, err := os.ReadFile(w.log)
	if err != nil {
		f.t.Fatal(err)
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" })
}
