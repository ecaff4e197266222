package leases_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// coreWorker is one process after another.
type coreWorker struct {
	c        *core
	id       string
	life     int
	table    *leases.Table
	view     leases.View
	held     []*coreHeld              // by key
	running  map[string]*coreConsumer // by key: whose user code may still run
	ended    map[string]time.Time     // when a row was first seen finished
	taking   map[string]bool          // takes under way, for which the next look waits
	stopping bool
	nonces   int
	until    time.Duration // it stands still until then
	cut      time.Duration // nothing of it reaches the table until then
	lag      time.Duration // of its monotonic clock, by suspends
}

// coreHeld is one tenure.
type coreHeld struct {
	w        *coreWorker
	lease    leases.Lease
	nonce    string
	token    int64
	term     leases.Term
	consumer *coreConsumer  // nil before it begins, and once it has ended
	wrote    bool           // by the checkpoint under way
	got      leases.Written // what it left
	busy     bool           // a write is under way
	asked    bool           // a peer has asked for the lease
	gone     bool
}

// stamp reads the worker's clocks. While it is suspended its monotonic clock stands, and nothing of it runs.
func (w *coreWorker) stamp() leases.Stamp {
	return leases.StampAt(coreBase.Add(w.c.now-w.lag), coreBase.Add(w.c.now))
}

// after runs do on behalf of this life of the worker, later if it stands still then.
func (w *coreWorker) after(d time.Duration, do func()) {
	life := w.life
	var run func()
	run = func() {
		switch {
		case w.life != life:
		case w.c.now < w.until:
			w.c.after(w.until-w.c.now, run)
		default:
			do()
		}
	}
	w.c.after(d, run)
}

// soon is for what is to be tried again, or takes a moment.
func (w *coreWorker) soon(low, high time.Duration, do func()) { w.after(w.c.between(low, high), do) }

// call makes one attempt of a write; answered runs when its outcome is known to the worker.
func (w *coreWorker) call(write func(context.Context) error, answered func(error)) {
	ctx := &w.c.table.ctx
	ctx.err, w.c.caller = nil, w
	err := write(ctx)
	failover := w.c.cfg.LeaseManagement.FailoverTime
	wait := w.c.between(time.Millisecond, 20*time.Millisecond)
	if err != nil && ctx.err != nil {
		wait = failover / 6
	} else if w.c.faults && w.c.random.IntN(25) == 0 {
		wait = w.c.between(0, 2*failover)
	}
	w.after(wait, func() { answered(err) })
}

// read looks at the table, or fails if the worker is cut off.
func (w *coreWorker) read(do func(ok bool)) {
	w.soon(time.Millisecond, 20*time.Millisecond, func() { do(w.c.now >= w.cut) })
}

// lease is one row, read consistently.
func (w *coreWorker) lease(key string) (leases.Lease, bool) {
	if r := w.c.table.rows[key]; r != nil {
		return r.lease, true
	}
	return leases.Lease{}, false
}

func (w *coreWorker) tenure(nonce string) leases.Tenure {
	return leases.Tenure{Worker: w.id, Nonce: nonce, Failover: w.c.cfg.LeaseManagement.FailoverTime, Leaving: w.stopping}
}

// claim is a tenure that has never written.
func (w *coreWorker) claim() leases.Tenure {
	w.nonces++
	return w.tenure(fmt.Sprintf("h/1/%s.%d/%d", w.id, w.life, w.nonces))
}

func (w *coreWorker) start() {
	w.c.note("%s starts", w.id)
	w.life++
	lm := w.c.cfg.LeaseManagement
	w.table = leases.NewTable(w.c.table, lm, leases.TableOptions{Worker: w.id})
	w.view, w.held, w.stopping = leases.NewView(w.id, lm), nil, false
	w.running, w.ended, w.taking = map[string]*coreConsumer{}, map[string]time.Time{}, map[string]bool{}
	for _, l := range w.c.leases() {
		if l.ActualOwner() == w.id && !l.MarkIsLive() {
			w.take(l)
		}
	}
	w.soon(0, time.Second, w.look)
	w.soon(0, 500*time.Millisecond, w.sync)
	w.soon(0, coreClean, w.clean)
}

