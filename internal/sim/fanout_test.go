package sim

import (
	"slices"
	"testing"
	"time"
)

func TestDraw_letsOneFleetInFiveReadByFanOut(t *testing.T) {
	t.Parallel()
	const seeds = 2000
	var by [readings]int
	for seed := range uint64(seeds) {
		s := Draw(seed, 100*time.Second)
		by[s.Reading]++
		if s.Reading != ByPolling {
			continue
		}
		for _, k := range []Kind{CutEvents, SilentEvents, TakenEvents, LostConsumer} {
			if s.has(k) {
				t.Fatalf("a fleet that polls has a fault of subscriptions: %v", s)
			}
		}
	}
	if part := float64(seeds-by[ByPolling]) / seeds; part < 0.17 || part > 0.23 {
		t.Errorf("a part of %.2f of all fleets reads by fan-out, want a fifth", part)
	}
	if slices.Contains(by[:], 0) {
		t.Errorf("of %d seeds so many read in each way: %v, want some of each", seeds, by)
	}
}
