package main

import (
	"slices"
	"testing"

	"github.com/shardlease/shardlease/examples/internal/emulated"
)

func TestTablestream_readsEachChangeFromTheEmulator(t *testing.T) {
	t.Parallel()
	w := emulated.New(t)
	p := w.Example()
	for _, state := range []string{"placed", "paid", "sent"} {
		p.Run("17", state)
	}
	want := []string{"INSERT order 17: nothing -> placed", "MODIFY order 17: placed -> paid", "MODIFY order 17: paid -> sent"}
	if got := p.Prints(3); !slices.Equal(got, want) {
		t.Errorf("it printed %q, want %q", got, want)
	}
}
