package loop

import (
	"math/rand/v2"
	"time"
)

// Backoff spaces retries: the k-th pause is drawn evenly from [Base/2, Base·2^k], and never exceeds Max. The lower bound
// keeps a retry from following at once, the jitter keeps many workers from retrying together.
// A Backoff belongs to one goroutine.
type Backoff struct {
	Base time.Duration // of the first pause; must be positive
	Max  time.Duration // bound of every pause; must be at least Base
	// Random is where the jitter comes from; nil: the process's own source. It exists for simulations that must be the same
	// each time.
	Random *rand.Rand

	tries int
}

// Next returns how long to wait before the next try.
func (b *Backoff) Next() time.Duration {
	top := b.Max
	if b.tries < 32 {
		if d := b.Base << b.tries; d > 0 && d < top {
			top = d
		}
	}
	b.tries++
	low := b.Base / 2
	if top <= low {
		return top
	}
	if b.Random != nil {
		return low + time.Duration(b.Random.Int64N(int64(top-low+1)))
	}
	return low + rand.N(top-low+1)
}

// Tries is the number of pauses since the last Reset.
func (b *Backoff) Tries() int { return b.tries }

// Reset is called after a success.
func (b *Backoff) Reset() { b.tries = 0 }

// Jitter returns a duration between d·(1−part) and d, evenly drawn. part lies between 0 and 1.
func Jitter(d time.Duration, part float64) time.Duration {
	if d <= 0 || part <= 0 {
		return d
	}
	return d - time.Duration(rand.Float64()*min(part, 1)*float64(d))
}
