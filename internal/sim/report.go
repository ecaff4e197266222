package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// around is how many events of its lease a timeline shows before a violation.
const around = 24

// Timeline is what a reader needs to understand a violation: what befell the fleet, what happened to the lease, and what
// others did to it, up to the violation.
func (r Result) Timeline(v Violation) string {
	var b strings.Builder
	if len(r.events) == 0 {
		return ""
	}
	end := min(v.event, len(r.events)-1)
	shown := r.relevant(v, end)
	skipped := 0
	for i := range end + 1 {
		if !shown[i] {
			skipped++
			continue
		}
		if skipped > 0 {
			fmt.Fprintf(&b, "            … %d events\n", skipped)
			skipped = 0
		}
		b.WriteString(r.events[i].String())
		b.WriteByte('\n')
	}
	return b.String()
}

// relevant chooses the events of a timeline. Of the lease: the last ones, renewals only if they are among the very last. Of
// the fleet: all faults, and what processes did as a whole.
func (r Result) relevant(v Violation, end int) map[int]bool {
	shown := map[int]bool{}
	left, renewals := around, 3
	for i := end; i >= 0; i-- {
		e := r.events[i]
		switch {
		case e.lease == "":
			shown[i] = true
		case v.Lease != "" && e.lease != v.Lease || left == 0:
		case v.Lease == "" && !strings.HasPrefix(e.text(), "holds ") && !strings.HasPrefix(e.text(), "has "): // of many leases, only who has them
		case strings.HasSuffix(e.text(), ": renewed"):
			if renewals > 0 {
				renewals--
				shown[i] = true
			}
		default:
			left--
			shown[i] = true
		}
	}
	return shown
}

func (e event) String() string {
	who := e.process
	if e.lease != "" {
		who += " " + strings.Replace(e.lease, "shardId-00000000", "shard-", 1)
	}
	return fmt.Sprintf("%10.3fs %-16s %s", e.at.Seconds(), who, e.text())
}

// Report is a violation with everything that is needed to look into it.
func (r Result) Report(replay string) string {
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "%s\n", v)
	}
	fmt.Fprintf(&b, "replay: %s\n\n%s\n\ntimeline, up to the first violation (p1.2 is the second process at place 1; #17 is the 17th record of a shard):\n%s",
		replay, r.Schedule, r.Timeline(r.Violations[0]))
	return b.String()
}

// WriteTo leaves the whole history in a folder, and names the files.
func (r Result) WriteTo(dir string) (files []string, err error) {
	var b strings.Builder
	fmt.Fprintln(&b, r.Schedule)
	for _, e := range r.events {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	name := filepath.Join(dir, fmt.Sprintf("history-%d.txt", r.Schedule.Seed))
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		return nil, err
	}
	files = append(files, name)
	if r.order != nil {
		name := filepath.Join(dir, fmt.Sprintf("register-%d.html", r.Schedule.Seed))
		if err := porcupine.VisualizePath(leaseRegister, *r.order, name); err != nil {
			return files, err
		}
		files = append(files, name)
	}
	return files, nil
}

// Total adds results up.
type Total struct {
	Schedules, Faults, Records, Twice, Gaps, Lost, Violations, Unchecked int
	Calls                                                                int64
	Virtual                                                              time.Duration
	deliver, settle, stop                                                []time.Duration
}

// Add adds one result.
func (t *Total) Add(r Result) {
	t.Schedules++
	t.Faults += r.Faults
	t.Records += r.Records
	t.Twice += r.Twice
	t.Gaps += r.Gaps
	t.Lost += r.Lost
	t.Calls += r.Calls
	t.Virtual += r.Virtual
	if len(r.Violations) > 0 {
		t.Violations++
		return
	}
	if r.Unchecked {
		t.Unchecked++
	}
	t.deliver, t.settle, t.stop = append(t.deliver, r.Deliver), append(t.settle, r.Settle), append(t.stop, r.Stop)
}

// String is the last line of a simulation.
func (t *Total) String() string {
	return fmt.Sprintf("schedules %d virtual_hours %.1f faults %d records %d violations %d", t.Schedules, t.Virtual.Hours(), t.Faults, t.Records, t.Violations)
}

// Details are the line before it.
func (t *Total) Details() string {
	return fmt.Sprintf("sdk_calls %d handled_again %d gaps_told %d with_lost_records %d register_unchecked %d; after mending: all delivered within %s, shared and cleaned up within %s, stopped within %s",
		t.Calls, t.Twice, t.Gaps, t.Lost, t.Unchecked, spread(t.deliver), spread(t.settle), spread(t.stop))
}

func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "-"
	}
	slices.Sort(d)
	return fmt.Sprintf("p50 %v p99 %v max %v", d[len(d)/2], d[(len(d)-1)*99/100], d[len(d)-1])
}
