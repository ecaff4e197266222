package processor

import (
	"errors"

	"github.com/shardlease/shardlease/internal/states"
)

var errResting = errors.New("the consumer rests")

// rests reports whether there is nothing to do before Resume is called, and nobody waits for it. A consumer rests while its shard is idle; while
// records come, to keep the goroutine costs less than to make one for each batch.
//
// Whatever ends the rest is done before rouse is called: a page lies ready, a stop is requested, the context is done. So either it is seen
// here, or rouse comes after roused was cleared and is seen at the end, or it finds the consumer at rest.
func (c *ShardConsumer) rests() bool {
	source, ok := c.source.(Announcer)
	if !ok || !c.o.Rests || !c.idle || c.batch != nil || c.pause > 0 || c.phase.Action() != states.Process {
		return false
	}
	c.mu.Lock()
	c.roused = false
	c.mu.Unlock()
	if source.Await(c.rouse) {
		return false
	}
	if _, ok := c.interruption(); ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resting = !c.roused
	if c.resting { // nobody waits for records
		c.endFetch(errResting)
		c.fetch, c.endFetch = nil, nil
	}
	return c.resting
}

// rouse ends a rest. It is called, from any goroutine, when something has happened that the consumer must look at.
func (c *ShardConsumer) rouse() {
	c.mu.Lock()
	rested := c.resting
	c.resting, c.roused = false, true
	c.mu.Unlock()
	if rested {
		c.o.Upstream.Resume()
	}
}
