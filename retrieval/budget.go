package retrieval

import (
	"context"
	"slices"
	"sync"
)

// budget bounds the bytes that all shards of a worker have fetched and not yet handled.
//
// How large a page will be is known only when it is there, so a reader first claims what the page may need and asks for no
// more records than that; afterwards the claim becomes the page's true size. What a shard may hold follows from what is
// free: at most half of what is then left for the others. One shard alone gets a third of the budget, k busy ones get the
// (k+2)-th part each. A part is set aside, so that a shard that holds nothing always gets a small page, however many
// processors stand still with theirs. Nothing has to be configured, and nothing is taken back.
//
// Its lock is held for a few comparisons only.
type budget struct {
	mu      sync.Mutex
	total   int64
	used    int64 // claims and pages
	shards  int64 // accounts
	holding int64 // accounts that hold something
	perRec  int64 // bytes of a record in the last page of any shard; 0 if there was none yet
	waiting []*claim
}

// account is one shard's share.
type account struct {
	held   int64
	closed bool // nothing is held any more, and late releases mean nothing
}

// claim is a reader that waits.
type claim struct {
	of      *account
	want    int64
	whole   bool // less than want is of no use
	granted int64
	ready   chan struct{} // closed when granted is set
	waits   func()        // called before it waits; may be nil
}

// smallestClaim is worth a request. A shard that may not have as much waits, unless it wants no more, or holds nothing; then
// it gets less if there are very many shards, but a record in any case.
const smallestClaim = 64 << 10

func newBudget(total int64) *budget { return &budget{total: max(total, 1)} }

// open adds a shard.
func (b *budget) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards++
}

// claim waits until the account may have some of want bytes, and returns how many. It fails with ctx's cause only.
// Readers are served in the order in which they came, except that one whose shard holds too much lets others pass.
// waits, if it is not nil, is called before it waits.
func (b *budget) claim(ctx context.Context, a *account, want int64, waits func()) (int64, error) {
	return b.wait(ctx, &claim{of: a, want: max(want, 1), ready: make(chan struct{}), waits: waits})
}

// claimWhole waits until the account may have all of want bytes: the size of an event is known before it is read, and it
// cannot be read in part. It fails with ctx's cause only.
//
// A shard that holds nothing gets its event as soon as it fits into what is free, and while it waits, those that hold
// something get no more: they have work. An event larger than the budget waits until nothing is held at all.
func (b *budget) claimWhole(ctx context.Context, a *account, want int64) (int64, error) {
	return b.wait(ctx, &claim{of: a, want: max(want, 1), whole: true, ready: make(chan struct{})})
}

func (b *budget) wait(ctx context.Context, c *claim) (int64, error) {
	a := c.of
	b.mu.Lock()
	if a.held == 0 || !b.hungry() {
		if n := b.grant(c); n > 0 {
			b.mu.Unlock()
			return n, nil
		}
	}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	if c.waits != nil {
		c.waits()
	}

	select {
	case <-c.ready:
		return c.granted, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.giveBack(a, c.granted) // it was granted while we turned away
	}
	return 0, context.Cause(ctx)
}

// hungry reports whether somebody waits who holds nothing and could not be given a part.
func (b *budget) hungry() bool {
	return slices.ContainsFunc(b.waiting, func(c *claim) bool { return c.whole && c.of.held == 0 })
}

// grant gives an account what it may have now, 0 if too little to be worth it.
func (b *budget) grant(c *claim) int64 {
	a, want := c.of, c.want
	// For the n that solves held + n = (free - n) / 2.
	aside := min(b.shards*smallestClaim, b.total/4)
	n := min(want, (b.total-aside-b.used-2*a.held)/3)
	least := min(want, smallestClaim)
	if c.whole {
		least = want
	}
	if n < least {
		if a.held > 0 || least > smallestClaim && b.used > 0 && b.used+least > b.total {
			return 0
		}
		if !c.whole {
			least = min(want, b.share())
		}
		n = max(n, least)
	}
	b.book(a, n)
	return n
}

// share is what a shard that holds nothing may have when the others leave little: its part of that. Were it always
// smallestClaim, 1,000 shards that stand still would hold 64 MiB beside what the first of them took; so it may come down to
// a byte, which is a record.
func (b *budget) share() int64 {
	return min(max((b.total-b.used)/max(b.shards-b.holding, 1), 1), smallestClaim)
}

// book adds n bytes, which may be negative, to what an account holds.
func (b *budget) book(a *account, n int64) {
	before := a.held
	a.held += n
	b.used += n
	switch {
	case before == 0 && a.held != 0:
		b.holding++
	case before != 0 && a.held == 0:
		b.holding--
	}
}

// serve grants what can be granted.
func (b *budget) serve() {
	hungry := false
	b.waiting = slices.DeleteFunc(b.waiting, func(c *claim) bool {
		if hungry && c.of.held > 0 {
			return false
		}
		if c.granted = b.grant(c); c.granted == 0 {
			hungry = hungry || c.whole && c.of.held == 0
			return false
		}
		close(c.ready)
		return true
	})
}

// settle turns a claim into a page of that many bytes and records. The page is there already, so it counts even if it is
// larger than the claim; then nobody gets anything until enough was handled.
func (b *budget) settle(a *account, granted, bytes int64, records int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if records > 0 {
		b.perRec = max(bytes/int64(records), 1)
	}
	if a.closed {
		return
	}
	if bytes > granted {
		b.book(a, bytes-granted)
		return
	}
	b.giveBack(a, granted-bytes)
}

// release gives a handled page back.
func (b *budget) release(a *account, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(a, bytes)
}

// close gives back all that an account holds: a processor that lost its shard may never say that it is done.
func (b *budget) close(a *account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := a.held
	b.giveBack(a, held)
	a.closed = true
	b.shards--
}

func (b *budget) giveBack(a *account, n int64) {
	if a.closed || n == 0 {
		return
	}
	b.book(a, -n)
	b.serve()
}

// recordBytes is how large a record is likely to be, 0 if no shard has seen one.
func (b *budget) recordBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.perRec
}
