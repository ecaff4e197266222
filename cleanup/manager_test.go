package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/retrieval"
	"github.com/shardlease/shardlease/shardsync"
)

const (
	interval = time.Minute
	garbage  = 30 * time.Minute
	// onePass is when a pass that was due is over: requests to the emulator take no time.
	onePass = interval + time.Second
)

// world is a lease table and a stream inside a bubble, and what the hooks of its managers told.
type world struct {
	*testing.T
	server *emulator.Server
	cfg    config.Config
	table  *leases.Table // of a worker that is no manager, without faults

	mu      sync.Mutex
	deleted []config.LeaseEvent
	retried []config.RetryEvent
}

func bubble(t *testing.T, f func(ctx context.Context, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default("app", "orders").Complete()
		w := &world{T: t, server: emulator.New(), cfg: cfg}
		if err := w.server.CreateStream("orders", 4); err != nil {
			t.Fatal(err)
		}
		w.table = w.tableOf("worker")
		if err := w.table.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t.Context(), w)
	})
}

func (w *world) tableOf(client string) *leases.Table {
	return leases.NewTable(dynamodb.NewFromConfig(w.server.ClientConfig(client)), w.cfg.LeaseManagement, leases.TableOptions{Worker: client})
}

func (w *world) hooks() *config.Hooks {
	return &config.Hooks{
		LeaseDeleted: func(e config.LeaseEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.deleted = append(w.deleted, e)
		},
		Retried: func(e config.RetryEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.retried = append(w.retried, e)
		},
	}
}

// events returns what the hooks told since it was called last.
func (w *world) events() (deleted []config.LeaseEvent, retried []config.RetryEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	deleted, retried = w.deleted, w.retried
	w.deleted, w.retried = nil, nil
	slices.SortFunc(deleted, func(a, b config.LeaseEvent) int { return strings.Compare(a.LeaseKey, b.LeaseKey) })
	return deleted, retried
}

// rows is the whole table, which costs a scan as client "worker", as a taker's look does.
func (w *world) rows() []leases.Lease {
	l, err := w.table.List(w.Context())
	if err != nil {
		w.Error(err)
	}
	slices.SortFunc(l.Leases, func(a, b leases.Lease) int { return strings.Compare(a.Key, b.Key) })
	return l.Leases
}

func (w *world) keys() string {
	var keys []string
	for _, l := range w.rows() {
		keys = append(keys, l.Key)
	}
	return strings.Join(keys, " ")
}

func (w *world) create(rows ...leases.Lease) {
	w.Helper()
	for _, l := range rows {
		if created, err := w.table.Create(w.Context(), l); err != nil || !created {
			w.Fatalf("create %s: %t, %v", l.Key, created, err)
		}
	}
}

// manager is one of a worker whose requests go out under its name. Its options may be changed before it runs.
func (w *world) manager(name string) *LeaseCleanupManager {
	detector := retrieval.NewShardDetector(kinesis.NewFromConfig(w.server.ClientConfig(name)), retrieval.DetectorOptions{})
	return NewLeaseCleanupManager(w.tableOf(name), config.LeaseCleanupConfig{Interval: interval, GarbageInterval: garbage, KeepFinished: w.cfg.Cleanup.KeepFinished}, Options{
		Worker: name, Rows: w.rows, IsLeader: func() bool { return true }, Hooks: w.hooks(),
		Shards: func(ctx context.Context) (shards []Shard, err error) {
			listed, err := detector.ListShards(ctx, "orders", shardsync.Filter{})
			for _, s := range listed {
				shards = append(shards, Shard{ID: s.ID, ParentIDs: s.ParentIDs(), HashKeyRange: s.HashKeyRange})
			}
			return shards, err
		},
	})
}

// start runs a manager until the function that it returns is called.
func (w *world) start(m *LeaseCleanupManager) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return func() {
		w.Helper()
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Run: %v", err)
		}
	}
}

