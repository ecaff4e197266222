package leases

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

func place(n int) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.Itoa(n)}
}

// endings remembers what became of deferred checkpoints.
type endings struct {
	mu      sync.Mutex
	durable []checkpoint.ExtendedSequenceNumber
	dropped []error
}

func (e *endings) ended(at checkpoint.ExtendedSequenceNumber, _ time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.dropped = append(e.dropped, err)
		return
	}
	e.durable = append(e.durable, at)
}

func (e *endings) deferTo(t *testing.T, h *Held, n int) {
	t.Helper()
	if ok, err := h.DeferCheckpoint(place(n), e.ended); !ok || err != nil {
		t.Fatalf("defer %d: %v, %v", n, ok, err)
	}
}

func TestDefer_costsNoWriteBesideTheRenewals(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		b.cfg.CheckpointInterval = b.cfg.RenewInterval
		w := b.worker("a", "a").renewing()
		h, e := w.take(0), &endings{}
		b.pass(10 * time.Second)
		before, from := b.writes("a"), b.since()
		for n := range 600 {
			e.deferTo(b.t, h, n+1)
			b.pass(100 * time.Millisecond)
		}
		passed := b.since() - from
		if got, want := b.writes("a")-before, int64(passed/b.cfg.RenewInterval)+1; got > want {
			t.Errorf("%d writes in %v, want the %d renewals", got, passed, want)
		}
		if at := b.row(0).Checkpoint; at.Compare(place(600-34)) < 0 {
			t.Errorf("the row is at %v, want one of the last RenewInterval", at)
		}
		b.pass(b.cfg.RenewInterval)
		if at := b.row(0).Checkpoint; at != place(600) || h.Lease().Checkpoint != at || e.durable[len(e.durable)-1] != at {
			t.Errorf("the row is at %v, want 600; told last %v", at, e.durable[len(e.durable)-1])
		}
	})
}

// Another consumer of the same tenure starts at the durable checkpoint, which is behind the one that waits.
func TestDefer_keepsTheLargerOfTwo(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		b.cfg.CheckpointInterval = b.cfg.RenewInterval
		w := b.worker("a", "a").renewing()
		h, e := w.take(0), &endings{}
		e.deferTo(b.t, h, 20)
		e.deferTo(b.t, h, 10)
		b.pass(2 * b.cfg.RenewInterval)
		if at := b.row(0).Checkpoint; at != place(20) {
			t.Errorf("the row is at %v, want 20", at)
		}
	})
}

func TestDefer_isOffByDefault(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		h := b.worker("a", "a").renewing().take(0)
		if ok, err := h.DeferCheckpoint(place(1), nil); ok || err != nil {
			t.Errorf("%v, %v, want false", ok, err)
		}
	})
}

func TestDefer_dropsWhatWaitsWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		b.cfg.CheckpointInterval = b.cfg.RenewInterval
		a, e := b.worker("a", "a").renewing(), &endings{}
		h := a.take(0)
		defrost := b.server.Inject(emulator.Rule{Client: "a", Effect: emulator.Freeze()})
		e.deferTo(t, h, 7)
		b.pass(b.cfg.FailoverTime)
		if len(e.dropped) != 1 || !errors.Is(e.dropped[0], ErrLeaseLost) {
			t.Errorf("told %v, want one loss", e.dropped)
		}
		if _, err := h.DeferCheckpoint(place(8), e.ended); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("after the loss: %v", err)
		}
		b.worker("b", "b").take(0)
		defrost()
		b.pass(b.cfg.FailoverTime)
		if at := b.row(0).Checkpoint; at != checkpoint.TrimHorizon {
			t.Errorf("the row is at %v, want what it was", at)
		}
	})
}

func TestDefer_isDurableBeforeTheLeaseIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"released": false, "handed over": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(b *bubble) {
				b.cfg.CheckpointInterval = time.Minute
				w, e := b.worker("a", "a").renewing(), &endings{}
				w.stays = true
				h := w.take(0)
				b.pass(b.cfg.RenewInterval)
				if asked {
					b.mark(0, "b", "a")
				}
				e.deferTo(t, h, 7)
				if err := w.renewer.Release(b.ctx, h); err != nil {
					t.Fatal(err)
				}
				row := b.row(0)
				if row.Checkpoint != place(7) || row.ActualOwner() == "a" || len(e.durable) != 1 || len(e.dropped) != 0 {
					t.Errorf("the row is at %v, owned by %q; told %v, %v", row.Checkpoint, row.ActualOwner(), e.durable, e.dropped)
				}
			})
		})
	}
}

// Checkpoints at random moments over a table that answers late: each is durable, or superseded by one that is, within
// CheckpointInterval (or RenewInterval, if that is shorter) and the time of two writes; where writes fail, of a few more.
func TestDefer_keepsItsTimeOverATableThatAnswersLate(t *testing.T) {
	t.Parallel()
	const slow = 200 * time.Millisecond
	for name, c := range map[string]struct {
		interval time.Duration
		faults   bool
		writes   float64 // a minute, at most
	}{
		"50ms":              {interval: 50 * time.Millisecond, writes: 300},
		"1s":                {interval: time.Second, writes: 61},
		"10s":               {interval: 10 * time.Second, writes: 19},
		"50ms, with faults": {interval: 50 * time.Millisecond, faults: true},
		"10s, with faults":  {interval: 10 * time.Second, faults: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, func(b *bubble) {
				b.cfg.CheckpointInterval = c.interval
				b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Effect: emulator.Delay(slow)})
				w := b.worker("a", "a").renewing()
				h, e := w.take(0), &endings{}
				late := min(c.interval, b.cfg.RenewInterval) + 2*slow + 400*time.Millisecond // it looks that seldom
				if c.faults {
					late += 3 * time.Second
					for seed, effect := range []emulator.Effect{emulator.DropReply(), emulator.Refuse()} {
						b.server.Inject(emulator.Rule{Client: "a", Operation: "UpdateItem", Probability: 0.05, Seed: uint64(seed), Effect: effect})
					}
				}
				before, from := b.writes("a"), b.since()
				random := rand.New(rand.NewPCG(1, 2))
				accepted := map[int]time.Duration{}
				for n, oldest := 1, 1; n <= 400; n++ {
					e.deferTo(t, h, n)
					accepted[n] = b.since()
					b.pass(time.Duration(1+random.IntN(400)) * time.Millisecond)
					row, _ := strconv.Atoi(b.row(0).Checkpoint.SequenceNumber)
					oldest = max(oldest, row+1)
					if waits := b.since() - accepted[oldest]; oldest <= n && waits > late {
						t.Fatalf("%d was accepted %v ago, and the row is at %d", oldest, waits, row)
					}
				}
				writes := float64(b.writes("a")-before) / (b.since() - from).Minutes()
				t.Logf("%.1f writes a minute", writes)
				if c.writes > 0 && writes > c.writes {
					t.Errorf("%.1f writes a minute, want at most %v", writes, c.writes)
				}
			})
		})
	}
}
