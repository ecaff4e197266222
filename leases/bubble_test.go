package leases

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// bubble is a table in an emulator, inside a synctest bubble, and the workers on it. Everything is real but time.
type bubble struct {
	t      *testing.T
	ctx    context.Context
	server *emulator.Server
	cfg    config.LeaseManagementConfig
	table  *Table // a client of its own, for looking
	began  time.Time
}

// inBubble runs f in a bubble with a table of so many unowned leases, at the default settings.
func inBubble(t *testing.T, leases int, f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default("app", "orders").Complete().LeaseManagement
		b := &bubble{t: t, ctx: t.Context(), server: emulator.New(), cfg: cfg, began: time.Now()}
		b.table = b.client("observer")
		if err := b.table.Ensure(b.ctx); err != nil {
			t.Fatal(err)
		}
		for i := range leases {
			if created, err := b.table.Create(b.ctx, Lease{Key: shardKey(i), Checkpoint: checkpoint.TrimHorizon}); !created || err != nil {
				t.Fatalf("create: %v, %v", created, err)
			}
		}
		b.began = time.Now()
		b.server.ResetCounts()
		f(b)
	})
}

func shardKey(i int) string { return fmt.Sprintf("shardId-%012d", i) }

func (b *bubble) client(name string) *Table {
	return NewTable(dynamodb.NewFromConfig(b.server.ClientConfig(name)), b.cfg, TableOptions{Worker: name})
}

func (b *bubble) since() time.Duration { return time.Since(b.began) }

// row reads a row.
func (b *bubble) row(i int) Lease {
	b.t.Helper()
	l, found, err := b.table.Get(b.ctx, shardKey(i))
	if err != nil || !found {
		b.t.Fatalf("row %d: found %v, %v", i, found, err)
	}
	return l
}

// owners counts the rows by owner.
func (b *bubble) owners() map[string]int {
	b.t.Helper()
	all, err := b.table.List(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	n := map[string]int{}
	for _, l := range all.Leases {
		n[l.Owner]++
	}
	return n
}

// testWorker is a renewer and a taker, with a client of its own.
type testWorker struct {
	*bubble
	id      string
	ctx     context.Context
	table   *Table
	renewer *LeaseRenewer
	taker   *LeaseTaker
	stop    func() // ends both, as a crash does: nothing is released
	// stopTaking ends the taker alone, as a stop begins.
	stopTaking func()
	failed     chan error
	stays      bool // does not hand over what it is asked for, as long as its processor does not return

	mu     sync.Mutex
	events []string // "taken shard", "lost shard", "released shard"
	held   []*Held  // every tenure, in order
	taken  map[string]time.Duration
}

// under makes the worker live by the clock of ctx.
func (w *testWorker) under(ctx context.Context) *testWorker { w.ctx = ctx; return w }

// worker makes a worker that does nothing yet. Two of one id are two processes with clients of their own.
func (b *bubble) worker(client, id string) *testWorker {
	w := &testWorker{bubble: b, id: id, ctx: b.ctx, failed: make(chan error, 2), taken: map[string]time.Duration{}, stop: func() {}}
	note := func(what string) func(config.LeaseEvent) {
		return func(e config.LeaseEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, what+" "+e.LeaseKey)
			if what == "taken" {
				w.taken[e.LeaseKey] = b.since()
			}
		}
	}
	r := RenewerOptions{Worker: id, Host: client + "-host/1", Hooks: &config.Hooks{
		LeaseTaken: note("taken"), LeaseLost: note("lost"), LeaseReleased: note("released"),
	}}
	r.Asked = func(h *Held) {
		note("asked")(config.LeaseEvent{LeaseKey: h.key})
		if w.stays {
			return
		}
		go func() { // ends with the bubble's time
			_ = h.clock.Sleep(b.ctx, noticeTime(b.cfg.FailoverTime))
			_ = w.renewer.Release(b.ctx, h)
		}()
	}
	w.table = NewTable(dynamodb.NewFromConfig(b.server.ClientConfig(client)), b.cfg, TableOptions{Worker: id})
	w.renewer = NewRenewer(w.table, b.cfg, r)
	w.taker = NewTaker(w.table, w.renewer, b.cfg, TakerOptions{Worker: id, Acquired: func(h *Held) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held = append(w.held, h)
	}})
	return w
}

// renewing starts the renewer only.
func (w *testWorker) renewing() *testWorker { w.run(false); return w }

// start starts a whole worker.
func (w *testWorker) start() *testWorker { w.run(true); return w }

func (w *testWorker) run(taking bool) {
	renew, cancel := context.WithCancel(w.ctx)
	take, stopTaking := context.WithCancel(renew)
	var group sync.WaitGroup
	group.Go(func() { w.failed <- w.renewer.Run(renew) })
	taken := make(chan struct{})
	group.Go(func() {
		defer close(taken)
		if taking {
			if err := w.taker.Run(take); isDuplicate(err) {
				w.failed <- err
			} else if err != nil {
				w.t.Error(err)
			}
		}
	})
	w.stopTaking = func() {
		stopTaking()
		<-taken
	}
	w.stop = sync.OnceFunc(func() {
		w.stopTaking()
		cancel()
		group.Wait()
	})
	w.t.Cleanup(w.stop)
}

// take takes one lease as a taker would and returns the held one.
func (w *testWorker) take(i int) *Held {
	w.t.Helper()
	c := w.renewer.claim(w.row(i))
	h, err := w.renewer.take(w.ctx, w.table, &c)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *testWorker) log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func (w *testWorker) count(what string) int {
	n := 0
	for _, e := range w.log() {
		if len(e) > len(what) && e[:len(what)] == what {
			n++
		}
	}
	return n
}

// within waits until ok holds, looking each 50 ms of virtual time, and returns when that was.
func (b *bubble) within(limit time.Duration, what string, ok func() bool) time.Duration {
	b.t.Helper()
	for end := time.Now().Add(limit); ; {
		synctest.Wait()
		if ok() {
			return b.since()
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: not within %v", what, limit)
		}
		b.pass(50 * time.Millisecond)
	}
}

// pass lets virtual time go by.
func (b *bubble) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// writes is how many rows a client tried to write.
func (b *bubble) writes(client string) int64 {
	return b.server.Counts().Of(emulator.CountKey{Client: client, Operation: "UpdateItem"}).Requests
}

// mark writes a live hand-off mark on a row, as a peer that asks for it does: no counter moves.
func (b *bubble) mark(i int, asker, owner string) {
	b.t.Helper()
	api := dynamodb.NewFromConfig(b.server.ClientConfig("marker"))
	_, err := api.UpdateItem(b.ctx, &dynamodb.UpdateItemInput{
		TableName: &b.cfg.TableName, Key: item{attrKey: str(shardKey(i))},
		UpdateExpression:          aws.String("SET leaseOwner = :new, handoffTo = :new, checkpointOwner = :old"),
		ExpressionAttributeValues: item{":new": str(asker), ":old": str(owner)},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