// end is the end of a process, and another one later: under its id, or sometimes under a new one.
func (w *coreWorker) end(lasts time.Duration) {
	w.life++
	w.held, w.until = nil, 0
	life := w.life
	w.c.after(lasts, func() {
		if w.life != life {
			return
		}
		if w.c.random.IntN(3) == 0 {
			w.id = strings.Split(w.id, ".")[0] + fmt.Sprintf(".%d", life)
		}
		w.start()
	})
}

// stop gives everything up and ends, at the latest when the time for it is over.
func (w *coreWorker) stop(lasts time.Duration) {
	if w.stopping {
		return
	}
	w.stopping = true
	for _, h := range slices.Clone(w.held) {
		h.leave()
	}
	tries := 0
	var await func()
	await = func() {
		if tries++; len(w.held) > 0 && tries < 60 {
			w.after(100*time.Millisecond, await)
			return
		}
		w.end(lasts)
	}
	w.after(100*time.Millisecond, await)
}

func (w *coreWorker) find(key string) *coreHeld {
	for _, h := range w.held {
		if h.lease.Key == key {
			return h
		}
	}
	return nil
}

// look lists the table, perhaps an old replica of it, and does what the plan says.
func (w *coreWorker) look() {
	if w.stopping {
		return
	}
	lm := w.c.cfg.LeaseManagement
	if w.c.old == nil || w.c.random.IntN(3) > 0 {
		w.c.old = w.c.leases()
	}
	rows := w.c.old
	w.read(func(ok bool) {
		next := lm.LeaseTakerInterval
		if ok && !w.stopping {
			next = w.plan(rows, next)
		}
		w.after(max(next, 50*time.Millisecond), w.look)
	})
}

func (w *coreWorker) plan(rows []leases.Lease, next time.Duration) time.Duration {
	at := w.stamp().Mono()
	var own []leases.Lease
	for _, h := range w.held {
		own = append(own, h.lease)
	}
	w.view = w.view.Look(rows, at).Own(own, at)
	moves := leases.Plan(w.id, w.view, w.c.cfg.LeaseManagement, leases.LeaseCount{})
	for _, l := range rows {
		if now, _ := w.lease(l.Key); w.find(l.Key) == nil && !w.taking[l.Key] {
			switch {
			case now.InTransit() && now.Owner == w.id:
				w.take(now)
			case now.MarkIsLive() && now.CheckpointOwner == w.id: // of an earlier life
				me := w.claim()
				w.call(func(ctx context.Context) error { _, err := w.table.CompleteHandoff(ctx, now, me); return err }, func(error) {})
			}
		}
	}
	for _, l := range moves.Take {
		if now, _ := w.lease(l.Key); now.Counter == l.Counter && now.Key != "" && w.find(l.Key) == nil {
			w.take(now)
		}
	}
	for _, l := range moves.Ask {
		w.call(func(ctx context.Context) error { _, err := w.table.StartHandoff(ctx, l, w.id); return err }, func(error) {})
	}
	if moves.Again > 0 {
		next = min(next, moves.Again)
	}
	return next
}

// take owns a row: free, stale, or handed over.
func (w *coreWorker) take(l leases.Lease) {
	if w.taking[l.Key] {
		return
	}
	w.taking[l.Key] = true
	me, asked := w.claim(), w.stamp()
	var got leases.Written
	w.call(func(ctx context.Context) (err error) {
		if l.InTransit() && l.Owner == w.id {
			got, err = w.table.Renew(ctx, l, me, leases.Renewal{})
		} else {
			got, err = w.table.Take(ctx, l, me)
		}
		return err
	}, func(err error) {
		delete(w.taking, l.Key)
		now := w.stamp()
		if err != nil || now.Mono().Sub(asked.Mono()) >= w.c.timing.Limit() || asked.Slept(now) > w.c.timing.Margin() {
			return // taken too late: the row becomes stale, or is ours to take again
		}
		if old := w.find(l.Key); old != nil {
			old.drop()
		}
		h := &coreHeld{
			w: w, lease: got.Lease, nonce: me.Nonce, token: got.Lease.Counter,
			term: w.c.timing.Begin(asked, w.c.between(0, w.c.cfg.LeaseManagement.RenewInterval)),
		}
		w.held = append(w.held, h)
		slices.SortFunc(w.held, func(a, b *coreHeld) int { return strings.Compare(a.lease.Key, b.lease.Key) })
		w.after(h.term.Due().Sub(now.Mono()), h.renew)
		h.begin()
		if w.stopping {
			h.leave()
		}
	})
}

