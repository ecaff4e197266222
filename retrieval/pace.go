package retrieval

import (
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// pace decides how long after the start of one read the next one may start. It is a value without a clock.
//
// A shard answers five reads a second, shared by all applications that poll it. While a shard is far behind its reader goes
// on at once: many pages are large, and the service limits bytes as well. As soon as it refuses a read, the reader keeps to
// its fifth of a second for a while. At the tip a read each idle time suffices, and a shard in which nothing happens is
// asked less and less often.
type pace struct {
	idle, most time.Duration
	far        int64         // milliseconds behind from which on a shard has not caught up
	silence    time.Duration // pause after the last empty read
	careful    int           // reads to come that keep to idle, because the service has refused one
	// opening: nothing was read yet. The owner before us may have read everything a moment ago and handed the shard over; then
	// the first read comes before the next record, and a whole pause after it would be the longest part of the hand-off.
	opening bool
}

const carefulReads = 100 // about 20 s at five a second

// after takes the result of a read that succeeded: how many records came, whether there were as many as one read may give,
// and how many milliseconds the shard is behind.
func (p *pace) after(records int, full bool, behind int64) time.Duration {
	careful, opening := p.careful > 0, p.opening
	p.opening = false
	if careful {
		p.careful--
	}
	if records > 0 || behind > 0 {
		p.silence = 0
		if records > 0 && (full || behind >= p.far) && !careful {
			return 0
		}
		return spread(p.idle)
	}
	if opening && !careful {
		return spread(p.idle / 4)
	}
	p.silence = min(max(p.silence*3/2, p.idle), max(p.most, p.idle))
	return spread(p.silence)
}

// spread lengthens a pause by up to an eighth, so that shards that were opened together do not stay in step. A shorter one
// would ask more often than the service allows.
func spread(d time.Duration) time.Duration { return loop.Jitter(d+d/8, 1./9) }

// refused is called when the service says that it is asked too often.
func (p *pace) refused() { p.careful = carefulReads }
