//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
)

// stopLimit is how long a worker may take to stop, of which it has workerGrace.
const stopLimit = 2*workerGrace + 20*time.Second

// fleet is the workers' processes: at most one at each place that is to stay, and some that are on their way out.
type fleet struct {
	bin      string
	logs     string // folder
	failover time.Duration
	links    [][]*link // by place: the table's, the stream's
	ledger   *ledger

	mu      sync.Mutex
	current []*process // by place
	all     []*process
	started []int           // processes by place
	beset   []map[kind]bool // by place: what befalls whoever is there
	wrongly int             // stops that ended with an error, while something else was wrong
}

// process is one worker.
type process struct {
	id    string
	place int
	cmd   *exec.Cmd
	in    io.WriteCloser // it ends when this is closed
	log   string         // file
	done  chan struct{}  // closed when the process is gone and everything it wrote was read

	mu     sync.Mutex
	asked  string // how it was told to end; "": not at all
	strict bool   // nothing is wrong, so it must end well
}

func newFleet(bin, logs string, failover time.Duration, links [][]*link, l *ledger) *fleet {
	f := &fleet{
		bin: bin, logs: logs, failover: failover, links: links, ledger: l,
		current: make([]*process, len(links)), started: make([]int, len(links)), beset: make([]map[kind]bool, len(links)),
	}
	for i := range f.beset {
		f.beset[i] = map[kind]bool{}
	}
	return f
}

// start starts a worker at a place, with an id of its own if id is empty. It becomes the place's current one.
func (f *fleet) start(place int, id string, shift time.Duration) error {
	f.mu.Lock()
	f.started[place]++
	n := f.started[place]
	f.mu.Unlock()
	if id == "" {
		id = fmt.Sprintf("w%d.%d", place, n)
	}
	p := &process{id: id, place: place, log: filepath.Join(f.logs, fmt.Sprintf("w%d-process%d.log", place, n)), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	links := f.links[place]
	p.cmd = exec.Command(f.bin, "worker", "-id", id, "-table", links[0].url, "-stream", links[1].url, "-failover", f.failover.String(), "-wall", shift.String())
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	f.mu.Lock()
	for k := range f.beset[place] {
		f.ledger.befall(id, k)
	}
	f.mu.Unlock()
	f.ledger.say("%s starts, process %d of place %d", id, n, place)
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	f.mu.Lock()
	f.current[place] = p
	f.all = append(f.all, p)
	f.mu.Unlock()
	go func() {
		defer close(p.done)
		broken := f.read(p, out)
		f.judge(p, errors.Join(broken, p.cmd.Wait()))
	}()
	return nil
}

// read takes reports in until the process is gone. A last line without its end is not a report: a kill cut it off.
func (f *fleet) read(p *process, out io.Reader) (broken error) {
	for in := bufio.NewReaderSize(out, 256<<10); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return broken
		}
		a := audit.Arrival{Worker: p.id, At: f.ledger.now()}
		if err := json.Unmarshal(line, &a.Report); err != nil {
			broken = fmt.Errorf("reported %.100q: %w", line, err)
			continue
		}
		if a.Kind == wall {
			p.checkWall(a, f.ledger)
		}
		f.ledger.take(a)
	}
}

// wallTolerance is how late a report may be read.
const wallTolerance = 30 * time.Second

// checkWall checks that the process's wall clock shows the time that it was told to show.
func (p *process) checkWall(a audit.Arrival, l *ledger) {
	at, err := time.Parse(time.RFC3339Nano, a.From)
	if err != nil || len(a.Numbers) != 1 {
		l.blame("%s reported the time %q, %d: %v", p.id, a.From, a.Numbers, err)
		return
	}
	shift := time.Duration(a.Numbers[0]) * time.Second
	if off := time.Since(at.Add(-shift)).Abs(); off > wallTolerance {
		l.blame("the wall clock of %s shows %v, %v from what it was set to: clocks do not jump on this machine", p.id, at, off)
	}
}

