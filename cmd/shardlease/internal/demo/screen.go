package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
)

const (
	redraw     = 200 * time.Millisecond
	statusLine = 2 * time.Second // between lines of status where nothing can be redrawn
	mostShards = 16              // on the screen
	mostEvents = 14              // on the screen while it is redrawn
	columns    = 79              // of the narrowest usual terminal: a line that wraps would spoil the redrawing
	barWidth   = 30
)

// screen shows the board: redrawn in place on a terminal; elsewhere each event as a line, and a line of status now and
// then.
type screen struct {
	out      io.Writer
	terminal bool
	board    *board
	drawn    int  // lines on the terminal that the next drawing replaces
	told     int  // events printed
	last     bool // nothing is redrawn after this drawing: show everything
}

// isTerminal tells whether out can be redrawn. It knows no library's tricks: a character device that calls itself a
// terminal. The old Windows console does not, and gets lines.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	if runtime.GOOS == "windows" {
		return os.Getenv("WT_SESSION") != ""
	}
	term := os.Getenv("TERM")
	return term != "" && term != "dumb"
}

// run draws until ctx ends, and once more then.
func (s *screen) run(ctx context.Context) {
	for last := time.Duration(0); ; {
		if s.terminal {
			s.draw()
		} else {
			s.print()
			if now := s.board.now(); now-last >= statusLine {
				last = now
				s.say(s.status())
			}
		}
		if s.board.clock.Sleep(ctx, redraw) != nil {
			break
		}
	}
	if s.terminal {
		s.last = true
		s.draw()
	} else {
		s.print()
		s.say(s.status())
	}
}

// print writes the events that were not written yet.
func (s *screen) print() {
	s.board.mu.Lock()
	news := slices.Clone(s.board.timeline[s.told:])
	s.board.mu.Unlock()
	s.told += len(news)
	for _, e := range news {
		s.say(e.String())
	}
}

// say writes a line. If nobody reads it the demo goes on all the same: its exit code is worth having.
func (s *screen) say(line string) { _, _ = io.WriteString(s.out, line+"\n") }

func (e entry) String() string { return fmt.Sprintf("%6.2f s  %s", e.at.Seconds(), e.text) }

// status is everything in a line.
func (s *screen) status() string {
	b := s.board
	b.mu.Lock()
	defer b.mu.Unlock()
	var who []string
	for _, w := range b.workers {
		switch held := b.held(w.id); {
		case w.phase == gone || w.phase == dying:
		case len(held) > 0:
			who = append(who, w.id+": "+strings.TrimPrefix(strings.TrimPrefix(list(held), "shards "), "shard "))
		default:
			who = append(who, w.id+": "+string(w.phase))
		}
	}
	return fmt.Sprintf("%6.2f s  · stored %d of %d, delivered %d · %s", b.now().Seconds(), b.stored, b.total, b.arrived, strings.Join(who, " · "))
}

func (s *screen) draw() {
	lines := s.lines()
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range lines {
		b.WriteString("\x1b[2K" + l + "\n")
	}
	b.WriteString("\x1b[J") // what a longer drawing left below
	s.drawn = len(lines)
	_, _ = io.WriteString(s.out, b.String())
}

func (s *screen) lines() []string {
	b := s.board
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := []string{
		fmt.Sprintf("%.1f s   stored %d of %d   delivered %d", b.now().Seconds(), b.stored, b.total, b.arrived), "",
	}
	ids := slices.Sorted(maps.Keys(b.shards))
	if len(ids) > mostShards { // what has ended is over
		ids = slices.DeleteFunc(ids, func(id string) bool { return b.shards[id].ended })
	}
	ids = ids[:min(len(ids), mostShards)]
	for _, id := range ids {
		lines = append(lines, shardLine(b.shards[id]))
	}
	if more := len(b.shards) - len(ids); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d shards more", more))
	}
	var workers []string
	for _, w := range b.workers {
		workers = append(workers, fmt.Sprintf("%s %s", w.id, w.phase))
	}
	lines = append(lines, "", "  "+strings.Join(workers, "   "), "")
	events := b.timeline
	if !s.last {
		events = events[max(0, len(events)-mostEvents):]
	}
	for _, e := range events {
		lines = append(lines, e.String())
	}
	if !s.last {
		for i, l := range lines {
			lines[i] = cut(l)
		}
	}
	return lines
}

// shardLine shows who reads a shard and how much of what is in it has arrived.
func shardLine(s *shardState) string {
	part := 0.0
	if s.stored > 0 {
		part = min(1, float64(s.delivered)/float64(s.stored))
	}
	full := int(part * barWidth)
	owner := s.owner
	switch {
	case s.ended:
		owner = "ended"
	case owner == "":
		owner = "nobody"
	}
	return fmt.Sprintf("  %-9s %-10s %s%s %7d of %d", audit.Short(s.id), owner, strings.Repeat("█", full), strings.Repeat("░", barWidth-full), s.delivered, s.stored)
}

// cut keeps a line from being wrapped.
func cut(line string) string {
	if r := []rune(line); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return line
}
