package sim_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardlease/shardlease/internal/sim"
)

// A bubble is a chain of goroutines of which one runs at a time. Two bubbles in one process take more than two processes with a core
// each, since the runtime moves goroutines to whichever core has nothing to do at the moment. So TestFleets can have its schedules run by
// copies of itself, which read seeds from their standard input and answer with a line of JSON each.

// answerMark begins an answer. Other lines are for people.
const answerMark = "result: "

// elsewhere has a process of its own run what the plan draws.
func (p *plan) elsewhere(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The last of two flags counts. What go test wants to be written it gets from this process alone.
	args := slices.Concat(os.Args[1:], []string{"-processes=0", "-serve", "-test.cpuprofile=", "-test.memprofile=", "-test.testlogfile="})
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	seeds, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a process for schedules: %v", err)
	}
	said := bufio.NewReader(out)
	for {
		s, more := p.draw()
		if !more {
			break
		}
		r, err := ask(seeds, said, s.Seed)
		if err != nil {
			t.Errorf("seed %d: its process ended or cannot be understood: %v", s.Seed, err)
			break
		}
		p.add(r)
	}
	_ = seeds.Close() // by which it ends
	for err == nil {
		_, err = answer(said)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("a process with schedules: %v", err)
	}
}

// ask has a schedule run and returns what came of it.
func ask(seeds io.Writer, said *bufio.Reader, seed uint64) (r sim.Result, err error) {
	if _, err := fmt.Fprintln(seeds, seed); err != nil {
		return r, err
	}
	text, err := answer(said)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(text), &r)
}

// answer returns the next answer, and prints what else is said.
func answer(said *bufio.Reader) (string, error) {
	for {
		line, err := said.ReadString('\n')
		if text, ok := strings.CutPrefix(line, answerMark); ok {
			return text, err
		}
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(line, "=== ") && line != "PASS\n" {
			fmt.Print(line)
		}
	}
}

// serve runs the schedules whose seeds come.
func (p *plan) serve(t *testing.T) {
	t.Helper()
	for lines := bufio.NewReader(os.Stdin); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		seed, bad := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err = errors.Join(err, bad); err != nil {
			t.Fatalf("read a seed: %v", err)
		}
		s := p.schedule(seed)
		r := p.run(t, s)
		r.Schedule = sim.Schedule{} // who asked knows it
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", answerMark, text)
	}
}
