package retrieval

import (
	"sync"
	"time"
)

// patience is how long a subscription may be silent before it is taken for dead. The service says something now and then
// also of a shard in which nothing happens, but promises no interval. So the bound that is configured holds until some
// pauses were seen; then it is a multiple of the longest of them.
type patience struct {
	most time.Duration

	mu      sync.Mutex
	pauses  int
	longest time.Duration
}

const (
	enoughPauses  = 10
	pauseMultiple = 4
	// leastPatience is also the time within which a subscription cannot be followed by another one.
	leastPatience = takeOverAfter
)

// heard takes note of an event that came after so long.
func (p *patience) heard(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses++
	p.longest = max(p.longest, after)
}

// limit is how long to wait for the next event. A reader that waited in vain some times in a row waits longer: perhaps the
// service has become slower, and what was seen means nothing any more.
func (p *patience) limit(inVain int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses < enoughPauses {
		return p.most
	}
	limit := max(pauseMultiple*p.longest, leastPatience)
	for range min(inVain, 10) {
		limit *= 2
	}
	return min(limit, p.most)
}
