package main

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/examples/internal/zombie"
	"github.com/shardlease/shardlease/processor"
)

func opened(t *testing.T) *sql.DB {
	t.Helper()
	db, err := open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func played(t *testing.T, db *sql.DB, of func() processor.RecordProcessor) (out zombie.Outcome, right bool) {
	t.Helper()
	out, err := zombie.Run(t.Context(), func(string) processor.Factory {
		return func(processor.Shard) processor.RecordProcessor { return of() }
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := totals(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("tokens %d and %d, late write: %v\ntotals %v, produced %v", out.ZombieToken, out.SuccessorToken, out.Late, got, out.Totals)
	if out.SuccessorToken <= out.ZombieToken {
		t.Errorf("the successor's token is %d, that of the worker before it %d; want more", out.SuccessorToken, out.ZombieToken)
	}
	return out, maps.Equal(got, out.Totals)
}

func TestZombie_itsLateWriteIsRefusedByTheToken(t *testing.T) {
	t.Parallel()
	db := opened(t)
	out, right := played(t, db, func() processor.RecordProcessor { return &reader{ledger: ledger{db}} })
	if !errors.Is(out.Late, ErrStale) || !right {
		t.Errorf("late write %v, totals right %t; want it refused and every amount counted once", out.Late, right)
	}
	t.Log("stale writes accepted: 0")
}

// Without the comparison of tokens the story ends badly, so it is the token that makes the difference.
func TestZombie_itsLateWriteLandsWithoutTheToken(t *testing.T) {
	t.Parallel()
	db := opened(t)
	out, right := played(t, db, func() processor.RecordProcessor { return &unfenced{db: db} })
	if out.Late != nil || right {
		t.Errorf("late write %v, totals right %t; want it to land and the totals to be wrong", out.Late, right)
	}
}

// unfenced writes whatever it is given.
type unfenced struct {
	processor.Base
	db *sql.DB
}

func (u *unfenced) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	payments, err := paymentsOf(in.Records)
	if err != nil {
		return err
	}
	for _, p := range payments {
		if _, err := u.db.ExecContext(ctx, `INSERT INTO totals (account, total) VALUES (?, ?)
			ON CONFLICT (account) DO UPDATE SET total = total + excluded.total`, p.account, p.amount); err != nil {
			return err
		}
	}
	if ctx.Done() == nil { // the late write: there is nothing to checkpoint with
		return nil
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// A batch that comes again, after a lost answer or a crash, changes nothing; one of an earlier owner neither.
func TestLedger_countsEachPaymentOnceAndNoneOfAnEarlierOwner(t *testing.T) {
	t.Parallel()
	l := ledger{opened(t)}
	at := func(n string) checkpoint.ExtendedSequenceNumber {
		return checkpoint.ExtendedSequenceNumber{SequenceNumber: n}
	}
	older, newer := checkpoint.Grant{LeaseKey: "shardId-000000000000", Token: 2}, checkpoint.Grant{LeaseKey: "shardId-000000000000", Token: 5}
	first := []payment{{at("9"), "a", 10}, {at("10"), "b", 1}}
	for _, step := range []struct {
		name string
		do   func() error
		want error
	}{
		{"the older owner begins", func() error { return l.raise(t.Context(), older) }, nil},
		{"and writes", func() error { return l.apply(t.Context(), older, first) }, nil},
		{"and again", func() error { return l.apply(t.Context(), older, first) }, nil},
		{"the newer owner begins", func() error { return l.raise(t.Context(), newer) }, nil},
		{"the older one writes", func() error { return l.apply(t.Context(), older, []payment{{at("11"), "a", 100}}) }, ErrStale},
		{"and begins again", func() error { return l.raise(t.Context(), older) }, ErrStale},
		{"the newer one gets the first batch again and one more", func() error {
			return l.apply(t.Context(), newer, append(first, payment{at("11"), "a", 5}))
		}, nil},
	} {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	got, err := totals(t.Context(), l.db)
	if want := map[string]int64{"a": 15, "b": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("totals %v, error %v; want %v", got, err, want)
	}
}
