package leases

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

func TestTaker_aLoneWorkerReadsASmallStreamAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		w := b.worker("a", "a").start()
		<-w.taker.FirstRound()
		if got := len(w.renewer.Held()); got != 1 || b.since() > second {
			t.Errorf("after the first round, at %v, it holds %d leases, want 1 within 1s", b.since(), got)
		}
		if at := b.within(2*second, "all four", func() bool { return len(w.renewer.Held()) == 4 }); at > 2*second {
			t.Errorf("held all leases after %v, want at most 2s", at)
		}
	})
}

func TestTaker_fleetsBalanceQuicklyAndThenStandStill(t *testing.T) {
	t.Parallel()
	for _, leases := range []int{4, 16} {
		inBubble(t, leases, func(b *bubble) {
			workers := []*testWorker{b.worker("a", "a").start(), b.worker("b", "b").start(), b.worker("c", "c").start()}
			balanced := func() bool {
				n := b.owners()
				low, high := min(n["a"], n["b"], n["c"]), max(n["a"], n["b"], n["c"])
				return n[""] == 0 && high-low <= 1
			}
			b.within(5*second, "balance", balanced)
			b.pass(20 * second)
			moves := 0
			for _, w := range workers {
				moves -= w.count("taken")
			}
			b.pass(time.Minute)
			for _, w := range workers {
				moves += w.count("taken")
			}
			if moves != 0 || !balanced() {
				t.Errorf("%d leases: a balanced fleet moved %d leases, and has %v", leases, moves, b.owners())
			}
			// A fourth one joins.
			d := b.worker("d", "d").start()
			b.within(30*second, "the fourth has its share", func() bool { return len(d.renewer.Held()) == leases/4 })
			if n := d.count("taken"); n != leases/4 {
				t.Errorf("%d leases: the fourth took %d leases to get %d", leases, n, leases/4)
			}
			held := 0
			for _, w := range append(workers, d) {
				if n := w.count("lost"); n != 0 {
					t.Errorf("%d leases: %s lost %d leases, want them to be handed over", leases, w.id, n)
				}
				held += len(w.renewer.Held())
			}
			if held != leases {
				t.Errorf("%d leases: %d are held", leases, held)
			}
		})
	}
}

func TestTaker_takesADeadWorkersLeasesInTime(t *testing.T) {
	t.Parallel()
	inBubble(t, 20, func(b *bubble) {
		a, c := b.worker("a", "a").start(), b.worker("c", "c").start()
		b.within(10*second, "balance", func() bool { return len(a.renewer.Held()) == 10 && len(c.renewer.Held()) == 10 })
		b.pass(30 * second)
		old := map[string]*Held{}
		for _, h := range a.renewer.Held() {
			old[h.key] = h
		}
		a.stop()
		died := b.since()
		b.within(2*b.cfg.FailoverTime, "takeover", func() bool { return len(c.renewer.Held()) == 20 })
		for key, h := range old {
			took := c.taken[key] - died
			if low, high := b.cfg.FailoverTime-b.cfg.RenewInterval, b.cfg.FailoverTime+b.cfg.LeaseTakerInterval; took < low || took > high+100*time.Millisecond {
				t.Errorf("%s was taken %v after the death, want between %v and %v", key, took, low, high)
			}
			now, _ := c.renewer.Get(key)
			if now.Grant().Token <= h.Grant().Token {
				t.Errorf("%s: token %d after %d", key, now.Grant().Token, h.Grant().Token)
			}
		}
	})
}

func TestTaker_takesNothingFromAWorkerSeenOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		a := b.worker("a", "a").renewing()
		a.take(0)
		a.stop() // nobody renews it
		b.pass(time.Minute)
		at := b.since()
		c := b.worker("c", "c").start()
		b.within(2*b.cfg.FailoverTime, "takeover", func() bool { return len(c.renewer.Held()) == 1 })
		if took := b.since() - at; took < b.cfg.FailoverTime {
			t.Errorf("a lease that stood still before was taken %v after it was first seen, want after %v", took, b.cfg.FailoverTime)
		}
	})
}

func TestTaker_goesOnWhenListingFails(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(b *bubble) {
		a, c := b.worker("a", "a").start(), b.worker("c", "c").start()
		b.within(10*second, "balance", func() bool { return len(a.renewer.Held()) == 1 && len(c.renewer.Held()) == 1 })
		b.pass(20 * second)
		// No listing gets through any more; single rows do.
		remove := b.server.Inject(emulator.Rule{Operation: "Scan", Client: "c", Effect: emulator.Throttle()})
		b.pass(2 * second)
		a.stop()
		// The last look may have been before the last renewal: then a second failover time starts with the first single reading.
		b.within(3*b.cfg.FailoverTime, "takeover without listings", func() bool { return len(c.renewer.Held()) == 2 })
		remove()
	})
}

