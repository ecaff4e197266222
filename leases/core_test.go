package leases

import (
	"container/heap"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
)

// The core of the protocol (View, Plan, the times of a lease, the conditions of the table with what a failed one means) is
// pure or does what its inputs say. So it can also run without a goroutine, under a scheduler that a seed drives: the same
// seed makes the same history, bit for bit, and a second of real time holds hours. What surrounds the core here, loops and
// messages, is written anew and small; package internal/sim runs the real ones.

var (
	coreSchedules = flag.Int("core-schedules", 30, "schedules of TestCore")
	coreSeed      = flag.Uint64("core-seed", 1, "first seed of TestCore")
)

func TestCore_fencesExcludesAndRecoversUnderEverySchedule(t *testing.T) {
	t.Parallel()
	n := *coreSchedules
	if testing.Short() {
		n = min(n, 15)
	}
	var virtual time.Duration
	writes, began := 0, time.Now()
	for seed := *coreSeed; seed < *coreSeed+uint64(n); seed++ {
		c := newCore(seed, false)
		c.run()
		if c.broken != "" {
			c = newCore(seed, true) // the same again, in writing
			c.run()
			t.Fatalf("seed %d at %v: %s\nreplay: go test ./leases -run TestCore -core-seed %d -core-schedules 1\n%s",
				seed, c.now, c.broken, seed, strings.Join(c.log[max(0, len(c.log)-60):], "\n"))
		}
		virtual += c.now
		writes += c.writes
	}
	t.Logf("schedules %d virtual_hours %.1f writes %d real %v", n, virtual.Hours(), writes, time.Since(began).Round(time.Millisecond))
}

func TestCore_repeatsItselfBitForBit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		a, b := newCore(seed, true), newCore(seed, true)
		a.run()
		b.run()
		if !slices.Equal(a.log, b.log) || a.writes == 0 {
			t.Errorf("seed %d: two runs differ, of %d and %d events", seed, len(a.log), len(b.log))
		}
	}
}

// core is one schedule: a table, workers, and what is to happen when.
type core struct {
	random  *rand.Rand
	cfg     config.LeaseManagementConfig
	timing  timing
	now     time.Duration
	order   int
	events  coreEvents
	table   *coreTable
	workers []*coreWorker
	old     []Lease // what a stale listing shows
	faults  bool
	caller  *coreWorker // whose write is under way
	writes  int
	verbose bool
	log     []string
	broken  string

	// What is judged: of each row.
	nonce   map[string]string
	epoch   map[string]int64
	retired map[string]bool
	handled map[string]int64
}

type coreEvent struct {
	at    time.Duration
	order int // of events at one time: as they were made
	do    func()
}

type coreEvents []coreEvent

func (e coreEvents) Len() int { return len(e) }
func (e coreEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e coreEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *coreEvents) Push(x any)   { v, _ := x.(coreEvent); *e = append(*e, v) }
func (e *coreEvents) Pop() any     { o := *e; v := o[len(o)-1]; *e = o[:len(o)-1]; return v }

// coreWorker is one process after another under one id.
type coreWorker struct {
	c      *core
	id     string
	life   int
	table  *Table
	view   View
	held   []*coreHeld // by key
	nonces int
	until  time.Duration // it stands still until then
	cut    time.Duration // nothing of it reaches the table until then
	lag    time.Duration // of its monotonic clock, by suspends
}

// coreHeld is one tenure.
type coreHeld struct {
	w     *coreWorker
	lease Lease
	nonce string
	token int64
	term  term
	place int64 // the last record that it has handled
	busy  bool  // a write is under way
	gone  bool
}

const coreLasts = 2 * time.Minute

func newCore(seed uint64, verbose bool) *core {
	c := &core{
		verbose: verbose,
		random:  rand.New(rand.NewPCG(seed, 0xc04e)), faults: true, nonce: map[string]string{}, epoch: map[string]int64{},
		retired: map[string]bool{}, handled: map[string]int64{},
	}
	cfg := config.Default("app", "orders")
	cfg.LeaseManagement.FailoverTime = time.Duration(2+c.random.IntN(4)) * time.Second
	c.cfg = cfg.Complete().LeaseManagement
	c.timing = timingOf(c.cfg)
	c.table = &coreTable{rows: map[string]item{}, wrote: c.judge, fate: c.fate}
	for i := range 2 + c.random.IntN(5) {
		key := shardKey(i)
		c.table.rows[key] = encode(Lease{Key: key, Checkpoint: checkpoint.TrimHorizon, EntityType: entityLease})
	}
	for i := range 2 + c.random.IntN(3) {
		w := &coreWorker{c: c, id: fmt.Sprintf("w%d", i)}
		c.workers = append(c.workers, w)
		w.start()
	}
	for range 6 + c.random.IntN(10) {
		c.after(c.between(0, coreLasts), c.fault)
	}
	return c
}

