package main

import (
	"regexp"
	"slices"
	"testing"
)

func TestMutants_fitTheCode(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range mutants {
		if _, err := m.apply("../../.."); err != nil {
			t.Error(err)
		}
		if _, err := regexp.Compile(m.run); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("%s: there are two of that name", m.name)
		}
		names[m.name] = true
	}
	for _, name := range often {
		if !names[name] {
			t.Errorf("CI is to try %q, which is no mutant's name", name)
		}
	}
	if len(mutants) < 25 || len(often) != 5 || len(slices.Compact(slices.Sorted(slices.Values(often)))) != 5 {
		t.Errorf("%d mutants and %d of CI, want 25 at least and 5", len(mutants), len(often))
	}
}
