//go:build unix

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
)

// report prints what happened, judges it, and says whether all is well.
func (r *run) report(out io.Writer) (ok bool) {
	v := audit.Judge(r.ledger.evidence())
	writes, broken := r.history.broken()
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) } // the exit code tells, too
	p("\n%-30s %6s %12s", "fault", "times", "lasted in all")
	faults := 0
	for _, k := range everyKind {
		if n := r.done[k]; n > 0 {
			faults += n
			p("%-30s %6d %12.1f s", k, n, r.total[k].Seconds())
		}
	}
	lost := int64(0)
	for _, of := range r.links {
		for _, l := range of {
			lost += l.replies.lost.Load()
		}
	}
	p("%d processes at %d places; %d replies were lost; %d stops ended with an error while something else was wrong", len(r.fleet.all), r.places, lost, r.fleet.wrongly)
	v.Print(out)
	p("  writes of rows %d, of which checkpoints went back or a counter was written twice %d", writes, len(broken))
	p("  everything settled %.1f s after the last fault", r.settled.Seconds())
	wrong := append(r.ledger.faults(), broken...)
	p("  leases taken %d, lost %d, released %d", r.ledger.count(audit.Taken, r.began), r.ledger.count(audit.Lost, r.began), r.ledger.count(audit.Released, r.began))
	leasesLost, moved := r.ledger.count(audit.Lost, r.began), r.ledger.count(audit.Taken, r.began)
	if r.clocks && (leasesLost > 0 || moved > 0 || v.Repeated() > 0) {
		wrong = append(wrong, fmt.Sprintf("clocks made %d leases be lost, %d be taken and %d records come again, want none", leasesLost, moved, v.Repeated()))
	}
	// Two clocks are wrong from the start on, and each jump goes to and fro.
	if n := r.ledger.count(wall, 0); r.clocks && n != 2+2*faults {
		wrong = append(wrong, fmt.Sprintf("workers have told %d times that their clocks were set, want %d", n, 2+2*faults))
	}
	for _, w := range wrong {
		p("WRONG: %s", w)
	}
	if r.clocks {
		p("clocks seconds %.0f jumps %d records %d lost %d out of order %d duplicates %d leases lost %d moved %d",
			r.lasts.Seconds(), 2*faults, v.Delivered, v.Lost, v.OutOfOrder, v.Repeated(), leasesLost, moved)
	} else {
		p("chaos minutes %s faults %d records %d lost %d out of order %d duplicates %d",
			minutes(r.lasts), faults, v.Delivered, v.Lost, v.OutOfOrder, v.Repeated())
	}
	return v.OK() && len(wrong) == 0
}

func minutes(d time.Duration) string { return fmt.Sprintf("%g", d.Minutes()) }
