//go:build unix

package main

import (
	"fmt"
	"testing"
)

func TestHistory_tellsACheckpointThatGoesBackAndACounterThatIsWrittenTwice(t *testing.T) {
	t.Parallel()
	see := func(h *history, counter int, position, sub, nonce string) {
		h.see(nil, fmt.Appendf(nil, `{"Attributes":{"leaseKey":{"S":"shard"},"leaseOwner":{"S":"w"},"leaseCounter":{"N":"%d"},"checkpoint":{"S":%q},"checkpointSubSequenceNumber":{"N":%q},"tenure":{"M":{"nonce":{"S":%q},"at":{"N":"%d"}}}}}`,
			counter, position, sub, nonce, counter))
	}
	h := newHistory()
	see(h, 2, "9", "0", "a") // answers may be seen in any order
	see(h, 1, "TRIM_HORIZON", "0", "a")
	see(h, 10, "100", "3", "a")
	see(h, 3, "100", "2", "a")
	see(h, 11, "SHARD_END", "0", "a")
	see(h, 3, "100", "2", "a") // a write that moves no counter
	h.see(nil, []byte(`{"Items":[]}`))
	if n, found := h.broken(); n != 6 || len(found) != 0 {
		t.Errorf("%d writes, %q; want 6 and nothing", n, found)
	}
	see(h, 12, "100", "3", "a")
	if _, found := h.broken(); len(found) != 1 {
		t.Errorf("found %q, want one: SHARD_END became a number", found)
	}
	see(h, 10, "100", "3", "b")
	if _, found := h.broken(); len(found) != 2 {
		t.Errorf("found %q, want two: a and b have written the same counter", found)
	}
}
