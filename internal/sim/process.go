package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// The names that every fleet uses.
const (
	stream      = "orders"
	application = "orders-audit"
)

// idleTime is config.RetrievalConfig.IdleTime of every process.
const idleTime = 900 * time.Millisecond

// place is one of a fleet's places, as a stateful set has them: at most one process runs there, save for one that was
// replaced while it stood still. Faults of the network belong to it and not to a process.
type place struct {
	n      int
	client string
	busy   chan struct{} // held by whoever starts or ends its process
	tap    tapRules
	user   userTrouble

	mu      sync.Mutex
	started int
	now     *process // nil while there is none
}

func (p *place) current() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *place) set(now *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = now
}

// process is one life of a worker.
type process struct {
	w           *world
	place       *place
	name        string // place and life, as p1.2
	id          string // its worker id
	m           *machine
	worker      *shardlease.Worker
	strategy    string          // by which it shares
	dead        atomic.Bool     // crashed: nothing of it is seen any more
	outOfBounds atomic.Bool     // its clock was too slow for anything but fencing to help
	asked       atomic.Bool     // to stop
	twin        atomic.Bool     // another process has its worker id
	ctx         context.Context //nolint:containedctx // of Run, and of user code that outlives a call
	stop        context.CancelFunc
	done        chan struct{} // closed when Run has returned
	err         error         // of Run
	background  sync.WaitGroup

	tenures map[string]*tenure // by lease, the newest; guarded by the judge's mutex
}

// start starts the next process of a place. The caller holds its busy.
func (w *world) start(p *place, id string) {
	p.mu.Lock()
	p.started++
	name := fmt.Sprintf("p%d.%d", p.n, p.started)
	p.mu.Unlock()
	if id == "" {
		id = name
	}
	x := &process{w: w, place: p, name: name, id: id, strategy: w.strategy(), m: newMachine(), done: make(chan struct{}), tenures: map[string]*tenure{}}
	cfg := w.config(x)
	cloud := w.cloud(p.client, func(next http.RoundTripper) http.RoundTripper { return &tap{process: x, next: next} })
	source := shardlease.WithKinesis(kinesisClient{w.kinesisOf(cloud), &w.hands})
	if w.s.Table {
		source = w.source(cloud)
	}
	worker, err := shardlease.New(cfg, cloud, x.processor, shardlease.WithDynamoDB(dynamoDB{w.dynamodb(cloud), &w.hands}), source)
	if err != nil {
		w.j.violate("L0", name, "", "it cannot be made: %v", err)
		close(x.done)
		return
	}
	x.worker = worker
	x.ctx, x.stop = context.WithCancel(loop.WithClock(w.root, x.m.clock()))
	w.j.note(name, "", "STARTS as %s", id)
	go func() {
		defer close(x.done)
		x.err = worker.Run(x.ctx)
		if x.dead.Load() {
			return
		}
		w.j.note(name, "", "ENDS: %v", x.err)
		if !x.asked.Load() {
			w.unasked(x)
		}
	}()
	w.mu.Lock()
	w.all = append(w.all, x)
	w.mu.Unlock()
	p.set(x)
}

// unasked judges the end of a process that nobody asked to end.
func (w *world) unasked(x *process) {
	if _, dup := errors.AsType[*leases.DuplicateWorkerError](x.err); dup && x.twin.Load() {
		return
	}
	if w.deleted.Load() {
		return
	}
	w.j.violate("L0", x.name, "", "Run ended by itself: %v", x.err)
}

// config is what a process is configured with.
func (w *world) config(x *process) config.Config {
	s := w.s
	c := config.Default(application, stream)
	if s.Streams > 1 {
		c.StreamName, c.Streams = "", s.streams()
	}
	if s.Table {
		c.StreamName, c.StreamARN = "", w.arn
	}
	c.WorkerID, c.InitialPosition = x.id, w.from
	c.Logger = slog.New(&logTap{x})
	m := &c.LeaseManagement
	m.FailoverTime, m.GracefulHandoffTimeout, m.AssignmentStrategy = s.failover(x.place.n), s.Handoff, x.strategy
	m.ShardSyncInterval, m.ShardSyncConfidence = 10*time.Second, 2
	c.Lifecycle.ShutdownGrace, c.Lifecycle.TaskBackoff, c.Lifecycle.MaxTaskBackoff = s.Grace, 200*time.Millisecond, 2*time.Second
	c.Cleanup.Interval, c.Cleanup.GarbageInterval, c.Cleanup.KeepFinished = 5*time.Second, 20*time.Second, keepFinished
	c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = idleTime, 2*idleTime
	c.Retrieval.RequestTimeout = 5 * time.Second
	c.Retrieval.Mode, c.Retrieval.FanOut.SilenceTimeout = s.mode(x.place.n, time.Since(w.j.began)), silenceTimeout
	c.Hooks = w.hooks(x)
	return c
}

// hooks write into the history what a reader of a failure wants to know and the table does not show.
func (w *world) hooks(x *process) *config.Hooks {
	lease := func(what string) func(config.LeaseEvent) {
		return func(e config.LeaseEvent) {
			if !x.dead.Load() {
				w.j.add(x.name, e.LeaseKey, func() string {
					s := fmt.Sprintf("%s, token %d, counter %d", what, e.Token, e.Counter)
					if e.Err != nil {
						s += ": " + e.Err.Error()
					}
					return s
				})
			}
		}
	}
	return &config.Hooks{
		LeaseTaken: lease("holds the lease"), LeaseLost: lease("has lost the lease"), LeaseReleased: lease("has given the lease up"),
		CheckpointRefused: func(e config.CheckpointEvent) {
			w.j.add(x.name, e.LeaseKey, func() string { return fmt.Sprintf("checkpoint %s refused: %v", shortNumber(e.SequenceNumber), e.Err) })
		},
		CheckpointWritten: func(e config.CheckpointEvent) {
			w.j.add(x.name, e.LeaseKey, func() string {
				return fmt.Sprintf("checkpoint %s written, pending %t", shortNumber(e.SequenceNumber), e.Pending)
			})
		},
		Trimmed: func(e config.TrimmedEvent) { w.j.heard(x, e) },
		Subscribed: func(e config.SubscribeEvent) {
			w.j.add(x.name, e.LeaseKey, func() string {
				return fmt.Sprintf("subscribes at %s %s, error %v", e.Position, shortNumber(e.SequenceNumber), e.Err)
			})
		},
	}
}

// logTap writes warnings and errors into the history.
type logTap struct{ x *process }

func (l *logTap) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *logTap) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logTap) WithGroup(string) slog.Handler                    { return l }

func (l *logTap) Handle(_ context.Context, r slog.Record) error {
	if l.x.dead.Load() {
		return nil
	}
	r = r.Clone()
	lease := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "lease" {
			lease = a.Value.String()
		}
		return lease == ""
	})
	l.x.w.j.add(l.x.name, lease, func() string {
		s := "logs " + r.Level.String() + " " + r.Message
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "worker" && a.Key != "stack" && a.Key != "lease" {
				s += " " + a.String()
			}
			return true
		})
		return s[:min(len(s), longestLog)]
	})
	return nil
}

// longestLog cuts what a log line adds to the history: the SDK's errors are long.
const longestLog = 200

// crash ends a process at once: it stands still for ever, as far as anybody can see. What is left of it ends with the
// schedule, see bury.
func (x *process) crash() {
	x.dead.Store(true)
	x.m.doom()
}

// bury lets what is left of a crashed process come to an end, unseen: no request of it is sent, no record counts.
func (x *process) bury() {
	x.stop()
	x.m.revive()
}
