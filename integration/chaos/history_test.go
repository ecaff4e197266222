//go:build unix

package main

import (
	"fmt"
	"testing"
)

func TestHistory_tellsACheckpointThatGoesBack(t *testing.T) {
	t.Parallel()
	see := func(h *history, counter int, position, sub string) {
		h.see(nil, fmt.Appendf(nil, `{"Attributes":{"leaseKey":{"S":"shard"},"leaseOwner":{"S":"w"},"leaseCounter":{"N":"%d"},"checkpoint":{"S":%q},"checkpointSubSequenceNumber":{"N":%q}}}`,
			counter, position, sub))
	}
	h := newHistory()
	see(h, 2, "9", "0") // answers may be seen in any order
	see(h, 1, "TRIM_HORIZON", "0")
	see(h, 10, "100", "3")
	see(h, 3, "100", "2")
	see(h, 11, "SHARD_END", "0")
	h.see(nil, []byte(`{"Items":[]}`))
	if n, found := h.regressions(); n != 5 || len(found) != 0 {
		t.Errorf("%d writes, %q; want 5 and nothing", n, found)
	}
	see(h, 12, "100", "3")
	if _, found := h.regressions(); len(found) != 1 {
		t.Errorf("found %q, want one: SHARD_END became a number", found)
	}
}