func (c *core) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.random.Int64N(int64(high-low)+1))
}

func (c *core) after(d time.Duration, do func()) {
	c.order++
	heap.Push(&c.events, coreEvent{c.now + d, c.order, do})
}

func (c *core) note(format string, args ...any) {
	if !c.verbose {
		return
	}
	c.log = append(c.log, fmt.Sprintf("%9.3fs ", c.now.Seconds())+fmt.Sprintf(format, args...))
}

func (c *core) breaks(format string, args ...any) {
	if c.broken == "" {
		c.broken = fmt.Sprintf(format, args...)
		c.note("BROKEN %s", c.broken)
	}
}

// run lives through the schedule: faults, then peace, after which every lease has an owner that lives.
func (c *core) run() {
	c.until(coreLasts)
	c.faults = false
	c.until(coreLasts + 12*c.cfg.FailoverTime)
	counts := map[string]int{}
	for _, w := range c.workers {
		counts[w.id] = len(w.held)
	}
	for _, l := range c.leases() {
		w := c.worker(l.ActualOwner())
		if w == nil || w.find(l.Key) == nil {
			c.breaks("L1: %v after the last fault nobody acts under lease %s (%q)", 12*c.cfg.FailoverTime, l.Key, l.ActualOwner())
		}
	}
	least, most := 1<<30, 0
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		c.breaks("L2: the leases are shared %v", counts)
	}
}

func (c *core) until(end time.Duration) {
	for len(c.events) > 0 && c.events[0].at <= end && c.broken == "" {
		e, _ := heap.Pop(&c.events).(coreEvent)
		c.now = e.at
		e.do()
	}
	if c.broken == "" {
		c.now = end
	}
}

func (c *core) worker(id string) *coreWorker {
	for _, w := range c.workers {
		if w.id == id {
			return w
		}
	}
	return nil
}

// leases are the rows, by key.
func (c *core) leases() []Lease {
	all := make([]Lease, 0, len(c.table.rows))
	for i := range len(c.table.rows) {
		l, err := decoder{}.decode(c.table.rows[shardKey(i)])
		if err != nil {
			c.breaks("a row cannot be read: %v", err)
		}
		all = append(all, l)
	}
	return all
}

// fault is one thing that happens to one worker.
func (c *core) fault() {
	w := c.workers[c.random.IntN(len(c.workers))]
	lasts := c.between(0, 4*c.cfg.FailoverTime)
	switch c.random.IntN(4) {
	case 0:
		c.note("%s crashes for %v", w.id, lasts)
		w.life++
		w.held, w.until = nil, 0
		life := w.life
		c.after(lasts, func() {
			if w.life == life {
				w.start()
			}
		})
	case 1:
		c.note("%s stands still for %v", w.id, lasts)
		w.until = max(w.until, c.now+lasts)
	case 2:
		c.note("%s is cut off for %v", w.id, lasts)
		w.cut = max(w.cut, c.now+lasts)
	case 3:
		c.note("%s is suspended for %v", w.id, lasts)
		if end := c.now + lasts; end > w.until {
			w.lag += end - max(w.until, c.now)
			w.until = end
		}
	}
}

// fate is what becomes of a write. One that is unheard may yet be served, much later.
func (c *core) fate(in *dynamodb.UpdateItemInput) coreFate {
	if !c.faults {
		return coreServed
	}
	if c.now < c.caller.cut {
		return coreUnheard
	}
	switch c.random.IntN(20) {
	case 0, 1:
		return coreUnanswered
	case 2:
		return coreUnheard
	case 3, 4:
		c.after(c.between(0, 3*c.cfg.FailoverTime), func() { c.table.apply(in) })
		return coreUnheard
	}
	return coreServed
}

// judge looks at a write that has taken effect: S1, S2, S3.
func (c *core) judge(before, after item) {
	a, err := decoder{}.decode(before)
	b, err2 := decoder{}.decode(after)
	if err != nil || err2 != nil {
		c.breaks("a row cannot be read: %v, %v", err, err2)
		return
	}
	c.writes++
	if a.Counter == b.Counter {
		c.note("%s is asked of %s by %s", b.Key, b.CheckpointOwner, b.Owner)
		if a.Checkpoint != b.Checkpoint {
			c.breaks("S1: the checkpoint of %s changes without the counter", b.Key)
		}
		return
	}
	n := b.Tenure.Nonce
	c.note("%s %d->%d of %s, owner %q, checkpoint %s", b.Key, a.Counter, b.Counter, n, b.Owner, b.Checkpoint.SequenceNumber)
	switch {
	case b.Counter != a.Counter+1 || b.Tenure.At != b.Counter:
		c.breaks("S1: the counter of %s goes from %d to %d, its tenure says %d", b.Key, a.Counter, b.Counter, b.Tenure.At)
	case c.retired[n]:
		c.breaks("S1: tenure %s writes %s after %s has", n, b.Key, c.nonce[b.Key])
	case b.Checkpoint.Compare(a.Checkpoint) < 0:
		c.breaks("S2: the checkpoint of %s goes back from %v to %v", b.Key, a.Checkpoint, b.Checkpoint)
	case coreNumber(b.Checkpoint) > c.handled[b.Key]:
		c.breaks("S3: the checkpoint of %s is %v, and %d were handled", b.Key, b.Checkpoint, c.handled[b.Key])
	}
	if n != c.nonce[b.Key] {
		if c.nonce[b.Key] != "" {
			c.retired[c.nonce[b.Key]] = true
		}
		c.nonce[b.Key], c.epoch[b.Key] = n, b.Counter
	}
}