// judge judges how a process ended.
func (f *fleet) judge(p *process, err error) {
	end := "ended well"
	if err != nil {
		end = fmt.Sprintf("ended with %v: %s", err, lastLine(p.log))
	}
	f.ledger.take(audit.Arrival{Worker: p.id, At: f.ledger.now(), Report: audit.Report{Kind: audit.Exited, Err: end}})
	p.mu.Lock()
	asked, strict := p.asked, p.strict
	p.mu.Unlock()
	exit, crashed := errors.AsType[*exec.ExitError](err)
	switch {
	case asked == killWord:
	case asked == "":
		f.ledger.blame("%s %s, without being asked to", p.id, end)
	case err == nil:
	case asked == stopWord && p.stillborn(exit): // faults may follow one another at once
	case strict || !crashed || exit.ExitCode() != 1: // a panic's is 2
		f.ledger.blame("%s, asked to stop, %s", p.id, end)
	default:
		f.mu.Lock()
		f.wrongly++
		f.mu.Unlock()
	}
}

// stillborn says whether SIGTERM came before the process's main had begun to listen for it, which is before it does or logs anything.
func (p *process) stillborn(exit *exec.ExitError) bool {
	if exit == nil {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM && lastLine(p.log) == ""
}

// The ways to be told to end.
const (
	killWord = "kill -9"
	stopWord = "SIGTERM"
)

// at is the process at a place.
func (f *fleet) at(place int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current[place]
}

// everybody are the ids of the current processes.
func (f *fleet) everybody() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := map[string]bool{}
	for _, p := range f.current {
		ids[p.id] = true
	}
	return ids
}

// befalls notes that a fault befalls whoever is at a place, now and until it is lifted.
func (f *fleet) befalls(place int, k kind, lasting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lasting {
		f.beset[place][k] = true
	}
	f.ledger.befall(f.current[place].id, k)
}

func (f *fleet) lift(place int, k kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.beset[place], k)
}

// tell tells the process how it will end, and signals it.
func (p *process) tell(word string, sig syscall.Signal, strict bool) error {
	p.mu.Lock()
	if p.asked == "" {
		p.asked, p.strict = word, strict
	}
	p.mu.Unlock()
	return p.signal(sig)
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", sig, p.id, err)
	}
	return nil
}

// kill ends the process as a crash would, and returns when it is gone and everything it wrote was read.
func (p *process) kill() error {
	err := p.tell(killWord, syscall.SIGKILL, false)
	<-p.done
	return err
}

// stop stops the process gracefully and returns when it is gone. One that does not stop is killed, and blamed.
func (p *process) stop(ctx context.Context, l *ledger, strict bool) error {
	if err := p.tell(stopWord, syscall.SIGTERM, strict); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-time.After(stopLimit):
		l.blame("%s did not stop within %v of SIGTERM", p.id, stopLimit)
	}
	_ = p.signal(syscall.SIGQUIT) // its goroutines go into its log
	select {
	case <-p.done:
	case <-time.After(2 * time.Second):
	}
	return p.kill()
}

// set sets the wall clock of the process.
func (p *process) set(shift time.Duration) error {
	if _, err := fmt.Fprintf(p.in, "wall %v\n", shift); err != nil {
		select {
		case <-p.done: // it was killed
			return nil
		case <-time.After(stopLimit):
		}
		return fmt.Errorf("set the clock of %s: %w", p.id, err)
	}
	return nil
}

// close ends what still runs, gracefully if strict, and waits until all are gone and all reports are in.
func (f *fleet) close(ctx context.Context, strict bool) {
	f.mu.Lock()
	all := f.all
	f.mu.Unlock()
	var stopping sync.WaitGroup
	for _, p := range all {
		stopping.Go(func() {
			if strict {
				_ = p.stop(ctx, f.ledger, true) // what is wrong with it was noted
			} else {
				_ = p.kill()
			}
			_ = p.in.Close()
		})
	}
	stopping.Wait()
}

// lastLine is the last line of a log.
func lastLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
