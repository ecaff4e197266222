// Command mutants breaks the library's guards one at a time and shows that the tests notice.
//
// Each mutant is one replacement in one file. It is compiled in place of that file, by go's -overlay, so nothing in the
// tree changes; then the cheapest suite that should notice is run. The suite has to pass without the mutant, the mutant has
// to compile, and the suite has to fail with it. The last line reads "killed N of N"; the exit status is 1 if one survived.
//
//	go run ./internal/sim/mutants            all of them
//	go run ./internal/sim/mutants -only 7    one, with the output of its suite
//	go run ./internal/sim/mutants -some      five, which CI runs each time
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.Int("only", 0, "number of the one mutant to try; 0 for all")
	some := flag.Bool("some", false, "try only the five that CI tries each time")
	list := flag.Bool("list", false, "print the mutants and try none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *only, *some, *list)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// often are the names of the mutants that CI tries each time: one of each kind of promise, of the suites that are quick.
var often = []string{
	"writes are conditioned on the owner, not on the counter",
	"a checkpoint covers the batch that failed",
	"a child waits for one of its two parents only",
	"a row goes although a child has not begun",
	"takeover waits for two failover times",
}

func run(ctx context.Context, only int, some, list bool) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if only < 0 || only > len(mutants) {
		return fmt.Errorf("-only is %d, want 0 … %d", only, len(mutants))
	}
	if only > 0 && some {
		return errors.New("-only and -some were both given, want one of them")
	}
	chosen, killed := 0, 0
	for i, m := range mutants {
		if only > 0 && only != i+1 || some && !slices.Contains(often, m.name) {
			continue
		}
		chosen++
		if list {
			fmt.Printf("%2d  %-8s %-30s %s\n", i+1, m.claim, m.file, m.name)
			continue
		}
		began := time.Now()
		v, err := m.try(ctx, root)
		if err != nil {
			return fmt.Errorf("mutant %d, %s: %w", i+1, m.name, err)
		}
		if v.killedBy != "" {
			killed++
		} else {
			v.killedBy = "SURVIVED"
		}
		fmt.Printf("%2d  %-8s %-84s %5.1fs  %s\n", i+1, m.claim, m.name, time.Since(began).Seconds(), v.killedBy)
		if only > 0 {
			fmt.Printf("\n%s\n", v.output)
		}
	}
	if list {
		return nil
	}
	fmt.Printf("killed %d of %d\n", killed, chosen)
	if killed < chosen {
		return fmt.Errorf("%d of %d survived", chosen-killed, chosen)
	}
	return nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// apply returns the file with the mutant in it.
func (m mutant) apply(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s has %d places that read %q, want 1: bring the mutant up to date with the code", m.file, n, m.old)
	}
	return bytes.Replace(source, []byte(m.old), []byte(m.new), 1), nil
}

// verdict is what became of a mutant.
type verdict struct {
	killedBy string // the test that failed, empty if none did
	output   string
}

// limit is how long a suite may take; a mutant that makes it hang is killed too.
const limit = 2 * time.Minute

func (m mutant) try(ctx context.Context, root string) (v verdict, err error) {
	broken, err := m.apply(root)
	if err != nil {
		return v, err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return v, err
	}
	defer func() { err = firstOf(err, os.RemoveAll(dir)) }()
	mutated, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace := map[string]map[string]string{"Replace": {filepath.Join(root, filepath.FromSlash(m.file)): mutated}}
	spec, err := json.Marshal(replace)
	if err != nil {
		return v, err
	}
	if err := firstOf(os.WriteFile(mutated, broken, 0o600), os.WriteFile(overlay, spec, 0o600)); err != nil {
		return v, err
	}
	if out, err := goCommand(ctx, root, "test", "-run", m.run, m.pkg); err != nil {
		return v, fmt.Errorf("its suite fails without it: %w\n%s", err, out)
	}
	if out, err := goCommand(ctx, root, "test", "-overlay", overlay, "-run", "^$", m.pkg); err != nil {
		return v, fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	out, failed := goCommand(ctx, root, "test", "-overlay", overlay, "-failfast", "-timeout", limit.String(), "-run", m.run, m.pkg)
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	v.output = out
	if failed != nil {
		v.killedBy = failedTest(out)
	}
	return v, nil
}

func goCommand(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// failedTest is the name of the first test that failed, or how it failed otherwise.
func failedTest(output string) string {
	for line := range strings.Lines(output) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	if strings.Contains(output, "panic: test timed out") {
		return "a suite that did not end"
	}
	return "a suite that ended early"
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
