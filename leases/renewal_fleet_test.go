package leases

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator"
)

// The same as TestRenewal_losesNothingInHoursOfErrors with everything real but time, and with peers that would take what is lost.
func TestFleet_losesNothingInHalfAnHourOfErrors(t *testing.T) {
	t.Parallel()
	leases, lasts := 40, 30*time.Minute
	if testing.Short() {
		leases, lasts = 10, 5*time.Minute
	}
	inBubble(t, leases, func(b *bubble) {
		all := []*testWorker{b.worker("a", "a").start(), b.worker("b", "b").start()}
		b.within(time.Minute, "balance", func() bool {
			return len(all[0].renewer.Held()) == leases/2 && len(all[1].renewer.Held()) == leases/2
		})
		b.pass(20 * second)
		taken := all[0].count("taken") + all[1].count("taken")
		b.server.ResetCounts()
		// A twentieth of all requests: an error of the service's, throttled, a lost reply, no answer though it was done, no answer.
		for i, e := range []emulator.Effect{
			emulator.Fail(500, "InternalServerError", "x"), emulator.Throttle(), emulator.DropReply(),
			emulator.DelayReply(time.Minute), emulator.Delay(time.Minute),
		} {
			defer b.server.Inject(emulator.Rule{Probability: 0.01, Seed: uint64(i + 1), Effect: e})()
		}
		random := rand.New(rand.NewPCG(5, 3))
		outages := 0
		for end := time.Now().Add(lasts); time.Now().Before(end); outages++ {
			b.pass(2*time.Minute + time.Duration(random.Int64N(int64(2*time.Minute))))
			effect := emulator.Refuse()
			if outages%2 == 0 {
				effect = emulator.Freeze()
			}
			remove := b.server.Inject(emulator.Rule{Effect: effect})
			b.pass(3 * b.cfg.FailoverTime / 10)
			remove()
		}
		b.pass(b.cfg.FailoverTime)
		n := b.server.Counts().Of(emulator.CountKey{Service: emulator.DynamoDB})
		lost := all[0].count("lost") + all[1].count("lost")
		t.Logf("leases %d virtual_minutes %.0f requests %d errors %d outages %d false_losses %d", leases, lasts.Minutes(), n.Requests, n.Errors, outages, lost)
		if lost > 0 {
			t.Errorf("%d leases were lost: %v", lost, append(all[0].log(), all[1].log()...))
		}
		if moves := all[0].count("taken") + all[1].count("taken") - taken; moves > 0 {
			t.Errorf("%d leases moved", moves)
		}
		for _, w := range all {
			w.stop()
		}
	})
}
