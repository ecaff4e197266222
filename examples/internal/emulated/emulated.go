package emulated

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit is how long anything may take here that is waited for.
const limit = time.Minute

// World is an emulator, and what programs need to find it.
type World struct {
	t          *testing.T
	dir        string
	shardlease string // the command
	env        []string
}

// New builds the command shardlease and starts its emulator, until the end of the test.
func New(t *testing.T, args ...string) *World {
	t.Helper()
	w := &World{t: t, dir: t.TempDir(), env: os.Environ()}
	w.shardlease = w.build("../..", "./cmd/shardlease")
	said := w.start(w.shardlease, append([]string{"emulator", "--listen", "127.0.0.1:0"}, args...)...)
	for said.next("an address") {
		if setting, ok := strings.CutPrefix(said.line, "export "); ok {
			w.env = append(w.env, setting)
		}
		if strings.HasPrefix(said.line, "export AWS_SECRET_ACCESS_KEY") { // the last one
			break
		}
	}
	return w
}

// build makes a program of the package that is in dir.
func (w *World) build(dir, pkg string) string {
	w.t.Helper()
	program := filepath.Join(w.dir, filepath.Base(pkg)+".program")
	cmd := exec.CommandContext(w.t.Context(), "go", "build", "-o", program, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return program
}

// Shardlease runs the command with some input to its end.
func (w *World) Shardlease(input string, args ...string) {
	w.t.Helper()
	w.run(input, w.shardlease, args...)
}

// Example builds the example whose test this is.
func (w *World) Example() *Program {
	w.t.Helper()
	return &Program{w, w.build(".", ".")}
}

func (w *World) run(input, program string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), program, args...)
	cmd.Env, cmd.Stdin = w.env, strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s %v: %v\n%s", filepath.Base(program), args, err, out)
	}
}

// Program is an example.
type Program struct {
	w    *World
	path string
}

// Run runs it to its end.
func (p *Program) Run(args ...string) {
	p.w.t.Helper()
	p.w.run("", p.path, args...)
}

// Prints starts it, waits until it has printed n lines, interrupts it, and returns them. It has to end then, without an error.
func (p *Program) Prints(n int, args ...string) (lines []string) {
	p.w.t.Helper()
	said := p.w.start(p.path, args...)
	for len(lines) < n && said.next(fmt.Sprintf("%d lines, and has printed %q", n, lines)) {
		lines = append(lines, said.line)
	}
	said.end()
	return lines
}

// output is what a program that runs prints.
type output struct {
	w    *World
	cmd  *exec.Cmd
	said chan string
	line string
	over bool
}

func (w *World) start(program string, args ...string) *output {
	w.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stderr = w.env, w.t.Output()
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatalf("start %s: %v", filepath.Base(program), err)
	}
	o := &output{w: w, cmd: cmd, said: make(chan string)}
	w.t.Cleanup(o.end)
	go o.read(stdout)
	return o
}

// read hands out lines until the program has ended.
func (o *output) read(stdout io.Reader) {
	defer close(o.said)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		o.said <- lines.Text()
	}
}

// next waits for a line. It fails the test if there is none.
func (o *output) next(want string) bool {
	o.w.t.Helper()
	select {
	case line, more := <-o.said:
		if !more {
			o.w.t.Fatalf("%s has ended; want that it prints %s", filepath.Base(o.cmd.Path), want)
		}
		o.line = line
		return true
	case <-time.After(limit):
		o.w.t.Fatalf("%s prints nothing for %v; want that it prints %s", filepath.Base(o.cmd.Path), limit, want)
		return false
	}
}

// end interrupts the program and waits until it has ended.
func (o *output) end() {
	if o.over {
		return
	}
	o.over = true
	_ = o.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(limit, func() { _ = o.cmd.Process.Kill() })
	defer kill.Stop()
	for range o.said { // the rest
	}
	if err := o.cmd.Wait(); err != nil {
		o.w.t.Errorf("%s was asked to end: %v", filepath.Base(o.cmd.Path), err)
	}
}
