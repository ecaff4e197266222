package leases

import (
	"context"
	"errors"
	"testing"
	"time"
)

// lossyTable loses replies: an answer comes only when the context of its call ends.
type lossyTable struct {
	*Table
	landed time.Time         // when a write last reached the row
	script []func(call) call // of one write each; the last one of all others too
}

type call struct {
	ctx  context.Context
	seen Lease
	me   Tenure
	w    Written
	err  error
}

func (t *lossyTable) next(c call) (Written, error) {
	step := t.script[0]
	if len(t.script) > 1 {
		t.script = t.script[1:]
	}
	c = step(c)
	return c.w, c.err
}

func (t *lossyTable) Take(ctx context.Context, seen Lease, me Tenure) (Written, error) {
	return t.next(call{ctx: ctx, seen: seen, me: me})
}

func (t *lossyTable) Renew(ctx context.Context, held Lease, me Tenure, _ Renewal) (Written, error) {
	return t.next(call{ctx: ctx, seen: held, me: me})
}

// lands is a write whose answer is lost; it is known to have no answer when the call ends.
func (t *lossyTable) lands(c call) call {
	if _, c.err = t.Table.Renew(c.ctx, c.seen, c.me, Renewal{}); c.err == nil {
		t.landed = time.Now()
	}
	<-c.ctx.Done()
	c.err = errors.New("no answer")
	return c
}

// sent is a write that does not reach the table.
func (t *lossyTable) sent(c call) call {
	<-c.ctx.Done()
	c.err = errors.New("no answer")
	return c
}

// adopts is a write whose condition fails on an earlier one of ours, and whose repetition lands or does not; nobody knows.
func (t *lossyTable) adopts(repetitionLands bool) func(call) call {
	return func(c call) call {
		row, _, err := t.Get(c.ctx, c.seen.Key)
		if err != nil || !c.me.ours(row) || row.Counter == c.seen.Counter {
			c.err = errors.New("the test is wrong: there is nothing to adopt")
			return c
		}
		if repetitionLands {
			c.seen = row
			c = t.lands(c)
		} else {
			c = t.sent(c)
		}
		c.w, c.err = Written{Lease: row, Recovered: ByEarlierCall}, nil
		return c
	}
}

// A write that is repeated may land without an answer, too. What is found on the row later is then that repetition, and no
// write that was asked for after it:
//
//  1. A write lands, its answer is lost. The next call finds it and repeats it; the repetition lands, its answer is lost.
//  2. Peers see the repetition, and start to count.
//  3. A third call is lost altogether.
//  4. A fourth call finds the repetition on the row.
//
// The lease must not count from the third call then.
func TestHeld_doesNotCountFromACallAfterTheWriteThatPeersSaw(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(*lossyTable) []func(call) call{
		"renewals": func(l *lossyTable) []func(call) call {
			take := func(c call) call { c.w, c.err = l.Table.Take(c.ctx, c.seen, c.me); return c }
			return []func(call) call{take, l.lands, l.adopts(true), l.sent, l.adopts(false), l.sent}
		},
		"a take": func(l *lossyTable) []func(call) call {
			take := func(c call) call {
				w, err := l.Table.Take(c.ctx, c.seen, c.me)
				if c.err = err; err != nil {
					return c
				}
				c.seen = w.Lease
				c = l.lands(c)
				c.w, c.err = Written{Lease: w.Lease, Recovered: ByEarlierCall}, nil
				return c
			}
			return []func(call) call{take, l.sent, l.adopts(false), l.sent}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(b *bubble) {
				b.cfg.RenewInterval = time.Second
				l := &lossyTable{Table: b.client("a")}
				l.script = script(l)
				r := NewRenewer(l, b.cfg, RenewerOptions{Worker: "a"})
				ctx, cancel := context.WithCancel(b.ctx)
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				c := r.claim(b.row(0))
				h, err := r.take(b.ctx, l, &c)
				if err != nil {
					t.Fatal(err)
				}
				<-h.Context().Done()
				if acted := time.Since(l.landed); acted > b.cfg.FailoverTime {
					t.Errorf("the owner acted for %v after a write that its peers respect for %v", acted, b.cfg.FailoverTime)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