// corePlace is the sequence number of the n-th record, and coreNumber its inverse.
func corePlace(n int64) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.FormatInt(1_000_000+n, 10)}
}

func coreNumber(at checkpoint.ExtendedSequenceNumber) (n int64) {
	if _, err := fmt.Sscan(at.SequenceNumber, &n); err != nil {
		return 0
	}
	return n - 1_000_000
}

var coreBase = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// stamp reads the worker's clocks. While it is suspended its monotonic clock stands, and nothing of it runs.
func (w *coreWorker) stamp() stamp {
	return stamp{mono: coreBase.Add(w.c.now - w.lag), wall: coreBase.Add(w.c.now)}
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

// call makes one attempt of a write; answered runs when its outcome is known to the worker.
func (w *coreWorker) call(write func(context.Context) error, answered func(error)) {
	ctx, cancel := context.WithCancel(context.Background())
	w.c.table.cancel, w.c.caller = cancel, w
	err := write(ctx)
	cancel()
	wait := w.c.between(time.Millisecond, 20*time.Millisecond)
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		wait = w.c.cfg.FailoverTime / 6
	} else if w.c.faults && w.c.random.IntN(25) == 0 {
		wait = w.c.between(0, 2*w.c.cfg.FailoverTime)
	}
	w.after(wait, func() { answered(err) })
}

func (w *coreWorker) tenure(nonce string) Tenure {
	return Tenure{Worker: w.id, Nonce: nonce, Failover: w.c.cfg.FailoverTime}
}

// claim is a tenure that has never written.
func (w *coreWorker) claim() Tenure {
	w.nonces++
	return w.tenure(fmt.Sprintf("%s/1/%d/%d", w.id, w.life, w.nonces))
}

func (w *coreWorker) start() {
	w.c.note("%s starts", w.id)
	w.life++
	w.table = NewTable(w.c.table, w.c.cfg, TableOptions{Worker: w.id})
	w.view, w.held = NewView(w.id, w.c.cfg), nil
	for _, l := range w.c.leases() {
		if l.ActualOwner() == w.id && !l.MarkIsLive() {
			w.take(l)
		}
	}
	w.after(w.c.between(0, time.Second), w.look)
}

func (w *coreWorker) find(key string) *coreHeld {
	i := slices.IndexFunc(w.held, func(h *coreHeld) bool { return h.lease.Key == key })
	if i < 0 {
		return nil
	}
	return w.held[i]
}

// look lists the table, perhaps an old replica of it, and does what the plan says.
func (w *coreWorker) look() {
	if w.c.old == nil || w.c.random.IntN(3) > 0 {
		w.c.old = w.c.leases()
	}
	rows := slices.Clone(w.c.old)
	w.after(w.c.between(time.Millisecond, 50*time.Millisecond), func() {
		at := w.stamp().mono
		var own []Lease
		for _, h := range w.held {
			own = append(own, h.lease)
		}
		w.view = w.view.Look(rows, at).Own(own, at)
		moves := Plan(w.id, w.view, w.c.cfg, LeaseCount{})
		for _, l := range w.c.leases() {
			switch {
			case l.InTransit() && l.Owner == w.id && w.find(l.Key) == nil:
				w.take(l)
			case l.MarkIsLive() && l.CheckpointOwner == w.id && w.find(l.Key) == nil: // of an earlier life
				me := w.claim()
				w.call(func(ctx context.Context) error { _, err := w.table.CompleteHandoff(ctx, l, me); return err }, func(error) {})
			}
		}
		for _, l := range moves.Take {
			if now, err := (decoder{}).decode(w.c.table.rows[l.Key]); err == nil && now.Counter == l.Counter && w.find(l.Key) == nil {
				w.take(now)
			}
		}
		for _, l := range moves.Ask {
			w.call(func(ctx context.Context) error { _, err := w.table.StartHandoff(ctx, l, w.id); return err }, func(error) {})
		}
		next := w.c.cfg.LeaseTakerInterval
		if moves.Again > 0 {
			next = min(next, moves.Again)
		}
		w.after(max(next, 50*time.Millisecond), w.look)
	})
}

