package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// outcome is what a job came to.
type outcome struct {
	job   job
	suite suite
	err   error // of running it; a case that fails is no error here
}

// event is a line of test2json.
type event struct {
	Action, Test, Output, Key, Value string
}

// build compiles the suites that the jobs need, so that none is linked twice.
func build(ctx context.Context, root, dir string, jobs []job) error {
	var g errgroup.Group
	g.SetLimit(2)
	for name, folder := range suites {
		if !slices.ContainsFunc(jobs, func(j job) bool { return j.suite == name }) {
			continue
		}
		g.Go(func() error {
			c := exec.CommandContext(ctx, "go", "test", "-c", "-o", filepath.Join(dir, name+".test"), "./"+folder)
			c.Dir, c.Stderr = root, os.Stderr
			if err := c.Run(); err != nil {
				return fmt.Errorf("build the suite %s: %w", name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// runAll runs jobs, some at once: most of their time is spent waiting. Fleets come first and by themselves, as workers that
// share a server with a suite would be judged by how loaded that is.
func runAll(ctx context.Context, root, dir string, jobs []job, atOnce int, done func(outcome)) []outcome {
	outcomes := make([]outcome, len(jobs))
	finished := make(chan outcome)
	go func() {
		defer close(finished)
		for _, fleets := range []bool{true, false} {
			var g errgroup.Group
			g.SetLimit(atOnce)
			for i, j := range jobs {
				if (j.suite == fleetSuite) != fleets {
					continue
				}
				g.Go(func() error {
					outcomes[i] = run(ctx, root, dir, j)
					finished <- outcomes[i]
					return nil
				})
			}
			_ = g.Wait()
		}
	}()
	for o := range finished {
		done(o)
	}
	return outcomes
}

// run runs one job and reads its events.
func run(ctx context.Context, root, dir string, j job) outcome {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, j.limit+10*time.Second)
	defer cancel()
	args := append([]string{"tool", "test2json", filepath.Join(dir, j.suite+".test"), "-test.v=test2json"}, j.args...)
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir, c.Env, c.Stderr = filepath.Join(root, suites[j.suite]), append(os.Environ(), j.env...), os.Stderr
	o := outcome{job: j}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		o.err = err
		return o
	}
	var tests events
	in := bufio.NewScanner(out)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			o.err = errors.Join(o.err, fmt.Errorf("read %q: %w", in.Text(), err))
			continue
		}
		tests.add(e)
	}
	o.err = errors.Join(o.err, in.Err())
	ended := c.Wait()
	o.suite = tests.suite()
	o.suite.With, o.suite.Seconds = j.with, rounded(time.Since(began))
	switch {
	case tests.outcome == "":
		o.err = errors.Join(o.err, fmt.Errorf("the suite did not come to its end: %w\n%s", ended, strings.Join(tests.said[""], "")))
	case o.suite.Cases+len(o.suite.Failed) == 0:
		o.err = errors.Join(o.err, errors.New("no case was run"))
	}
	return o
}

// events is what was read.
type events struct {
	outcome    string // of the whole
	passed     []string
	failed     []string
	has, lacks []string
	figures    string
	said       map[string][]string
}

func (t *events) add(e event) {
	if t.said == nil {
		t.said = map[string][]string{}
	}
	switch e.Action {
	case "pass", "fail", "skip":
		switch {
		case e.Test == "":
			t.outcome = e.Action
		case e.Action == "fail":
			t.failed = append(t.failed, e.Test)
		default:
			t.passed = append(t.passed, e.Test)
		}
	case "attr":
		switch e.Key {
		case "has":
			t.has = append(t.has, e.Value)
		case "lacks":
			t.lacks = append(t.lacks, e.Value)
		case "figures":
			t.figures = e.Value
		}
	case "output":
		t.said[e.Test] = append(t.said[e.Test], e.Output)
	}
}

// suite makes a record of it: of tests, those that have no subtests.
func (t *events) suite() suite {
	parents := map[string]bool{}
	for _, name := range slices.Concat(t.passed, t.failed) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			parents[dir] = true
		}
	}
	s := suite{Has: sorted(t.has), Lacks: sorted(t.lacks), Figures: t.figures}
	for _, name := range t.passed {
		if !parents[name] {
			s.Cases++
		}
	}
	for _, name := range t.failed {
		if parents[name] && len(t.complaints(name)) == 0 {
			continue
		}
		s.Failed = append(s.Failed, plain(name))
		s.Said = append(s.Said, t.complaints(name)...)
	}
	slices.Sort(s.Failed)
	s.Said = s.Said[:min(len(s.Said), 20)]
	return s
}

// complaints are the lines that a test has written, without what the testing package says of it.
func (t *events) complaints(name string) (lines []string) {
	for _, line := range t.said[name] {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") && !strings.Contains(line, "declared missing: ") {
			lines = append(lines, line[:min(len(line), 300)])
		}
	}
	return lines
}

// plain is a case's name without that of the test function.
func plain(name string) string {
	_, c, sub := strings.Cut(name, "/")
	if !sub {
		c = name
	}
	return strings.ReplaceAll(c, "_", " ")
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
