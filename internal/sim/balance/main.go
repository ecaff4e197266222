// Command balance plays what happens to whole fleets in virtual time: the production planner (leases.View, leases.Reader,
// leases.Plan) and, beside it, the lease taker of KCL 2.x, on a model of one table. It prints for each scenario how long the
// fleet takes to own and to balance all leases, what that costs, and which of the bounds hold; it exits with 1 if one does
// not.
//
//	go run ./internal/sim/balance                 # under 45 s on two cores
//	go run ./internal/sim/balance -seed 500 -more 5
//	go run ./internal/sim/balance -only crash
//
// The model: a lease is good for 10 s; a write takes 3 to 7 ms (one in 200 takes 40 ms), 20 at a time; a scan is up to 60 ms
// old (one in 50: 800 ms) and the table serves 12,000 read units a second; a row has 420 bytes; an owner renews all its rows
// each 3.3 s, learns there that it is asked for one, goes on for half a second, needs 50 ms for its batch, and hands over.
// What the production code does about lost replies and errors is no part of it: those are tested with the real taker.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("only", "", "play only scenarios whose name contains this")
	seed := flag.Uint64("seed", 1, "the first seed")
	more := flag.Int("more", 1, "times as many seeds")
	who := flag.String("fleet", "", "play only this fleet: shardlease, KCL 2.x or both")
	flag.Parse()
	debug.SetGCPercent(600)
	debug.SetMemoryLimit(4 << 30) // beyond that memory is dearer than time

	began := time.Now()
	results := play(scenarios(), *only, *who, *seed, *more)
	passed, judged := report(os.Stdout, results)
	fmt.Printf("%.1f s\npass %d of %d\n", time.Since(began).Seconds(), passed, judged)
	if passed < judged {
		os.Exit(1)
	}
}

// played are the results of one scenario with one fleet, by seed.
type played struct {
	scenario scenario
	fleet    fleet
	results  []result
}

// play runs everything, as many runs at once as there are processors.
func play(all []scenario, only, who string, seed uint64, more int) []*played {
	type job struct {
		to   *played
		seed int
	}
	var out []*played
	var jobs []job
	// Without being asked for, scenarios that take long are left out, and KCL beside the largest fleets: it is no part of what is
	// judged, and is not balanced for 35 minutes.
	brief := more == 1 && only == ""
	for _, s := range all {
		if !strings.Contains(s.name, only) || s.slow && brief {
			continue
		}
		for _, f := range s.fleets {
			if who != "" && f.String() != who || f == kcl && s.leases >= 10_000 && brief && who == "" {
				continue
			}
			seeds := s.seeds * more
			if f == kcl { // it is no part of what is judged
				seeds = max(1, s.seeds/4)
			}
			p := &played{s, f, make([]result, seeds)}
			out = append(out, p)
			for i := range seeds {
				jobs = append(jobs, job{p, i})
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return b.to.scenario.leases - a.to.scenario.leases })
	queue := make(chan job)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for j := range queue {
				j.to.results[j.seed] = j.to.scenario.run(j.to.fleet, seed+uint64(j.seed))
			}
		})
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	group.Wait()
	return out
}

// report prints the table and judges it.
func report(to *os.File, all []*played) (passed, judged int) {
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "scenario\tfleet\truns\tall owned s\tworst\tbalanced s\tworst\tafter the last start\tmoves/least\tworst\tfailed %\tunits, 1st minute\tsteady\tcrash gap s p99\tmax\tgap s p99\tmax\t")
	var verdicts []string
	for _, p := range all {
		rs := p.results
		owned, ownedWorst := figures(rs, func(r result) float64 { return r.owned.Seconds() })
		balanced, balancedWorst := figures(rs, balancedSeconds)
		_, after := figures(rs, sinceLast)
		over, overWorst := figures(rs, result.over)
		units, _ := figures(rs, func(r result) float64 { return r.minute })
		steady, _ := figures(rs, func(r result) float64 { return r.steady })
		crash99, crashMax := gapsOf(rs, afterCrashes)
		gap99, gapMax := gapsOf(rs, planned)
		_, _ = fmt.Fprintf(t, "%s\t%v\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%.2f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", p.scenario.name, p.fleet, len(rs),
			owned, ownedWorst, balanced, balancedWorst, after, over, overWorst, failedPercent(rs), units, steady, crash99, crashMax, gap99, gapMax)
		if p.fleet == kcl {
			continue
		}
		for _, b := range p.scenario.bounds {
			judged++
			got := b.of(rs)
			mark := "ok  "
			if got <= b.most {
				passed++
			} else {
				mark = "MISS"
			}
			verdicts = append(verdicts, fmt.Sprintf("%s %s: %s %.3f, at most %v", mark, p.scenario.name, b.what, got, b.most))
		}
	}
	_ = t.Flush()
	for _, v := range verdicts {
		_, _ = fmt.Fprintln(to, v)
	}
	return passed, judged
}
