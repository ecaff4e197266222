// Command fencedsql keeps totals in an SQL database, of which a worker that was replaced cannot change one any more. It plays
// that with two workers over the emulator; ledger.go is what a program of your own would have.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver; any that has transactions and row locks does

	"github.com/shardlease/shardlease/examples/internal/zombie"
	"github.com/shardlease/shardlease/processor"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "fencedsql")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := open(ctx, filepath.Join(dir, "ledger.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	out, err := zombie.Run(ctx, func(string) processor.Factory {
		return func(processor.Shard) processor.RecordProcessor { return &reader{ledger: ledger{db}} }
	})
	if err != nil {
		return err
	}
	fmt.Printf("worker-a had token %d and was stopped with a batch in hand; worker-b took over with token %d\n", out.ZombieToken, out.SuccessorToken)
	fmt.Printf("worker-a's late write: %v\n", out.Late)
	got, err := totals(ctx, db)
	if err != nil {
		return err
	}
	for account, want := range out.Totals {
		if got[account] != want {
			return fmt.Errorf("%s is at %d, want %d: a payment was written twice, or not at all", account, got[account], want)
		}
	}
	if !errors.Is(out.Late, ErrStale) {
		return errors.New("the late write was not refused by its token")
	}
	fmt.Printf("stale writes accepted: 0; totals right: %d of %d accounts\n", len(got), len(out.Totals))
	return nil
}

// open opens a database and makes its tables.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("make the tables: %w", err), db.Close())
	}
	return db, nil
}

// totals reads all totals.
func totals(ctx context.Context, db *sql.DB) (map[string]int64, error) {
	rows, err := db.QueryContext(ctx, `SELECT account, total FROM totals`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	all := map[string]int64{}
	for rows.Next() {
		var account string
		var total int64
		if err := rows.Scan(&account, &total); err != nil {
			return nil, err
		}
		all[account] = total
	}
	return all, rows.Err()
}
