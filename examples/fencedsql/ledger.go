package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

// schema: totals is the application's; fences has a row for each lease, with the largest token that has written under it and
// the place in the shard up to which its records are in totals.
const schema = `
CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS fences (
	lease_key TEXT PRIMARY KEY, token INTEGER NOT NULL, sequence TEXT NOT NULL DEFAULT 'TRIM_HORIZON', sub INTEGER NOT NULL DEFAULT 0);`

// ErrStale is what a write fails with if a later owner of the lease has been here.
var ErrStale = errors.New("the lease has a later owner")

// ledger adds amounts to the totals of accounts.
type ledger struct{ db *sql.DB }

// fenced runs do in a transaction of its own, after it has raised the fence of the lease to the grant's token. It returns
// [ErrStale] and changes nothing if the fence is higher. at is up to where the shard's records are in the totals already.
//
// The UPDATE comes first: it locks the row of the fence until the transaction is over, so no later owner comes between it and
// what do writes.
func (l ledger) fenced(ctx context.Context, g checkpoint.Grant, do func(tx *sql.Tx, at checkpoint.ExtendedSequenceNumber) error) (err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write under lease %s with token %d: %w", g.LeaseKey, g.Token, err)
			_ = tx.Rollback()
		}
	}()
	res, err := tx.ExecContext(ctx, `UPDATE fences SET token = ? WHERE lease_key = ? AND token <= ?`, g.Token, g.LeaseKey, g.Token)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return ErrStale
	}
	var at checkpoint.ExtendedSequenceNumber
	row := tx.QueryRowContext(ctx, `SELECT sequence, sub FROM fences WHERE lease_key = ?`, g.LeaseKey)
	if err := row.Scan(&at.SequenceNumber, &at.SubSequenceNumber); err != nil {
		return err
	}
	if err := do(tx, at); err != nil {
		return err
	}
	return tx.Commit()
}

// raise makes the fence of a lease, or raises it: from now on no earlier owner writes.
func (l ledger) raise(ctx context.Context, g checkpoint.Grant) error {
	if _, err := l.db.ExecContext(ctx, `INSERT INTO fences (lease_key, token) VALUES (?, ?) ON CONFLICT DO NOTHING`, g.LeaseKey, g.Token); err != nil {
		return fmt.Errorf("make the fence of lease %s: %w", g.LeaseKey, err)
	}
	return l.fenced(ctx, g, func(*sql.Tx, checkpoint.ExtendedSequenceNumber) error { return nil })
}

// apply adds the amounts of records to the totals, each once: those that are in already are left out.
func (l ledger) apply(ctx context.Context, g checkpoint.Grant, records []payment) error {
	return l.fenced(ctx, g, func(tx *sql.Tx, at checkpoint.ExtendedSequenceNumber) error {
		for _, p := range records {
			if p.at.Compare(at) <= 0 {
				continue
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO totals (account, total) VALUES (?, ?)
				ON CONFLICT (account) DO UPDATE SET total = total + excluded.total`, p.account, p.amount); err != nil {
				return err
			}
			at = p.at
		}
		_, err := tx.ExecContext(ctx, `UPDATE fences SET sequence = ?, sub = ? WHERE lease_key = ?`, at.SequenceNumber, at.SubSequenceNumber, g.LeaseKey)
		return err
	})
}

// reader is the processor of one shard.
type reader struct {
	processor.Base
	ledger ledger
}

// Initialize raises the fence before anything is read.
func (r *reader) Initialize(ctx context.Context, in processor.InitializationInput) error {
	return r.ledger.raise(ctx, in.Grant)
}

// ProcessRecords writes a batch and then checkpoints it. Whatever goes wrong, the batch comes again, and the position beside the
// fence says what of it is in the totals already: also after a commit whose answer was lost, or a crash before the checkpoint.
func (r *reader) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	payments, err := paymentsOf(in.Records)
	if err != nil {
		return err
	}
	if err := r.ledger.apply(ctx, in.Grant, payments); err != nil {
		return err
	}
	return in.Checkpointer.Checkpoint(ctx)
}
