package sim_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/internal/sim"
)

// The flags of TestFleets. The defaults are what go test ./... runs; `make sim` and CI run more.
var (
	schedules = flag.Int("schedules", 0, "so many schedules; 0: 12, with -short 4")
	hours     = flag.Float64("hours", 0, "schedules for so many hours of real time, instead of a number of them")
	firstSeed = flag.Uint64("seed", 0, "first seed; 0: 1, so that each run has the same")
	fresh     = flag.Int("fresh", 0, "so many schedules more, of seeds that nobody has chosen")
	lasts     = flag.Duration("lasts", 100*time.Second, "virtual time of each schedule until everything is mended")
	kind      = flag.String("kind", "", "only seeds of such fleets: table, streams, fan-out, trims; else all")
	faults    = flag.String("faults", "", "only the faults with these numbers, as 0,3,7")
	tries     = flag.Int("tries", 1, "run each schedule so often, until it fails")
	bubbles   = flag.Int("bubbles", 2, "schedules at a time")
	processes = flag.Int("processes", 0, "run schedules in so many processes of one core each, instead of bubbles")
	served    = flag.Bool("serve", false, "run schedules whose seeds come on standard input: TestFleets starts such processes")
	shrink    = flag.Duration("shrink", time.Minute, "real time for dropping faults from a schedule that fails")
)

// every so many schedules what was found so far is printed.
const every = 100

// mostFailures ends a simulation early: what comes then is seldom another fault.
const mostFailures = 3

// plan hands out schedules to those that run them, and adds up what they find.
type plan struct {
	mu       sync.Mutex
	next     int
	count    int
	first    uint64
	fresh    uint64 // the first seed of those after count
	passed   uint64 // seeds that were not wanted
	until    time.Time
	failures int
	total    sim.Total
}

func newPlan(t *testing.T) *plan {
	t.Helper()
	if err := checkFlags(); err != nil {
		t.Fatal(err)
	}
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
	p.fresh = rand.Uint64N(1 << 32)
	if *fresh > 0 && !*served {
		fmt.Printf("%d schedules from seed %d on, and %d from seed %d on\n", p.count, p.first, *fresh, p.fresh)
	}
	return p
}

// draw returns the next schedule; no more if enough were run, or enough have failed.
func (p *plan) draw() (s sim.Schedule, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= p.count+*fresh || p.failures >= mostFailures || !p.until.IsZero() && time.Now().After(p.until) {
		return sim.Schedule{}, false
	}
	seed := p.first + uint64(p.next) + p.passed
	if p.next >= p.count {
		seed = p.fresh + uint64(p.next-p.count) + p.passed
	}
	p.next++
	for s = p.schedule(seed); !s.Is(*kind); s = p.schedule(seed) {
		seed++
		p.passed++
	}
	return s, true
}

// schedule is that of a seed, as the flags want it.
func (p *plan) schedule(seed uint64) sim.Schedule {
	s := sim.Draw(seed, *lasts)
	if *faults == "" {
		return s
	}
	keep, _ := faultNumbers() // checked before
	return s.Keep(keep...)
}

// faultNumbers is what -faults says.
func faultNumbers() (numbers []int, err error) {
	if *faults == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(*faults, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("-faults is %q, want numbers of faults with commas between them, as 0,3,7", *faults)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// checkFlags refuses what would run nothing, or something else than was asked for, and look like a success.
func checkFlags() error {
	for name, v := range map[string]float64{"schedules": float64(*schedules), "hours": *hours, "fresh": float64(*fresh), "processes": float64(*processes)} {
		if v < 0 {
			return fmt.Errorf("-%s is %v, want 0 or more", name, v)
		}
	}
	switch {
	case *tries < 1 || *bubbles < 1:
		return fmt.Errorf("-tries is %d and -bubbles is %d, want 1 or more", *tries, *bubbles)
	case *lasts <= 0:
		return fmt.Errorf("-lasts is %v, want a time such as 100s", *lasts)
	case !slices.Contains([]string{"", "table", "streams", "fan-out", "trims"}, *kind):
		return fmt.Errorf("-kind is %q, want table, streams, fan-out, trims, or nothing", *kind)
	}
	numbers, err := faultNumbers()
	if err != nil || *schedules != 1 {
		return err
	}
	for _, n := range numbers {
		if has := len(sim.Draw(max(1, *firstSeed), *lasts).Faults); n >= has {
			return fmt.Errorf("-faults names %d, and the schedule of seed %d that lasts %v has %d faults", n, *firstSeed, *lasts, has)
		}
	}
	return nil
}

// run lives through a schedule, and fails the test for what it broke.
func (p *plan) run(t *testing.T, s sim.Schedule) sim.Result {
	t.Helper()
	r, _ := sim.RunUntil(t, s, *tries)
	p.add(r)
	if len(r.Violations) > 0 {
		fail(t, s, r)
	}
	return r
}

func (p *plan) add(r sim.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total.Add(r); len(r.Violations) > 0 {
		p.failures++
	}
	if p.total.Schedules%every == 0 && !*served {
		fmt.Println(p.total.String())
	}
}

func TestFleets_keepTheirPromisesWhateverHappensToThem(t *testing.T) {
	t.Parallel()
	p := newPlan(t)
	heap, goroutines := inUse()
	t.Cleanup(func() {
		after, left := inUse()
		fmt.Printf("heap %d MB before, %d MB after; goroutines %d, %d\n", heap>>20, after>>20, goroutines, left)
		if p.failures == 0 && after > heap+mostLeft { // a failure keeps its history
			t.Errorf("%d MB of heap are in use after %d schedules, and were %d before, want at most %d more (O7)", after>>20, p.total.Schedules, heap>>20, mostLeft>>20)
		}
		if !*served {
			fmt.Println(p.total.Details())
			fmt.Println(p.total.String())
		}
	})
	if *served {
		p.serve(t)
		return
	}
	for i := range *processes {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			p.elsewhere(t)
		})
	}
	if *processes > 0 {
		return
	}
	for i := range *bubbles {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for {
				s, more := p.draw()
				if !more {
					return
				}
				p.run(t, s)
			}
		})
	}
}

// mostLeft is what may be in use after any number of schedules beyond what was before: caches of the runtime and of the SDK.
const mostLeft = 16 << 20

// inUse is what is in use when everything that can go has gone. That no goroutine outlives its schedule, the bubbles see to.
func inUse() (heap uint64, goroutines int) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, runtime.NumGoroutine()
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
	if err != nil {
		t.Errorf("write the history: %v", err)
	}
	t.Errorf("seed %d\n%swhole history: %v", s.Seed, r.Report(replay), strings.Join(files, " "))
}
