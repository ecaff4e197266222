package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/formal/internal/explore"
	"github.com/shardlease/shardlease/formal/internal/row"
	"github.com/shardlease/shardlease/formal/internal/shards"
)

func main() {
	only := flag.String("run", "", "explore only what has this in its name")
	limit := flag.Int("limit", 2_500_000, "states of one model, at most")
	memory := flag.Int64("memory", 3500, "MiB that the program tries to stay below")
	parallel := flag.Int("parallel", min(2, runtime.NumCPU()), "models at once")
	traces := flag.Bool("trace", false, "print how each broken variant breaks")
	flag.Parse()
	debug.SetMemoryLimit(*memory << 20)
	jobs := slices.Concat(
		jobsOf("row", row.Models(), *limit), jobsOf("shards", shards.Models(), *limit),
		variantsOf("row", row.Variants(), *limit), variantsOf("shards", shards.Variants(), *limit),
	)
	if !run(jobs, *only, *parallel, *traces) {
		os.Exit(1)
	}
}

// subject is a model that can be explored and says what must be possible in it.
type subject[S comparable] interface {
	explore.System[S]
	Name() string
	Duties() []explore.Duty[S]
}

// variant is one that lacks a guard.
type variant[S comparable] interface {
	explore.System[S]
	Guard() string
	Why() string // nothing breaks without it
}

// job is one model to explore.
type job struct {
	kind, name string
	broken     bool // it lacks a guard
	do         func() outcome
}

// outcome is what came of it.
type outcome struct {
	states, duties int
	found          string // the rule that is broken
	trace          string
	fault          string // why this is not as it should be
	note           string
	seconds        float64
}

func jobsOf[S comparable, M subject[S]](kind string, models []M, limit int) (jobs []job) {
	for _, m := range models {
		jobs = append(jobs, job{kind: kind, name: m.Name(), do: func() (o outcome) {
			duties := m.Duties()
			g := explore.Run[S](m, limit, len(duties) > 0)
			o.states, o.found, o.trace = g.Len(), g.Broken, g.Trace
			switch {
			case g.Broken != "":
				o.fault = "broken: " + g.Broken
				return o
			case g.Truncated:
				o.fault = fmt.Sprintf("not explored to its end: more than %d states", limit)
				return o
			}
			for _, d := range duties {
				o.duties++
				if stuck, trace := g.Check(d); stuck > 0 {
					o.fault, o.trace = fmt.Sprintf("%d states from which this cannot be: %s", stuck, d.Name), trace
				}
			}
			return o
		}})
	}
	return jobs
}

func variantsOf[S comparable, V variant[S]](kind string, variants []V, limit int) (jobs []job) {
	for _, v := range variants {
		jobs = append(jobs, job{kind: kind, name: v.Guard(), broken: true, do: func() (o outcome) {
			g := explore.Run[S](v, limit, false)
			o.states, o.found, o.trace, o.note = g.Len(), g.Broken, g.Trace, v.Why()
			switch {
			case g.Broken == "" && v.Why() == "":
				o.fault = "nothing breaks without it"
			case g.Broken != "" && v.Why() != "":
				o.fault = "is said to be spare, and breaks: " + g.Broken
			}
			return o
		}})
	}
	return jobs
}

// run does the jobs, some at once, and prints them in their order. It reports whether all is as it should be.
func run(jobs []job, only string, parallel int, traces bool) bool {
	began := time.Now()
	var chosen []job
	for _, j := range jobs {
		if strings.Contains(j.kind+"/"+j.name, only) {
			chosen = append(chosen, j)
		}
	}
	results := make([]chan outcome, len(chosen))
	free := make(chan struct{}, parallel)
	for i := range results {
		results[i] = make(chan outcome, 1)
	}
	go func() {
		for i, j := range chosen {
			free <- struct{}{}
			go func() {
				start := time.Now()
				o := j.do()
				o.seconds = time.Since(start).Seconds()
				results[i] <- o
				<-free
			}()
		}
	}()
	var states, properties, errs, variants, found, spare int
	for i, j := range chosen {
		o := <-results[i]
		switch {
		case i == 0 && !j.broken:
			fmt.Println("models of the protocol as built")
		case j.broken && (i == 0 || !chosen[i-1].broken):
			fmt.Println("broken variants: what is found without one guard")
		}
		text := "ok"
		switch {
		case o.fault != "":
			text = "ERROR " + o.fault
			errs++
		case j.broken && o.found != "":
			text = "found: " + o.found
		case j.broken:
			text = "defence in depth: " + o.note
		case o.duties > 0:
			text = fmt.Sprintf("ok, %d duties", o.duties)
		}
		if j.broken {
			variants++
			found += b2i(o.found != "")
			spare += b2i(o.found == "" && o.fault == "")
		} else {
			states += o.states
			properties += o.duties
		}
		fmt.Printf("  %-7s %-82s %9d states %5.1f s  %s\n", j.kind, j.name, o.states, o.seconds, text)
		if o.fault != "" || traces {
			fmt.Print(o.trace)
		}
	}
	fmt.Printf("states %d duties %d errors %d variants %d found %d defence_in_depth %d seconds %.0f\n",
		states, properties, errs, variants, found, spare, time.Since(began).Seconds())
	return errs == 0
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
