package leases

import "time"

// What the core of the protocol (core_test.go) needs, which lives outside of this package because it imports packages that import it.

type (
	Item   = item
	Stamp  = stamp
	Timing = timing
	Term   = term
)

var (
	TimingOf = timingOf
	Encode   = encode
	KeyOf    = keyOf
)

func Decode(row Item) (Lease, error) { return decoder{}.decode(row) }

func StampAt(mono, wall time.Time) Stamp { return stamp{mono: mono, wall: wall} }

func (s stamp) Mono() time.Time               { return s.mono }
func (s stamp) Wall() time.Time               { return s.wall }
func (s stamp) Slept(now stamp) time.Duration { return s.slept(now) }

func (x term) Over(now time.Time) bool { return x.over(now) }
func (x term) Due() time.Time          { return x.due }

func (t timing) Begin(asked stamp, first time.Duration) term { return t.begin(asked, first) }
func (t timing) InDoubt(x term, now stamp) bool              { return t.inDoubt(x, now) }
func (t timing) ToRenew(x term, now stamp) bool              { return t.toRenew(x, now) }
func (t timing) Limit() time.Duration                        { return t.failover - t.margin }
func (t timing) Margin() time.Duration                       { return t.margin }

func (t timing) Landed(x term, asked, now stamp, r Recovery) term { return t.landed(x, asked, now, r) }

func (t timing) Failed(x term, asked, now stamp) term {
	x, _ = t.failed(x, asked, now)
	return x
}
