//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestJudge_aProcessThatWasStoppedBeforeItBeganIsNotBlamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		logged string
		signal syscall.Signal
		blamed int
	}{
		"before its main":    {"", syscall.SIGTERM, 0},
		"while it ran":       {"level=INFO msg=\"worker started\"\n", syscall.SIGTERM, 1},
		"by something wrong": {"", syscall.SIGSEGV, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(log, []byte(c.logged), 0o600); err != nil {
				t.Fatal(err)
			}
			l := newLedger(io.Discard)
			f := newFleet("", "", 0, make([][]*link, 1), l)
			p := &process{id: "w0.1", log: log, asked: stopWord, cmd: exec.Command("sleep", "1000")} // it does not listen for signals
			if err := p.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := p.signal(c.signal); err != nil {
				t.Fatal(err)
			}
			f.judge(p, p.cmd.Wait())
			if len(l.wrong) != c.blamed {
				t.Errorf("blamed: %q, want %d", l.wrong, c.blamed)
			}
		})
	}
}
