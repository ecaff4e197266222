package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	update := flag.Bool("update", false, "record what is seen, and rewrite the tables of docs/compatibility.md")
	only := flag.String("suites", "", "run only these, separated by commas: leases, stream, fleet")
	atOnce := flag.Int("at-once", 4, "suites at once")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./integration/matrix [flags] [emulator] [SERVER@VERSION=URL]...\nwithout a server, -update only rewrites the tables")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := matrix(ctx, flag.Args(), *only, *atOnce, *update)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// matrix runs what is to be run and compares, or records, what was seen.
func matrix(ctx context.Context, args []string, only string, atOnce int, update bool) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	var all []running
	for _, a := range args {
		r, err := parse(a)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	results := filepath.Join(root, "integration", "matrix", resultsDir)
	old, err := readRecords(results)
	if err != nil {
		return err
	}
	outcomes, err := runFor(ctx, root, all, only, atOnce)
	if err != nil {
		return err
	}
	var wrong []string
	var good []outcome // what can be compared, or recorded
	for _, o := range outcomes {
		err := o.err
		if err == nil && update && len(o.suite.Failed) > 0 && o.job.on[0].unfit == "" {
			err = fmt.Errorf("not recorded, for it fails %q", o.suite.Failed)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s of %s: %v", o.job.suite, names(o.job), err))
			continue
		}
		good = append(good, o)
	}
	seen := recordsOf(good, old)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		r := seen[name]
		if !update {
			wrong = append(wrong, differences(old[name], r)...)
		} else if err := r.write(results); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("what was seen is not what is recorded in integration/matrix/results (make compatibility records it anew):\n  %s", strings.Join(wrong, "\n  "))
	}
	if !update {
		return nil
	}
	return writeTables(root)
}

// runFor runs the suites, printing each result as it comes.
func runFor(ctx context.Context, root string, all []running, only string, atOnce int) ([]outcome, error) {
	jobs := jobsFor(all)
	if only != "" {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return !slices.Contains(strings.Split(only, ","), j.suite) })
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "matrix")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(ctx, root, dir, jobs); err != nil {
		return nil, err
	}
	total := 0
	outcomes := runAll(ctx, root, dir, jobs, atOnce, func(o outcome) {
		total += o.suite.Cases
		verdict := "ok"
		if o.err != nil || len(o.suite.Failed) > 0 {
			verdict = "FAILED"
			if o.job.on[0].unfit != "" && o.err == nil {
				verdict = "fails, as recorded"
			}
		}
		fmt.Printf("%-7s %-26s %4d cases, %3d lacking, %3ds %s %s\n", o.job.suite, names(o.job), o.suite.Cases, len(o.suite.Lacks), o.suite.Seconds, verdict, o.suite.Figures)
		for _, line := range o.suite.Said {
			fmt.Println("   ", line)
		}
		if err := noteLane(o, verdict); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	fmt.Println("tests", total)
	return outcomes, nil
}

// names are the servers of a job.
func names(j job) string {
	if j.with == "" {
		return j.on[0].name
	}
	return j.on[0].name + " with " + j.with
}

// noteLane adds a line to the table that .ci/lanes.sh keeps, if it keeps one.
func noteLane(o outcome, verdict string) error {
	file := os.Getenv("LANE_RESULTS")
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "suite %s\t%s\t%d\t%d\t%s\n", o.job.suite, names(o.job), o.suite.Cases, o.suite.Seconds, verdict)
	return errors.Join(err, f.Close())
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
