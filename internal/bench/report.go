package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// What is wanted of a worker that reads plain records, as a part of the bare loop's records a second.
const (
	required = 0.85
	goal     = 0.95
)

// figures are medians of one contender's rounds.
type figures struct {
	perSecond, cpu        float64 // user records; nanoseconds of one
	ownCPU                float64 // less what the server takes
	allocs, bytes, peak   float64 // of a user record; of the heap, beyond what lay in it before
	ownBytes              float64 // less the server's, for a byte of payload
	speed, cpuSpeed       float64 // as parts of the bare loop's: records in a second, and in a second of CPU time
	moreCPU, moreCPUOfOwn float64 // than the bare loop: nanoseconds a user record; as a part of the bare loop's without the server
	moreAllocs            float64 // than the bare loop
}

// summarize compares each round of a contender with the same round of the server and of the bare loop.
func summarize(w workload, us, server, bare []usage) figures {
	n := float64(w.total() * us[0].phases)
	of := func(f func(u, server, bare usage) float64) float64 {
		v := make([]float64, len(us))
		for i, u := range us {
			v[i] = f(u, server[i], bare[i])
		}
		return median(v)
	}
	return figures{
		perSecond: of(func(u, _, _ usage) float64 { return n / u.elapsed.Seconds() }),
		cpu:       of(func(u, _, _ usage) float64 { return float64(u.cpu) / n }),
		ownCPU:    of(func(u, s, _ usage) float64 { return float64(u.cpu-s.cpu) / n }),
		allocs:    of(func(u, _, _ usage) float64 { return float64(u.allocs) / n }),
		bytes:     of(func(u, _, _ usage) float64 { return float64(u.bytes) / n }),
		peak:      of(func(u, _, _ usage) float64 { return float64(u.peakHeap) - float64(u.base) }),
		ownBytes:  of(func(u, s, _ usage) float64 { return (float64(u.bytes) - float64(s.bytes)) / n / float64(w.size) }),
		speed:     of(func(u, _, b usage) float64 { return b.elapsed.Seconds() / u.elapsed.Seconds() }),
		cpuSpeed:  of(func(u, _, b usage) float64 { return b.cpu.Seconds() / u.cpu.Seconds() }),
		moreCPU:   of(func(u, _, b usage) float64 { return float64(u.cpu-b.cpu) / n }),
		moreCPUOfOwn: of(func(u, s, b usage) float64 {
			return float64(u.cpu-b.cpu) / float64(b.cpu-s.cpu)
		}),
		moreAllocs: of(func(u, _, b usage) float64 { return (float64(u.allocs) - float64(b.allocs)) / n }),
	}
}

// report says a workload's figures, of a user record where nothing else is said, and what was wanted.
func report(say printer, w workload, results map[string][]usage) {
	var rows, wanted, table strings.Builder
	rows.WriteString("\trecords/s\tns CPU\tless server\tallocs\tB\tB/payload B, less server\tpeak heap\tspeed/bare\tby CPU\tCPU beyond bare\tallocs beyond bare\t\n")
	for _, c := range contenders() {
		us := results[c.name]
		if len(us) == 0 {
			continue
		}
		f := summarize(w, us, results[theServer], results[bareLoop])
		fmt.Fprintf(&rows, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%.2f\t%.0f MiB\t", c.name,
			f.perSecond, f.cpu, f.ownCPU, f.allocs, f.bytes, f.ownBytes, f.peak/(1<<20))
		if c.name == theServer {
			rows.WriteString("\t\t\t\t\n")
			continue
		}
		fmt.Fprintf(&rows, "%.3f\t%.3f\t%.0f ns, %.1f %%\t%.2f\t\n", f.speed, f.cpuSpeed, f.moreCPU, 100*f.moreCPUOfOwn, f.moreAllocs)
		if c.worker && w.packed == 1 {
			fmt.Fprintf(&wanted, "  %s: %.3f of the bare loop's records/s: %s; %.3f by CPU time: %s\n", c.name,
				f.speed, judged(f.speed), f.cpuSpeed, judged(f.cpuSpeed))
		}
	}
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = io.WriteString(t, rows.String())
	_ = t.Flush()
	say("%s: %d shards, %d user records, read %d times in each of %d rounds, medians\n%s%s\n", w.name, shards, w.total(), results[bareLoop][0].phases, len(results[bareLoop]), table.String(), wanted.String())
}

func judged(ratio float64) string {
	return fmt.Sprintf("required %.2f %s, goal %.2f %s", required, verdict(ratio >= required), goal, verdict(ratio >= goal))
}

func median(v []float64) float64 {
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