// take owns a row: free, stale, or handed over.
func (w *coreWorker) take(l Lease) {
	me, asked := w.claim(), w.stamp()
	var got Written
	w.call(func(ctx context.Context) (err error) {
		if l.InTransit() && l.Owner == w.id {
			got, err = w.table.Renew(ctx, l, me, Renewal{})
		} else {
			got, err = w.table.Take(ctx, l, me)
		}
		return err
	}, func(err error) {
		now := w.stamp()
		if err != nil || now.mono.Sub(asked.mono) >= w.c.timing.failover-w.c.timing.margin || asked.slept(now) > w.c.timing.margin {
			return // taken too late: the row becomes stale, or is ours to take again
		}
		if old := w.find(l.Key); old != nil {
			old.drop()
		}
		h := &coreHeld{
			w: w, lease: got.Lease, nonce: me.Nonce, token: got.Lease.Counter, place: coreNumber(got.Lease.Checkpoint),
			term: w.c.timing.begin(asked, w.c.between(0, w.c.cfg.RenewInterval)),
		}
		h.place = max(0, h.place)
		w.held = append(w.held, h)
		slices.SortFunc(w.held, func(a, b *coreHeld) int { return strings.Compare(a.lease.Key, b.lease.Key) })
		w.after(h.term.due.Sub(now.mono), h.renew)
		w.after(w.c.between(0, time.Second), h.act)
	})
}

func (h *coreHeld) drop() {
	h.gone = true
	h.w.held = slices.DeleteFunc(h.w.held, func(o *coreHeld) bool { return o == h })
}

// usable reports whether the worker may act; a suspend has it renew first.
func (h *coreHeld) usable() bool {
	now := h.w.stamp()
	if h.gone || h.term.over(now.mono) {
		h.drop()
		return false
	}
	return !h.w.c.timing.inDoubt(h.term, now)
}

// write makes one write of a held lease and takes in what comes of it.
func (h *coreHeld) write(send func(context.Context) (Written, error), then func()) {
	h.busy = true
	asked := h.w.stamp()
	var got Written
	h.w.call(func(ctx context.Context) (err error) { got, err = send(ctx); return err }, func(err error) {
		h.busy = false
		now := h.w.stamp()
		switch {
		case h.gone || h.term.over(now.mono) || errors.Is(err, ErrLeaseLost):
			h.drop()
			return
		case err != nil:
			h.term, _ = h.w.c.timing.failed(h.term, asked, now)
		default:
			h.lease, h.term = got.Lease, h.w.c.timing.landed(h.term, asked, now, got.Recovered)
			if h.lease.MarkIsLive() && h.lease.CheckpointOwner == h.w.id {
				h.handOver()
				return
			}
		}
		then()
	})
}

func (h *coreHeld) handOver() {
	h.busy = true
	w := h.w
	w.call(func(ctx context.Context) error {
		_, err := w.table.CompleteHandoff(ctx, h.lease, w.tenure(h.nonce))
		return err
	},
		func(error) { h.drop() })
}

func (h *coreHeld) renew() {
	w := h.w
	now := w.stamp()
	switch {
	case h.gone:
		return
	case h.term.over(now.mono):
		h.drop()
		return
	case h.busy || !w.c.timing.toRenew(h.term, now):
		w.after(max(20*time.Millisecond, h.term.due.Sub(now.mono)), h.renew)
		return
	}
	lease := h.lease
	h.write(func(ctx context.Context) (Written, error) {
		return w.table.Renew(ctx, lease, w.tenure(h.nonce), Renewal{})
	},
		func() { w.after(max(time.Millisecond, h.term.due.Sub(w.stamp().mono)), h.renew) })
}

// act handles some records and checkpoints.
func (h *coreHeld) act() {
	w := h.w
	again := func() { w.after(w.c.between(100*time.Millisecond, 900*time.Millisecond), h.act) }
	if !h.usable() || h.busy {
		if !h.gone {
			again()
		}
		return
	}
	key := h.lease.Key
	if w.c.epoch[key] > h.token {
		w.c.breaks("O4: %s acts on %s under token %d, and %s owns it since %d", w.id, key, h.token, w.c.nonce[key], w.c.epoch[key])
		return
	}
	h.place += 1 + w.c.random.Int64N(3)
	w.c.handled[key] = max(w.c.handled[key], h.place)
	lease, at := h.lease, corePlace(h.place)
	h.write(func(ctx context.Context) (Written, error) {
		return w.table.Update(ctx, lease, w.tenure(h.nonce), Update{Checkpoint: &at})
	}, again)
}
