// Command fencedobject keeps totals in an object of an S3-like store, which a worker that was replaced cannot write any more. It
// plays that with two workers over the emulator and a small store of its own; reader.go and object.go are what a program of your
// own would have.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/shardlease/shardlease/examples/internal/bucket"
	"github.com/shardlease/shardlease/examples/internal/zombie"
	"github.com/shardlease/shardlease/processor"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	server := httptest.NewServer(&bucket.Bucket{})
	defer server.Close()
	s := store{server.Client(), server.URL}
	out, err := zombie.Run(ctx, func(string) processor.Factory {
		return func(processor.Shard) processor.RecordProcessor { return &reader{store: s} }
	})
	if err != nil {
		return err
	}
	fmt.Printf("worker-a had token %d and was stopped with a batch in hand; worker-b took over with token %d\n", out.ZombieToken, out.SuccessorToken)
	fmt.Printf("worker-a's late write: %v\n", out.Late)
	now, _, err := s.get(ctx, "shardId-000000000000")
	if err != nil {
		return err
	}
	for account, want := range out.Totals {
		if now.Totals[account] != want {
			return fmt.Errorf("%s is at %d, want %d: a payment was written twice, or not at all", account, now.Totals[account], want)
		}
	}
	if !errors.Is(out.Late, ErrStale) {
		return errors.New("the late write was not refused by its token")
	}
	fmt.Printf("stale writes accepted: 0; totals right: %d of %d accounts\n", len(now.Totals), len(out.Totals))
	return nil
}
