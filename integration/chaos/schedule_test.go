//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlan_isTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	const minute, failover, places = time.Minute, 6 * time.Second, 4
	if d := cmp.Diff(plan(7, minute, failover, places), plan(7, minute, failover, places)); d != "" {
		t.Errorf("two plans of one seed differ:\n%s", d)
	}
	if cmp.Equal(plan(7, minute, failover, places), plan(8, minute, failover, places)) {
		t.Error("the plans of two seeds are the same")
	}
}

func TestPlan_hasRoomForEveryKindAndLeavesSomebodyThere(t *testing.T) {
	t.Parallel()
	const failover, places = 6 * time.Second, 4
	for seed := range uint64(200) {
		all := plan(seed, 2*time.Minute, failover, places)
		times := map[kind]int{}
		for i, f := range all {
			times[f.Kind]++
			if f.until() > 2*time.Minute || f.At < 0 {
				t.Errorf("seed %d: %v is not over at the end", seed, f)
			}
			if f.For < leastFor(f.Kind, failover) {
				t.Errorf("seed %d: %v is too short, want %v", seed, f, leastFor(f.Kind, failover))
			}
			if !f.away() {
				continue
			}
			gone := map[int]bool{f.Place: true}
			for _, other := range all[:i] {
				if other.away() && f.At < other.until() {
					if other.Place == f.Place {
						t.Errorf("seed %d: %v and %v are at the same place", seed, other, f)
					}
					gone[other.Place] = true
				}
			}
			if len(gone) >= places {
				t.Errorf("seed %d: at %v nobody is there", seed, f)
			}
		}
		for _, k := range everyKind {
			if times[k] == 0 {
				t.Errorf("seed %d: in two minutes there is no %s", seed, k)
			}
		}
	}
}
