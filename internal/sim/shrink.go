package sim

import (
	"slices"
	"testing"
	"time"
)

// RunUntil runs a schedule up to so many times, until a promise is broken: a schedule does not fix how goroutines interleave.
// It returns the last result and how often it ran.
func RunUntil(t *testing.T, s Schedule, tries int) (r Result, ran int) {
	t.Helper()
	for ran < max(1, tries) {
		r = Run(t, s)
		if ran++; len(r.Violations) > 0 {
			break
		}
	}
	return r, ran
}

// Shrink drops faults from a schedule for as long as the same promise is broken within some tries, halves of them first. It
// spends about that much real time, and returns the indexes of the faults that are left and the last result that broke it.
func Shrink(t *testing.T, s Schedule, r Result, tries int, budget time.Duration) (kept []int, shrunk Result) {
	t.Helper()
	promise := r.Violations[0].Promise
	began := time.Now()
	for i := range s.Faults {
		kept = append(kept, i)
	}
	for size := (len(kept) + 1) / 2; size >= 1; {
		dropped := false
		for from := 0; from < len(kept) && time.Since(began) < budget; {
			fewer := slices.Delete(slices.Clone(kept), from, min(from+size, len(kept)))
			again, _ := RunUntil(t, s.Keep(fewer...), tries)
			if len(again.Violations) > 0 && again.Violations[0].Promise == promise {
				kept, r, dropped = fewer, again, true
			} else {
				from += size
			}
		}
		if size == 1 && !dropped || time.Since(began) >= budget {
			break
		}
		size = max(1, size/2)
	}
	return kept, r
}