func TestTaker_takesAgainWhatALateAnswerGaveIt(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a")
		// The take lands; its answers are lost for longer than a take waits.
		remove := b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Effect: emulator.DropReply()})
		block := b.server.Inject(emulator.Rule{Client: "a", Operation: "GetItem", Effect: emulator.Freeze()})
		w.start()
		b.pass(b.cfg.FailoverTime/2 + 100*time.Millisecond)
		if l := b.row(0); l.Owner != "a" || len(w.renewer.Held()) != 0 {
			t.Fatalf("owner %q, held %d: want a row that is ours and that we do not hold", l.Owner, len(w.renewer.Held()))
		}
		remove()
		block()
		at := b.since()
		b.within(b.cfg.LeaseTakerInterval, "held after all", func() bool { return len(w.renewer.Held()) == 1 })
		h := w.renewer.Held()[0]
		if row := b.row(0); !row.TenureSpeaks() || row.Tenure.Nonce != h.nonce {
			t.Errorf("at %v the row has tenure %+v, held is %s", b.since()-at, row.Tenure, h.nonce)
		}
		b.pass(time.Minute)
		if w.count("lost") != 0 {
			t.Errorf("events %v", w.log())
		}
	})
}

func TestTaker_freesWhatItMayHaveGotWhenItStops(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a")
		remove := b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Effect: emulator.DropReply()})
		w.start()
		b.pass(b.cfg.FailoverTime/2 + 100*time.Millisecond)
		remove()
		w.stop()
		if l := b.row(0); l.Owner != "" {
			t.Errorf("after the stop the owner is %q, want nobody", l.Owner)
		}
	})
}

func TestTaker_endsWithAFaultOfItsFirstLook(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		b.server.Inject(emulator.Rule{Client: "a", Operation: "Scan", Effect: emulator.Fail(400, "AccessDeniedException", "no")})
		w := b.worker("a", "a")
		if err := w.taker.Run(b.ctx); err == nil {
			t.Error("Run returned nil without the permission to list")
		}
	})
}

func TestTaker_looksWhenWoken(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		w := b.worker("a", "a").start()
		b.pass(30 * second)
		if created, err := b.table.Create(b.ctx, Lease{Key: shardKey(1), Checkpoint: checkpoint.TrimHorizon}); !created || err != nil {
			t.Fatal(created, err)
		}
		at := b.since()
		w.taker.Wake()
		b.within(second, "taken", func() bool { return len(w.renewer.Held()) == 2 })
		if took := b.since() - at; took > 200*time.Millisecond {
			t.Errorf("took it %v after Wake", took)
		}
	})
}

// A lease that no worker may take makes no noise of its own: nobody fails at anything.
func TestTaker_saysThatLeasesStayUnreadBecauseEverybodyIsAtItsLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(b *bubble) {
		b.cfg.MaxLeasesForWorker = 2
		var mu sync.Mutex
		var looked config.LookEvent
		var log lockedText
		w := b.worker("a", "a")
		w.taker.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		w.taker.hooks = &config.Hooks{WorkerLooked: func(e config.LookEvent) {
			mu.Lock()
			defer mu.Unlock()
			looked = e
		}}
		last := func() config.LookEvent {
			mu.Lock()
			defer mu.Unlock()
			return looked
		}
		w.start()
		const warning = "leases stay unread because every worker in sight is at its limit"
		b.pass(b.cfg.FailoverTime / 2)
		if e := last(); e.Held != 2 || e.Unassigned != 3 {
			t.Errorf("holds %d, and %d stay; want 2 and 3", e.Held, e.Unassigned)
		}
		if strings.Contains(log.String(), warning) {
			t.Error("it warns before others had the time to start")
		}
		b.pass(10 * time.Minute)
		if n := strings.Count(log.String(), warning); n != 1 || !strings.Contains(log.String(), "leases=3 workers=1 limit=2") {
			t.Errorf("%d warnings in ten minutes, want one with its figures:\n%s", n, log.String())
		}
		b.worker("c", "c").start()
		b.worker("d", "d").start()
		b.within(b.cfg.FailoverTime, "all are read", func() bool { return b.owners()[""] == 0 })
		b.pass(b.cfg.FailoverTime)
		if e := last(); e.Unassigned != 0 {
			t.Errorf("%d stay when all are held", e.Unassigned)
		}
	})
}

// lockedText is what was written, for reading while others write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
