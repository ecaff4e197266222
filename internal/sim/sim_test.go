package sim_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/internal/sim"
)

// The flags of TestFleets. The defaults are what go test ./... runs; `make sim` and CI run more.
var (
	schedules = flag.Int("schedules", 0, "so many schedules; 0: 30, with -short 8")
	hours     = flag.Float64("hours", 0, "schedules for so many hours of real time, instead of a number of them")
	firstSeed = flag.Uint64("seed", 0, "first seed; 0: fixed ones, and a fresh one that is printed")
	lasts     = flag.Duration("lasts", 100*time.Second, "virtual time of each schedule until everything is mended")
	faults    = flag.String("faults", "", "only the faults with these numbers, as 0,3,7")
	tries     = flag.Int("tries", 1, "run each schedule so often, until it fails")
	bubbles   = flag.Int("bubbles", 2, "schedules at a time")
	shrink    = flag.Duration("shrink", time.Minute, "real time for dropping faults from a schedule that fails")
)

// mostFailures ends a simulation early: what comes then is seldom another fault.
const mostFailures = 3

// plan hands out schedules to those that run them, and adds up what they find.
type plan struct {
	mu       sync.Mutex
	next     int
	count    int
	first    uint64
	until    time.Time
	failures int
	total    sim.Total
}

func newPlan() *plan {
	p := &plan{count: *schedules, first: *firstSeed}
	switch {
	case *hours > 0:
		p.count, p.until = 1<<40, time.Now().Add(time.Duration(*hours*float64(time.Hour)))
	case p.count == 0 && testing.Short():
		p.count = 4
	case p.count == 0:
		p.count = 12
	}
	if p.first == 0 {
		p.first = 1
	}
	return p
}

// draw returns the next schedule; no more if enough were run, or enough have failed.
func (p *plan) draw() (s sim.Schedule, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= p.count || p.failures >= mostFailures || !p.until.IsZero() && time.Now().After(p.until) {
		return sim.Schedule{}, false
	}
	p.next++
	seed := p.first + uint64(p.next-1)
	s = sim.Draw(seed, *lasts)
	if *faults != "" {
		var keep []int
		for text := range strings.SplitSeq(*faults, ",") {
			n, err := strconv.Atoi(text)
			if err == nil {
				keep = append(keep, n)
			}
		}
		s = s.Keep(keep...)
	}
	return s, true
}

func (p *plan) add(r sim.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total.Add(r); len(r.Violations) > 0 {
		p.failures++
	}
}

func TestFleets_keepTheirPromisesWhateverHappensToThem(t *testing.T) {
	t.Parallel()
	p := newPlan()
	t.Cleanup(func() {
		fmt.Println(p.total.Details())
		fmt.Println(p.total.String())
	})
	for i := range *bubbles {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for {
				s, more := p.draw()
				if !more {
					return
				}
				r, _ := sim.RunUntil(t, s, *tries)
				p.add(r)
				if len(r.Violations) > 0 {
					fail(t, s, r)
				}
			}
		})
	}
}

// fail reports a broken promise with the fewest faults that still break it.
func fail(t *testing.T, s sim.Schedule, r sim.Result) {
	t.Helper()
	kept, r := sim.Shrink(t, s, r, 3, *shrink)
	replay := fmt.Sprintf("go test ./internal/sim -count=1 -run TestFleets -v -seed %d -schedules 1 -lasts %v -tries 50", s.Seed, *lasts)
	switch {
	case *faults != "": // kept are numbers of the schedule that was asked for, not of the seed's
		replay += " -faults " + *faults
	case len(kept) > 0:
		replay += " -faults " + strings.Trim(strings.ReplaceAll(fmt.Sprint(kept), " ", ","), "[]")
	}
	files, err := r.WriteTo(t.ArtifactDir())
	t.Errorf("seed %d\n%swhole history: %v %v", s.Seed, r.Report(replay), strings.Join(files, " "), err)
}
