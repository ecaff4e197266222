package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/loop"
)

// stopGrace is how long a worker may take to stop before it is killed; a healthy one takes a fraction of a second.
const stopGrace = 10 * time.Second

// fleet is the workers' processes. Its methods belong to one goroutine at a time.
type fleet struct {
	bin     string
	args    func(id string) []string
	board   *board
	members map[string]*process
}

// process is one worker. It ends when it is told to, and when its standard input ends: so none outlives the parent,
// whatever becomes of that.
type process struct {
	cmd  *exec.Cmd
	stop io.Closer // its standard input
	log  *tail
	done chan struct{} // closed when the process is gone and everything it wrote was read
}

func newFleet(bin string, board *board, args func(id string) []string) *fleet {
	return &fleet{bin: bin, args: args, board: board, members: map[string]*process{}}
}

// start starts a worker; its reports go to the board.
func (f *fleet) start(id string) error {
	cmd := exec.Command(f.bin, f.args(id)...)
	p := &process{cmd: cmd, log: &tail{}, done: make(chan struct{})}
	cmd.Stderr = p.log
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	p.stop = stdin
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	f.board.join(id)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	f.members[id] = p
	go func() {
		defer close(p.done)
		broken := f.read(id, out)
		end := p.end(cmd.Wait(), broken)
		f.board.take(audit.Arrival{Report: audit.Report{Kind: audit.Exited, Err: end}, Worker: id, At: f.board.now()})
	}()
	return nil
}

// read takes reports in until the process is gone. A last line without its end is not a report: a kill cut it off.
func (f *fleet) read(id string, out io.Reader) (broken error) {
	in := bufio.NewReaderSize(out, 256<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return broken
		}
		a := audit.Arrival{Worker: id, At: f.board.now()}
		if err := json.Unmarshal(line, &a.Report); err != nil {
			broken = fmt.Errorf("reported %.100q: %w", line, err)
			continue
		}
		f.board.take(a)
	}
}

// end describes how a process ended; empty if it was well.
func (p *process) end(err, broken error) string {
	switch {
	case broken != nil:
		return broken.Error()
	case err != nil:
		return fmt.Sprintf("ended with %v; its last words: %s", err, p.log)
	}
	return ""
}

// kill ends a worker as a crash would, and returns when it is gone.
func (f *fleet) kill(ctx context.Context, id string) error {
	p := f.members[id]
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", id, err)
	}
	return p.wait(ctx)
}

// ask asks a worker to stop: by SIGTERM where there is such a thing, else by the end of its standard input.
func (f *fleet) ask(id string) {
	p := f.members[id]
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
		_ = p.stop.Close() // it fails only if the process is gone
	}
}

func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close stops what still runs and waits until all are gone and all reports are in.
func (f *fleet) close(ctx context.Context) {
	ctx, cancel := loop.Timeout(context.WithoutCancel(ctx), stopGrace, "stop the workers")
	defer cancel()
	for id, p := range f.members {
		f.board.change(func() { f.board.worker(id).quit() })
		_ = p.stop.Close()
	}
	for _, p := range f.members {
		if p.wait(ctx) != nil {
			_ = p.cmd.Process.Kill() // it fails only if the process is gone
			<-p.done
		}
	}
}

// printLogs writes the last line that each worker logged: a healthy one logs nothing.
func (f *fleet) printLogs(w io.Writer) {
	for _, id := range slices.Sorted(maps.Keys(f.members)) {
		if last := f.members[id].log.String(); last != "" {
			_, _ = fmt.Fprintf(w, "  %s logged: %s\n", id, last)
		}
	}
}

// tail keeps the end of what a worker logs.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String is the last line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return lines[len(lines)-1]
}
