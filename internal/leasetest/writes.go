package leasetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// write is one write of leases.Table.
type write struct {
	name   string
	action string
	// before brings the row where the write applies, and returns it as this worker knows it.
	before func(b *bundle) leases.Lease
	do     func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error)
	// effect says what the row lacks after the write, "" if nothing.
	effect func(b *bundle, seen leases.Lease) string
	holds  bool // afterwards the row is this worker's, and the write returned it
	held   bool // so it was before
	gives  bool // it gives the lease up
}

// named is the write of that name.
func named(all []write, name string) write {
	return all[slices.IndexFunc(all, func(w write) bool { return w.name == name })]
}

var at12 = checkpoint.ExtendedSequenceNumber{SequenceNumber: "12", SubSequenceNumber: 3}

var end = checkpoint.ShardEnd

func counterMoving() []write {
	owned := func(b *bundle, seen leases.Lease) string {
		l := b.row()
		if l.Owner != b.me.Worker || !l.TenureSpeaks() || l.Tenure.Nonce != b.me.Nonce || l.HandoffTo != "" || l.CheckpointOwner != "" || l.Counter <= seen.Counter {
			return fmt.Sprintf("an owner with a tenure that speaks: %+v (tenure %+v)", l, l.Tenure)
		}
		return ""
	}
	take := func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error) {
		return b.table.Take(ctx, seen, b.me)
	}
	renew := func(ctx context.Context, b *bundle, held leases.Lease) (leases.Written, error) {
		rate := 2.5
		return b.table.Renew(ctx, held, b.me, leases.Renewal{ThroughputKBps: &rate})
	}
	pending := checkpoint.Pending{At: at12, State: []byte{1, 2}}
	return []write{
		{
			name: "take unowned", action: "UpdateItem", holds: true, before: (*bundle).create, do: take,
			effect: func(b *bundle, seen leases.Lease) string {
				if n := b.row().OwnerSwitches; n != 0 {
					return fmt.Sprintf("0 owner switches, not %d", n)
				}
				return owned(b, seen)
			},
		},
		{
			name: "take of another's", action: "UpdateItem", holds: true, do: take,
			before: func(b *bundle) leases.Lease {
				b.create()
				b.java("w9")
				return b.row()
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if n := b.row().OwnerSwitches; n != 1 {
					return fmt.Sprintf("1 owner switch, not %d", n)
				}
				return owned(b, seen)
			},
		},
		{
			name: "take of a marked one", action: "UpdateItem", holds: true, do: take,
			before: func(b *bundle) leases.Lease {
				b.create()
				b.takenBy(b.other())
				b.asked("w7")
				return b.row()
			},
			effect: owned,
		},
		{
			name: "take with a pin", action: "UpdateItem", holds: true, before: (*bundle).create,
			do: func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error) {
				seen.StartAtMillis = 1700000000123
				return b.table.Take(ctx, seen, b.me)
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if at := b.row().StartAtMillis; at != 1700000000123 {
					return fmt.Sprintf("startAtMillis 1700000000123, not %d", at)
				}
				return owned(b, seen)
			},
		},
		{name: "renew", action: "UpdateItem", holds: true, held: true, before: (*bundle).held, do: renew, effect: func(b *bundle, seen leases.Lease) string {
			if l := b.row(); !l.HasThroughput || l.ThroughputKBps != 2.5 {
				return fmt.Sprintf("throughput 2.5, not %v", l.ThroughputKBps)
			}
			return owned(b, seen)
		}},
		{name: "first renewal after a hand-off", action: "UpdateItem", holds: true, held: true, before: (*bundle).completed, do: renew, effect: owned},
		{
			name: "checkpoint", action: "UpdateItem", holds: true, held: true,
			before: func(b *bundle) leases.Lease {
				w, err := b.calm.Update(b.Context(), b.held(), b.me, leases.Update{Pending: &pending})
				if err != nil {
					b.Fatal(err)
				}
				return w.Lease
			},
			do: func(ctx context.Context, b *bundle, held leases.Lease) (leases.Written, error) {
				return b.table.Update(ctx, held, b.me, leases.Update{Checkpoint: &at12})
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if l := b.row(); l.Checkpoint != at12 || l.Pending != nil || l.OwnerSwitches != 0 {
					return fmt.Sprintf("checkpoint %v alone, not %v with %+v", at12, l.Checkpoint, l.Pending)
				}
				return owned(b, seen)
			},
		},
		{
			name: "prepared checkpoint", action: "UpdateItem", holds: true, held: true, before: (*bundle).held,
			do: func(ctx context.Context, b *bundle, held leases.Lease) (leases.Written, error) {
				return b.table.Update(ctx, held, b.me, leases.Update{Pending: &pending})
			},
			effect: func(b *bundle, seen leases.Lease) string {
				l := b.row()
				if l.Checkpoint != checkpoint.TrimHorizon || l.Pending == nil || l.Pending.At != at12 || !slices.Equal(l.Pending.State, pending.State) {
					return fmt.Sprintf("pending %+v, not %+v", pending, l.Pending)
				}
				return owned(b, seen)
			},
		},
		{
			name: "release", action: "UpdateItem", held: true, gives: true, before: (*bundle).held,
			do: func(ctx context.Context, b *bundle, held leases.Lease) (leases.Written, error) {
				return leases.Written{}, b.table.Evict(ctx, held, b.me)
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if l := b.row(); l.Owner != "" || l.Counter != seen.Counter+1 || !l.TenureSpeaks() {
					return fmt.Sprintf("no owner, at one counter more: %+v", l)
				}
				return ""
			},
		},
	}
}

func others() []write {
	l := func(b *bundle) leases.Lease {
		return leases.Lease{Key: b.key, Checkpoint: checkpoint.Latest, StartAtMillis: 1700000000123}
	}
	return []write{
		{
			name: "create", action: "PutItem", before: l,
			do: func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error) {
				created, err := b.table.Create(ctx, seen)
				if err == nil && !created {
					err = fmt.Errorf("row %s was not created, it says", b.key)
				}
				return leases.Written{}, err
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if l := b.row(); l.Counter != 0 || l.Checkpoint != checkpoint.Latest || l.EntityType != "LEASE" || l.StartAtMillis != seen.StartAtMillis {
					return fmt.Sprintf("a new row: %+v", l)
				}
				return ""
			},
		},
		{
			name: "delete", action: "DeleteItem", before: (*bundle).create,
			do: func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error) {
				return leases.Written{}, b.table.Delete(ctx, seen)
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if _, found, err := b.calm.Get(b.Context(), b.key); found || err != nil {
					return fmt.Sprintf("no row (found %t, error %v)", found, err)
				}
				return ""
			},
		},
		{
			name: "metadata", action: "UpdateItem", before: (*bundle).held,
			do: func(ctx context.Context, b *bundle, seen leases.Lease) (leases.Written, error) {
				return leases.Written{}, b.table.UpdateMetadata(ctx, b.key, leases.Metadata{ChildShardIDs: []string{"c1", "c2"}, StartAtMillis: 7})
			},
			effect: func(b *bundle, seen leases.Lease) string {
				if l := b.row(); l.Counter != seen.Counter || !slices.Equal(l.ChildShardIDs, []string{"c1", "c2"}) || l.StartAtMillis != 7 || l.Owner != "w1" {
					return fmt.Sprintf("children c1 and c2 at the same counter: %+v", l)
				}
				return ""
			},
		},
	}
}
