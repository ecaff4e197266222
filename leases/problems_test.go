package leases

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

// A listing takes longer than two renewals do, so that every counter it shows is old when it is there. Who joins gets its share all
// the same, and hardly any of its writes fails a condition.
func TestTaker_getsItsShareThoughListingsAreOlderThanARenewal(t *testing.T) {
	t.Parallel()
	leases := 300
	if testing.Short() {
		leases = 60
	}
	inBubble(t, leases, func(b *bubble) {
		a := b.worker("a", "a").start()
		b.within(2*time.Minute, "a has all", func() bool { return len(a.renewer.Held()) == leases })
		b.server.Inject(emulator.Rule{Client: "c", Operation: "Scan", Effect: emulator.DelayReply(2 * b.cfg.RenewInterval)})
		b.server.ResetCounts()
		c := b.worker("c", "c").start()
		at := b.since()
		b.within(5*time.Minute, "c has half", func() bool { return len(c.renewer.Held()) == leases/2 })
		writes := b.server.Counts().Of(emulator.CountKey{Client: "c", Operation: "UpdateItem"})
		t.Logf("half of %d leases after %v, %d writes, %d failed conditions", leases, b.since()-at, writes.Requests, writes.FailedConditions)
		if writes.FailedConditions*5 > writes.Requests {
			t.Errorf("%d of %d writes failed their condition, want less than a fifth", writes.FailedConditions, writes.Requests)
		}
		if n := a.count("lost"); n != 0 {
			t.Errorf("the live owner lost %d leases, want it to hand them over", n)
		}
	})
}

// Each listing takes one and a half failover times. The leases of a worker that dies meanwhile do not wait for any.
func TestTaker_takesADeadWorkersLeasesWhileAListingIsUnderWay(t *testing.T) {
	t.Parallel()
	inBubble(t, 4, func(b *bubble) {
		a, c := b.worker("a", "a").start(), b.worker("c", "c").start()
		b.within(10*second, "balance", func() bool { return len(a.renewer.Held()) == 2 && len(c.renewer.Held()) == 2 })
		b.pass(20 * second)
		b.server.Inject(emulator.Rule{Client: "c", Operation: "Scan", Effect: emulator.DelayReply(b.cfg.FailoverTime * 3 / 2)})
		b.pass(time.Minute)
		a.stop()
		// The last look may have been before the last renewal: then a second failover time starts with the first single reading.
		limit := 2*b.cfg.FailoverTime + b.cfg.LeaseTakerInterval
		b.within(limit, "takeover", func() bool { return len(c.renewer.Held()) == 4 })
	})
}

// What becomes known of a shard is written while its owner checkpoints: each of the two writes changes its own attributes only, and
// the checkpoint never goes back.
func TestUpdateMetadata_besideCheckpointsChangesItsOwnAttributesOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		h := b.worker("a", "a").renewing().take(0)
		attributes := func(i emulator.Item) (m map[string]any) {
			text, err := json.Marshal(i)
			if err == nil {
				err = json.Unmarshal(text, &m)
			}
			if err != nil {
				t.Error(err)
			}
			return m
		}
		last, changes := checkpoint.TrimHorizon, 0
		defer b.server.ObserveItems(func(c emulator.ItemChange) {
			now := checkpoint.ExtendedSequenceNumber{SequenceNumber: c.New.Text("checkpoint")}
			if now.Compare(last) < 0 {
				t.Errorf("the checkpoint went from %v back to %v", last, now)
			}
			last = now
			if c.Client == "a" {
				return
			}
			changes++
			was, is := attributes(c.Old), attributes(c.New)
			delete(was, attrChildren)
			delete(is, attrChildren)
			if diff := cmp.Diff(was, is); diff != "" {
				t.Error(diff)
			}
		})()
		var group sync.WaitGroup
		group.Go(func() {
			for i := range 500 {
				if err := h.WriteCheckpoint(b.ctx, at(i+1)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for i := range 100 {
				if err := b.table.UpdateMetadata(b.ctx, shardKey(0), Metadata{ChildShardIDs: []string{shardKey(i + 1)}}); err != nil {
					t.Error(err)
				}
			}
		})
		group.Wait()
		if row := b.row(0); row.Checkpoint != at(500) || changes != 100 {
			t.Errorf("checkpoint %v after %d changes of children, want %v after 100", row.Checkpoint, changes, at(500))
		}
	})
}
