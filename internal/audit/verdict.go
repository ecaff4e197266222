package audit

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Print writes the verdict for people, and for scripts that look for "lost 0" and "out of order 0".
func (v Verdict) Print(w io.Writer) {
	var b strings.Builder
	b.WriteString("\naudit of what the workers reported\n")
	fmt.Fprintf(&b, "  produced %d\n  delivered %d\n  lost %d\n", v.Produced, v.Delivered, v.Lost)
	fmt.Fprintf(&b, "  duplicates %d\n", v.Repeated())
	for _, why := range slices.Sorted(maps.Keys(v.Duplicates)) {
		fmt.Fprintf(&b, "    %d after %s\n", v.Duplicates[why], why)
	}
	fmt.Fprintf(&b, "  out of order %d\n", v.OutOfOrder)
	if v.Unknown > 0 {
		fmt.Fprintf(&b, "  never produced %d\n", v.Unknown)
	}
	for _, e := range v.Examples {
		fmt.Fprintf(&b, "    %s\n", e)
	}
	if v.Doubtful > 0 {
		fmt.Fprintf(&b, "  in doubt %d: put, but the answer got lost, and never delivered\n", v.Doubtful)
	}
	_, _ = io.WriteString(w, b.String()) // if nobody can read it, the exit code still tells
}

// PrintMoves writes where the shards of each fate went, and how long that took.
func (v Verdict) PrintMoves(b io.Writer) {
	for i, m := range v.Moves {
		if i == 0 || v.Moves[i-1].Fate.Worker != m.Fate.Worker {
			label := "takeover time after"
			if m.Fate.What == Stopped {
				label = "handoff gap after"
			}
			same := slices.DeleteFunc(slices.Clone(v.Moves), func(o Move) bool { return o.Fate.Worker != m.Fate.Worker })
			_, _ = fmt.Fprintf(b, "  %s %s: %s\n", label, m.Fate, longest(same, m.Fate.What))
		}
		switch {
		case m.To == "":
			_, _ = fmt.Fprintf(b, "    %s: nobody took it\n", Short(m.Shard))
		case m.First < 0:
			_, _ = fmt.Fprintf(b, "    %s: taken by %s after %s, no record came after that\n", Short(m.Shard), m.To, Seconds(m.Taken))
		case m.Gap < 0:
			_, _ = fmt.Fprintf(b, "    %s: taken by %s after %s, first record after %s\n", Short(m.Shard), m.To, Seconds(m.Taken), Seconds(m.First))
		default:
			_, _ = fmt.Fprintf(b, "    %s: taken by %s after %s, first record after %s, %s after the last one before\n", Short(m.Shard), m.To, Seconds(m.Taken), Seconds(m.First), Seconds(m.Gap))
		}
	}
}

// longest sums a fate up in one figure.
func longest(moves []Move, what string) string {
	most := time.Duration(-1)
	for _, m := range moves {
		d := m.Gap
		if what == Killed {
			d = max(m.First, m.Taken)
		}
		most = max(most, d)
	}
	switch {
	case most < 0:
		return "nothing to measure"
	case len(moves) == 1:
		return Seconds(most)
	}
	return fmt.Sprintf("%s at most, of %d shards", Seconds(most), len(moves))
}

// Seconds is a duration as it is printed: 1.25 s.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// Short leaves the zeros of a shard's name out.
func Short(shard string) string {
	digits, ok := strings.CutPrefix(shard, "shardId-")
	if !ok {
		return shard
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		digits = "0"
	}
	return "shard " + digits
}
