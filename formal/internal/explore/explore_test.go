package explore

import (
	"fmt"
	"testing"
)

// counters is two counters that go from 0 to 3, each by itself.
type counters struct{ broken bool }

func (counters) Initial() [2]uint8 { return [2]uint8{} }

func (c counters) Steps(s *[2]uint8, emit func(*[2]uint8, Step, string)) {
	for i := range s {
		next := *s
		if next[i] == 3 {
			continue
		}
		next[i]++
		broken := ""
		if c.broken && next == [2]uint8{2, 1} {
			broken = "2 and 1"
		}
		emit(&next, Step{Who: uint8(i)}, broken)
	}
}

func (counters) Describe(step Step, s *[2]uint8) string { return fmt.Sprint(step.Who, *s) }

func TestRun_visitsEveryStateOnce(t *testing.T) {
	t.Parallel()
	g := Run(counters{}, 100, true)
	if g.Len() != 16 || g.Broken != "" || g.Truncated {
		t.Errorf("%d states, broken %q, truncated %t; want 16", g.Len(), g.Broken, g.Truncated)
	}
	if g := Run(counters{}, 5, false); g.Len() != 5 || !g.Truncated {
		t.Errorf("%d states, truncated %t; want 5, truncated", g.Len(), g.Truncated)
	}
}

func TestRun_tellsAShortestWayToABrokenRule(t *testing.T) {
	t.Parallel()
	g := Run(counters{broken: true}, 100, true)
	want := "      1  0 [1 0]\n      2  0 [2 0]\n      3  1 [2 1]   <== 2 and 1\n"
	if g.Broken != "2 and 1" || g.Trace != want {
		t.Errorf("broken %q, trace\n%s\nwant\n%s", g.Broken, g.Trace, want)
	}
}

func TestCheck_countsWaitsAndFindsWhatIsStuck(t *testing.T) {
	t.Parallel()
	duty := Duty[[2]uint8]{
		Name:    "end",
		Need:    func(*[2]uint8) bool { return true },
		Goal:    func(s *[2]uint8) bool { return *s == [2]uint8{3, 3} },
		Allowed: func(*[2]uint8, Step) bool { return true },
		Costs:   func(step Step) bool { return step.Who == 0 },
		Waits:   3,
	}
	g := Run(counters{}, 100, true)
	if stuck, trace := g.Check(duty); stuck != 0 {
		t.Errorf("%d states stuck:\n%s", stuck, trace)
	}
	duty.Waits = 2 // four states have the first counter at 0
	if stuck, _ := g.Check(duty); stuck != 4 {
		t.Errorf("%d states stuck, want 4", stuck)
	}
	duty.Waits, duty.Allowed = 3, func(_ *[2]uint8, step Step) bool { return step.Who == 0 }
	if stuck, _ := g.Check(duty); stuck != 12 {
		t.Errorf("%d states stuck, want 12", stuck)
	}
}
