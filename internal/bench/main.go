package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// settings are the command line.
type settings struct {
	rounds, drains      int
	only, who           string
	profile, memprofile string
	memory              bool
	shards              int
	idleTime, settle    time.Duration
	child, endpoint     string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 5, "how many rounds the figures are medians of")
	flag.IntVar(&s.drains, "drains", 4, "how often everybody reads everything in a round: with one, how a drain meets the garbage collector's cycles decides")
	flag.StringVar(&s.only, "only", "", "only workloads, or scenarios of -memory, whose name contains this")
	flag.StringVar(&s.who, "who", "", "only workers whose name contains this, beside the server and the bare loops")
	flag.StringVar(&s.profile, "cpuprofile", "", "write a CPU profile to this file; use it with -only")
	flag.BoolVar(&s.memory, "memory", false, "how much memory a worker needs, in place of how fast it is")
	flag.StringVar(&s.memprofile, "memprofile", "", "with -memory -only idle: write a heap profile of the worker to this file")
	flag.IntVar(&s.shards, "shards", idleShards, "with -memory: idle shards")
	flag.DurationVar(&s.idleTime, "idle-time", 0, "with -memory: Retrieval.MaxIdleTime of the worker with idle shards; 0: the default, 1s")
	flag.DurationVar(&s.settle, "settle", time.Minute, "with -memory: how long the worker with idle shards is watched, with each of three settings of the garbage collector")
	flag.StringVar(&s.child, "child", "", "for this program's own use: the scenario of a worker process")
	flag.StringVar(&s.endpoint, "endpoint", "", "for this program's own use: where the worker process finds the server")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// printer is where what was found goes.
type printer func(format string, args ...any)

func run(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	print := func(format string, args ...any) { fmt.Printf(format, args...) }
	switch {
	case s.child != "":
		return child(ctx, s, print)
	case s.memory:
		return memory(ctx, s)
	}
	return speed(ctx, s, workloads(), print)
}

// speed compares a worker with a bare loop.
func speed(ctx context.Context, s settings, all []workload, say printer) error {
	for _, w := range all {
		if !strings.Contains(w.name, s.only) {
			continue
		}
		var results map[string][]usage
		err := profiled(s.profile, func() (err error) {
			results, err = race(ctx, w, s)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		report(say, w, results)
	}
	return nil
}

// profiled writes a CPU profile of f to a file, if it has a name.
func profiled(name string, f func() error) error {
	if name == "" {
		return f()
	}
	return save(name, func(to io.Writer) error {
		if err := pprof.StartCPUProfile(to); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return f()
	})
}

// race lets everybody drain a workload, some times a round, and returns what each took, by name, in each round. Who comes first changes from
// drain to drain. A round before them, which does not count, fills pools and finds the places of the pages.
func race(ctx context.Context, w workload, s settings) (map[string][]usage, error) {
	f, err := fill(ctx, w)
	if err != nil {
		return nil, err
	}
	if _, err := drainBare(ctx, f, nil); err != nil {
		return nil, err
	}
	var all []contender
	for _, c := range contenders() {
		if (!c.packed || w.packed > 1) && (!c.worker || strings.Contains(c.name, s.who)) {
			all = append(all, c)
		}
	}
	results := map[string][]usage{}
	for i := range s.rounds {
		round := map[string]usage{}
		for d := range s.drains {
			for k := range all {
				c := all[(i+d+k)%len(all)]
				u, err := c.drain(ctx, f)
				if err != nil {
					return nil, fmt.Errorf("%s, round %d: %w", c.name, i+1, err)
				}
				round[c.name] = round[c.name].and(u)
			}
		}
		for name, u := range round {
			results[name] = append(results[name], u)
		}
	}
	return results, nil
}