func (w *world) after(d time.Duration) {
	w.Helper()
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (w *world) requests(key emulator.CountKey) int64 { return w.server.Counts().Of(key).Requests }

// family is a finished parent p and its children l and r, which have begun.
func family() []leases.Lease {
	p, l, r := lease("p", checkpoint.ShardEnd), lease("l", at("1")), lease("r", at("2"))
	p.ChildShardIDs = []string{"l", "r"}
	l.ParentShardIDs, r.ParentShardIDs = []string{"p"}, []string{"p"}
	return []leases.Lease{p, l, r}
}

func TestRun_deletesWhatIsFinishedAndTells(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		w.create(family()...)
		defer w.start(w.manager("m"))()
		w.after(onePass)
		if got := w.keys(); got != "l r" {
			t.Errorf("rows %s, want l r", got)
		}
		deleted, retried := w.events()
		want := []config.LeaseEvent{{Worker: "m", LeaseKey: "p", Reason: "all children have begun"}}
		if d := cmp.Diff(want, deleted); d != "" || len(retried) != 0 {
			t.Errorf("LeaseDeleted (-want +got)\n%sRetried %v", d, retried)
		}
	})
}

func TestRun_asksForNothingWhenNothingIsFinished(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		w.create(family()[1:]...)
		defer w.start(w.manager("m"))()
		w.after(3 * time.Hour)
		if n := w.requests(emulator.CountKey{Client: "m"}); n != 0 {
			t.Errorf("%d requests in three idle hours, want none: %v", n, w.server.Counts())
		}
	})
}

func TestRun_followersDoNothing(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		w.create(family()...)
		m := w.manager("m")
		var leads atomic.Bool
		m.opts.IsLeader = leads.Load
		defer w.start(m)()
		w.after(time.Hour)
		if n := w.requests(emulator.CountKey{Client: "m"}); n != 0 || w.keys() != "l p r" {
			t.Errorf("%d requests by a follower, rows %s", n, w.keys())
		}
		leads.Store(true)
		w.after(2 * onePass)
		if w.keys() != "l r" {
			t.Errorf("rows %s two passes after it became leader", w.keys())
		}
	})
}

func TestRun_readsOnlyTheRowsThatMatter(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		rows := family()
		rows[0].ParentShardIDs = []string{"g"}
		for i := range 200 {
			rows = append(rows, lease(fmt.Sprintf("other%d", i), at("3")))
		}
		waiting := lease("q", checkpoint.ShardEnd)
		waiting.ChildShardIDs = []string{"c"}
		w.create(append(rows, waiting, lease("c", checkpoint.TrimHorizon))...)
		m := w.manager("m")
		m.garbage, m.cfg.KeepFinished = time.Now().Add(time.Hour), 0
		if res := mustPass(w, m); res.Deleted != 1 || res.Kept[ChildNotBegun] != 1 {
			t.Errorf("%+v", res)
		}
		for op, want := range map[string]int64{"GetItem": 4, "DeleteItem": 1, "Scan": 0} { // p, its parent, two children
			if n := w.requests(emulator.CountKey{Client: "m", Operation: op}); n != want {
				t.Errorf("%d %s, want %d", n, op, want)
			}
		}
	})
}

// The owner of a finished lease keeps renewing it. The row goes all the same, and the owner notices at its next renewal.
func TestRun_deletesUnderALivingOwner(t *testing.T) {
	bubble(t, func(ctx context.Context, w *world) {
		w.create(family()...)
		lost := make(chan *leases.Held, 1)
		renewer := leases.NewRenewer(w.table, w.cfg.LeaseManagement, leases.RenewerOptions{
			Worker: "worker", Lost: func(h *leases.Held) { lost <- h },
		})
		// A lease that an earlier process with this id held.
		p, _, err := w.table.Get(ctx, "p")
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.table.Take(ctx, p, leases.Tenure{Worker: "worker", Nonce: "host/1/00/1", Failover: w.cfg.LeaseManagement.FailoverTime})
		if err != nil {
			t.Fatal(err)
		}
		held, err := renewer.Regain(ctx)
		if err != nil || len(held) != 1 {
			t.Fatalf("regained %d, %v", len(held), err)
		}
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- renewer.Run(running) }()
		stop := w.start(w.manager("m"))
		w.after(onePass + w.cfg.LeaseManagement.FailoverTime/3)
		if w.keys() != "l r" {
			t.Errorf("rows %s", w.keys())
		}
		select {
		case h := <-lost:
			if cause := context.Cause(h.Context()); !errors.Is(cause, leases.ErrLeaseLost) || !strings.Contains(cause.Error(), "its row is gone") {
				t.Errorf("lost for %v", cause)
			}
		default:
			t.Error("the owner did not notice within a renewal interval")
		}
		stop()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("renewer: %v", err)
		}
	})
}

