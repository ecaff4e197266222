package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// print writes the verdict for people, and for scripts that look for "lost 0" and "out of order 0".
func (v verdict) print(w io.Writer) {
	var b strings.Builder
	b.WriteString("\naudit of what the workers reported\n")
	fmt.Fprintf(&b, "  produced %d\n  delivered %d\n  lost %d\n", v.produced, v.delivered, v.lost)
	total := int64(0)
	for _, n := range v.duplicates {
		total += n
	}
	fmt.Fprintf(&b, "  duplicates %d\n", total)
	for _, why := range slices.Sorted(maps.Keys(v.duplicates)) {
		fmt.Fprintf(&b, "    %d after %s\n", v.duplicates[why], why)
	}
	fmt.Fprintf(&b, "  out of order %d\n", v.outOfOrder)
	if v.unknown > 0 {
		fmt.Fprintf(&b, "  never produced %d\n", v.unknown)
	}
	for _, e := range v.examples {
		fmt.Fprintf(&b, "    %s\n", e)
	}
	if v.table != nil {
		v.table.print(&b)
	}
	v.printMoves(&b)
	_, _ = io.WriteString(w, b.String()) // if nobody can read it, the exit code still tells
}

func (v verdict) printMoves(b *strings.Builder) {
	for i, m := range v.moves {
		if i == 0 || v.moves[i-1].fate.worker != m.fate.worker {
			label := "takeover time after"
			if m.fate.what == stopped {
				label = "handoff gap after"
			}
			same := slices.DeleteFunc(slices.Clone(v.moves), func(o move) bool { return o.fate.worker != m.fate.worker })
			fmt.Fprintf(b, "  %s %s: %s\n", label, m.fate, longest(same, m.fate.what))
		}
		switch {
		case m.to == "":
			fmt.Fprintf(b, "    %s: nobody took it\n", short(m.shard))
		case m.first < 0:
			fmt.Fprintf(b, "    %s: taken by %s after %s, no record came after that\n", short(m.shard), m.to, seconds(m.taken))
		case m.gap < 0:
			fmt.Fprintf(b, "    %s: taken by %s after %s, first record after %s\n", short(m.shard), m.to, seconds(m.taken), seconds(m.first))
		default:
			fmt.Fprintf(b, "    %s: taken by %s after %s, first record after %s, %s after the last one before\n", short(m.shard), m.to, seconds(m.taken), seconds(m.first), seconds(m.gap))
		}
	}
}

// longest sums a fate up in one figure.
func longest(moves []move, what string) string {
	most := time.Duration(-1)
	for _, m := range moves {
		d := m.gap
		if what == killed {
			d = max(m.first, m.taken)
		}
		most = max(most, d)
	}
	switch {
	case most < 0:
		return "nothing to measure"
	case len(moves) == 1:
		return seconds(most)
	}
	return fmt.Sprintf("%s at most, of %d shards", seconds(most), len(moves))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// short leaves the zeros of a shard's name out.
func short(shard string) string {
	digits, ok := strings.CutPrefix(shard, "shardId-")
	if !ok {
		return shard
	}
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		digits = "0"
	}
	return "shard " + digits
}
