package leases

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// loaded is a table of some capacity and one worker that asks, by rank, so many requests a second. Nothing waits for an answer.
type loaded struct {
	sent, refused, answered [5]int
}

func load(p *tempo, start time.Time, lasts time.Duration, capacity float64, demand [5]float64) (l loaded) {
	const step = 5 * time.Millisecond
	var owed [5]float64
	room := 0.0
	for now := start; now.Before(start.Add(lasts)); now = now.Add(step) {
		room = min(capacity, room+capacity*step.Seconds())
		for k := rankKeep; k <= rankTidy; k++ {
			owed[k] = min(owed[k]+demand[k]*step.Seconds(), max(1, demand[k])) // who asks gives up after a second
			for owed[k] >= 1 && p.wait(now, k) == 0 {
				p.spend(now, k)
				owed[k]--
				l.sent[k]++
				if room >= 1 {
					room--
					l.answered[k]++
					p.judge(now, tableAnswered)
				} else {
					l.refused[k]++
					p.judge(now, tableThrottled)
				}
			}
			if owed[k] >= 1 && k == rankKeep {
				break // lower ranks do not overtake
			}
		}
	}
	return l
}

func sum(of [5]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

func TestTempo(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for name, c := range map[string]struct {
		capacity float64
		demand   [5]float64 // other, keep, move, look, tidy
		check    func(l loaded) bool
	}{
		"no limit while nothing is refused": {1000, [5]float64{0, 100, 100, 100, 100}, func(l loaded) bool {
			return sum(l.refused) == 0 && sum(l.sent) > 390*60
		}},
		"what keeps leases uses all there is": {100, [5]float64{rankKeep: 200}, func(l loaded) bool {
			return l.answered[rankKeep] > 95*60 && l.refused[rankKeep] < 40*60
		}},
		"and goes first": {100, [5]float64{0, 90, 50, 50, 50}, func(l loaded) bool {
			return l.answered[rankKeep] > 80*60 && l.answered[rankKeep] > 10*l.answered[rankLook]
		}},
		"the others stay below what the table takes": {100, [5]float64{rankMove: 100, rankLook: 100, rankTidy: 100}, func(l loaded) bool {
			return sum(l.refused) < sum(l.answered)/8 && sum(l.answered) > 60*60
		}},
		"a table that takes nothing is asked little": {0.01, [5]float64{0, 100, 100, 100, 100}, func(l loaded) bool {
			return sum(l.sent) < 8*60
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p tempo
			if l := load(&p, start, time.Minute, c.capacity, c.demand); !c.check(l) {
				t.Errorf("%+v", l)
			}
		})
	}
}

func TestTempo_forgetsTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p tempo
		start := time.Now()
		capacity := rapid.Float64Range(1, 500).Draw(t, "capacity")
		load(&p, start, 20*time.Second, capacity, [5]float64{0, 2 * capacity, capacity, capacity, capacity})
		if !p.limits(rankTidy) {
			t.Fatalf("no limit at a load of five times what the table takes")
		}
		end := start.Add(20*time.Second + tempoCalm)
		for k := rankKeep; k <= rankTidy; k++ {
			if w := p.wait(end, k); w > 0 {
				t.Errorf("rank %d waits %v after %v of calm", k, w, tempoCalm)
			}
		}
	})
}

func TestTempo_singleRefusalsAreNoReasonToWait(t *testing.T) {
	t.Parallel()
	var p tempo
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	for range 100_000 { // 20 a second, 2 % refused at random
		now = now.Add(50 * time.Millisecond)
		if w := p.wait(now, rankTidy); w > 0 && p.answered > 20 {
			t.Fatalf("waits %v with %.1f refused of %.1f", w, p.refused, p.answered)
		}
		p.spend(now, rankTidy)
		v := tableAnswered
		if random.Float64() < 0.01 {
			v = tableThrottled
		}
		p.judge(now, v)
	}
}

func TestTempo_slownessHoldsUpNoRenewal(t *testing.T) {
	t.Parallel()
	var p tempo
	now := time.Now()
	for range 20 {
		now = now.Add(10 * time.Millisecond)
		p.spend(now, rankKeep)
		p.judge(now, tableSlow)
	}
	if w := p.wait(now, rankKeep); w > 0 {
		t.Errorf("a renewal waits %v", w)
	}
	p.spend(now, rankLook)
	if w := p.wait(now, rankLook); w == 0 {
		t.Error("looks go on as if nothing were slow")
	}
}

// throttle brings a budget to its limit.
func (b *budget) throttle(now time.Time) {
	for range 10 {
		b.tempo.spend(now, rankKeep)
		b.tempo.judge(now, tableThrottled)
	}
}

func TestBudget_turns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{urgent: time.Second}
		b.throttle(time.Now())
		var mu sync.Mutex
		var order []string
		var group sync.WaitGroup
		ask := func(name string, ctx context.Context, k rank) {
			group.Go(func() {
				if err := b.admit(ctx, k); err == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name)
				}
			})
			synctest.Wait()
		}
		by := func(d time.Duration) context.Context {
			return context.WithValue(t.Context(), needKey{}, need{by: time.Now().Add(d)})
		}
		gone, cancel := context.WithCancel(t.Context())
		ask("given up", gone, rankKeep)
		ask("audit", InBackground(t.Context()), rankLook)
		ask("look", t.Context(), rankLook)
		ask("take", t.Context(), rankMove)
		ask("release", t.Context(), rankKeep)
		ask("fresh", by(9*time.Second), rankKeep)
		ask("older", by(6*time.Second), rankKeep)
		ask("ending", by(time.Second/2), rankKeep)
		cancel()
		group.Wait()
		want := []string{"ending", "older", "fresh", "release", "take", "look", "audit"}
		if !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
		if len(b.queue) != 0 {
			t.Errorf("%d are left in the queue", len(b.queue))
		}
	})
}

func TestBudget_nobodyWaitsForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{urgent: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// Checkpoints without end, and a table that takes ten a second.
		var group sync.WaitGroup
		room := &capacity{rate: 10, at: time.Now()}
		for range 40 {
			group.Go(func() {
				for b.admit(context.WithValue(ctx, needKey{}, need{by: time.Now().Add(9 * time.Second)}), rankKeep) == nil {
					v := tableThrottled
					if room.take() {
						v = tableAnswered
					}
					b.judge(time.Now(), rankKeep, v)
					timer := time.NewTimer(10 * time.Millisecond)
					<-timer.C
				}
			})
		}
		looks := 0
		group.Go(func() {
			for b.admit(ctx, rankLook) == nil {
				looks++
			}
		})
		group.Wait()
		if looks < 10 {
			t.Errorf("%d looks in a minute", looks)
		}
	})
}

func TestBudget_endsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{urgent: time.Second}
		b.throttle(time.Now())
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		for range 3 { // the first one may find a token
			if err := b.admit(ctx, rankTidy); err != nil && !errors.Is(err, why) {
				t.Errorf("error is %v", err)
			}
		}
		if len(b.queue) != 0 {
			t.Errorf("%d are left in the queue", len(b.queue))
		}
	})
}