func (h *coreHeld) drop() {
	h.gone = true
	h.w.held = without(h.w.held, h)
}

// over reports whether the worker may not act any more, and sees to it.
func (h *coreHeld) over() bool {
	if !h.gone && h.term.Over(h.w.stamp().Mono()) && h.w.c.lacks != withoutMargin {
		h.drop()
	}
	return h.gone
}

// usable reports whether the worker may act; a suspend has it renew first.
func (h *coreHeld) usable() bool { return !h.over() && !h.w.c.timing.InDoubt(h.term, h.w.stamp()) }

// settle takes in what came of a write that was sent at asked.
func (h *coreHeld) settle(asked leases.Stamp, got leases.Written, err error) {
	h.busy = false
	now := h.w.stamp()
	switch {
	case h.over() || errors.Is(err, leases.ErrLeaseLost):
		h.drop()
	case err != nil:
		h.term = h.w.c.timing.Failed(h.term, asked, now)
	default:
		h.lease, h.term = got.Lease, h.w.c.timing.Landed(h.term, asked, now, got.Recovered)
		if h.lease.MarkIsLive() && h.lease.CheckpointOwner == h.w.id && !h.asked {
			h.asked = true
			h.w.after(h.w.c.cfg.LeaseManagement.FailoverTime/20, h.leave)
		}
	}
}

func (h *coreHeld) renew() {
	w := h.w
	now := w.stamp()
	switch {
	case h.over():
		return
	case h.busy || !w.c.timing.ToRenew(h.term, now):
		w.after(max(20*time.Millisecond, h.term.Due().Sub(now.Mono())), h.renew)
		return
	}
	lease, got := h.lease, leases.Written{}
	h.busy = true
	w.call(func(ctx context.Context) (err error) {
		got, err = w.table.Renew(ctx, lease, w.tenure(h.nonce), leases.Renewal{})
		return err
	}, func(err error) {
		h.settle(now, got, err)
		w.after(max(time.Millisecond, h.term.Due().Sub(w.stamp().Mono())), h.renew)
	})
}

// leave gives the lease up, once its consumer has ended.
func (h *coreHeld) leave() {
	if h.consumer != nil {
		h.consumer.stop = true
		return
	}
	h.giveUp()
}

// giveUp hands the lease over to whoever has asked for it, or releases it.
func (h *coreHeld) giveUp() {
	w := h.w
	switch {
	case h.over():
		return
	case h.busy:
		w.after(20*time.Millisecond, h.giveUp)
		return
	}
	h.busy = true
	w.call(func(ctx context.Context) error {
		if h.lease.MarkIsLive() {
			_, err := w.table.CompleteHandoff(ctx, h.lease, w.tenure(h.nonce))
			return err
		}
		return w.table.Evict(ctx, h.lease, w.tenure(h.nonce))
	}, func(err error) {
		h.busy = false
		if asked, ok := errors.AsType[*leases.HandoffAskedError](err); ok && !h.over() {
			h.lease = asked.Lease
			h.giveUp()
			return
		}
		h.drop()
	})
}

// WriteCheckpoint implements [checkpoint.Store].
func (h *coreHeld) WriteCheckpoint(ctx context.Context, at checkpoint.ExtendedSequenceNumber) (err error) {
	h.wrote = true
	h.got, err = h.w.table.Update(ctx, h.lease, h.w.tenure(h.nonce), leases.Update{Checkpoint: &at})
	return err
}

// WritePending implements [checkpoint.Store].
func (h *coreHeld) WritePending(context.Context, checkpoint.Pending) error {
	return errors.New("no processor here prepares")
}
