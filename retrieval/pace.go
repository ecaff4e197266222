package retrieval

import (
	"time"

	"github.com/shardlease/shardlease/internal/loop"
)

// pace decides how long after the start of one read the next one may start. It is a value without a clock.
//
// A shard answers five reads a second and gives 2 MiB a second, shared by all applications that poll it. While a shard is far behind its
// reader goes on at once: many pages are large, and servers that know no limits are read as fast as they can be. As soon as a read is
// refused, the reader keeps to what is left for it for a while. At the tip a read each idle time suffices, and a shard in which nothing
// happens is asked less and less often.
type pace struct {
	idle, most time.Duration
	far        int64         // milliseconds behind from which on a shard has not caught up
	silence    time.Duration // pause after the last empty read
	// careful is the pause to keep to because the service has refused reads; 0: it has not for a while. Each refusal makes it longer by the
	// same, each answer shorter by a part of it: so all of our readers of a shard, of whatever application, come to the same pause, however many they are.
	careful time.Duration
	// opening: nothing was read yet. The owner before us may have read everything a moment ago and handed the shard over; then
	// the first read comes before the next record, and a whole pause after it would be the longest part of the hand-off.
	opening bool
	// owes is how long the service takes to forget the bytes of the last page: it may refuse every read until then.
	owes time.Duration
}

const (
	refusedMore    = 300 * time.Millisecond // what one refusal adds to careful
	answeredLess   = 100                    // the part of careful that one answer takes away
	mostCareful    = 5 * time.Second        // then 25 readers share a shard
	bytesPerSecond = 2 << 20                // of a shard
)

// after takes the result of a read that succeeded: how many records and bytes came, whether there were as many as one read may give,
// and how many milliseconds the shard is behind.
func (p *pace) after(records int, bytes int64, full bool, behind int64) time.Duration {
	opening := p.opening
	p.opening = false
	p.owes = time.Duration(bytes) * time.Second / bytesPerSecond
	least := p.careful
	if p.careful > 0 {
		least = max(least, p.owes)
		if p.careful -= p.careful / answeredLess; p.careful <= p.idle {
			p.careful = 0
		}
	}
	if records > 0 || behind > 0 {
		p.silence = 0
		if records > 0 && (full || behind >= p.far) && least == 0 {
			return 0
		}
		return spread(max(p.idle, least))
	}
	if opening && least == 0 {
		return spread(p.idle / 4)
	}
	p.silence = min(max(p.silence*3/2, p.idle), max(p.most, p.idle))
	return spread(max(p.silence, least))
}

// spread lengthens a pause by up to an eighth, so that shards that were opened together do not stay in step. A shorter one
// would ask more often than the service allows.
func spread(d time.Duration) time.Duration { return loop.Jitter(d+d/8, 1./9) }

// refused is called when the service says that it is asked too often.
func (p *pace) refused() {
	p.careful = min(max(p.careful, p.idle)+refusedMore, max(mostCareful, p.idle))
}