func TestRun_aLostReplyIsNoLoss(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		w.create(family()...)
		w.server.Inject(emulator.Rule{Client: "m", Operation: "DeleteItem", Times: 1, Effect: emulator.DropReply()})
		defer w.start(w.manager("m"))()
		w.after(onePass + time.Minute)
		deleted, retried := w.events()
		if len(deleted) != 1 || len(retried) != 0 || w.keys() != "l r" {
			t.Errorf("deleted %v, retried %v, rows %s", deleted, retried, w.keys())
		}
	})
}

func TestRun_goesOnAfterThrottling(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		w.create(family()...)
		end := w.server.Inject(emulator.Rule{Client: "m", Effect: emulator.Throttle()})
		defer w.start(w.manager("m"))()
		w.after(10 * time.Minute)
		if _, retried := w.events(); len(retried) == 0 || retried[0].Attempt != 1 || retried[len(retried)-1].Attempt != len(retried) {
			t.Errorf("retried %v", retried)
		}
		end()
		w.after(2 * onePass)
		if w.keys() != "l r" {
			t.Errorf("rows %s", w.keys())
		}
	})
}

// A role without dynamodb:DeleteItem costs one pass a handful of requests, a warning, and nothing else.
func TestRun_aMissingPermissionStopsThePassAndNotTheWorker(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		for i := range 100 {
			p, c := lease(fmt.Sprintf("p%02d", i), checkpoint.ShardEnd), lease(fmt.Sprintf("c%02d", i), at("1"))
			p.ChildShardIDs = []string{c.Key}
			w.create(p, c)
		}
		end := w.server.Inject(emulator.Rule{Client: "m", Operation: "DeleteItem", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
		stop := w.start(w.manager("m"))
		w.after(onePass)
		if n := w.requests(emulator.CountKey{Client: "m", Operation: "DeleteItem"}); n < 1 || n > rowsAtOnce {
			t.Errorf("%d DeleteItem in one pass, want at most %d", n, rowsAtOnce)
		}
		_, retried := w.events()
		if len(retried) != 1 || !strings.Contains(retried[0].Err.Error(), "allow this worker's role dynamodb:DeleteItem") {
			t.Errorf("retried %v", retried)
		}
		end()
		w.after(onePass)
		stop()
		if deleted, _ := w.events(); len(deleted) != 100 || len(w.rows()) != 100 {
			t.Errorf("%d deleted, %d rows", len(deleted), len(w.rows()))
		}
	})
}

// One row that cannot be read keeps no other.
func TestPass_oneBadRowKeepsNoOther(t *testing.T) {
	bubble(t, func(ctx context.Context, w *world) {
		w.create(family()...)
		bad := lease("bad", checkpoint.ShardEnd)
		bad.ChildShardIDs = []string{"l"}
		w.create(bad)
		seen := w.rows()
		api := dynamodb.NewFromConfig(w.server.ClientConfig("worker"))
		_, err := api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &w.cfg.LeaseManagement.TableName, Key: keyOf("bad"), UpdateExpression: aws.String("REMOVE leaseCounter"),
		})
		if err != nil {
			t.Fatal(err)
		}
		m := w.manager("m")
		m.cfg.KeepFinished = 0
		m.opts.Rows = func() []leases.Lease { return seen }
		res, err := m.Pass(ctx)
		if res.Deleted != 1 || err == nil || !strings.Contains(err.Error(), "bad") {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestRun_endsAtOnceWhileTheTableDoesNotAnswer(t *testing.T) {
	bubble(t, func(_ context.Context, w *world) {
		w.create(family()...)
		defer w.server.Inject(emulator.Rule{Client: "m", Effect: emulator.Freeze()})()
		stop := w.start(w.manager("m"))
		w.after(onePass)
		before := time.Now()
		stop()
		if d := time.Since(before); d != 0 {
			t.Errorf("Run ended after %v", d)
		}
	})
}
