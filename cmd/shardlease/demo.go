package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/demo"
)

type demoCmd struct {
	Workers int     `default:"3" placeholder:"N" help:"Processes at the start, 2 to 20; one more joins. Default: ${default}."`
	Shards  int     `default:"4" placeholder:"N" help:"Shards at the start, 1 to 100. Default: ${default}."`
	Records int     `default:"100000" placeholder:"N" help:"Records to produce, 1000 to 10000000. Default: ${default}."`
	Reshard int     `default:"0" placeholder:"N" help:"Random reshards during the run (split, merge, UpdateShardCount of up to 16 shards), 0 to 50; 0 is one split and one merge. Default: ${default}."`
	Seed    *uint64 `placeholder:"N" help:"Makes the same choices again: keys, times, which shards split and merge, whom it hits. Default: a new one."`
}

// Help is the text below the flags.
func (demoCmd) Help() string {
	return "Exits with 1 if a record was lost or came out of order, or an open shard has no lease at the end. Everything is on this machine: the emulator in this process, the workers beside it."
}

// Validate checks the bounds.
func (c demoCmd) Validate() error {
	return errors.Join(
		bound("--workers", c.Workers, 2, 20),
		bound("--shards", c.Shards, 1, 100),
		bound("--records", c.Records, 1000, 10_000_000),
		bound("--reshard", c.Reshard, 0, 50),
	)
}

func bound(flag string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %d, want %d to %d", flag, value, low, high)
	}
	return nil
}

// Run shows the demo.
func (c demoCmd) Run(ctx context.Context, s streams) error {
	bin, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start workers from: %w", err)
	}
	seed := rand.Uint64N(1_000_000)
	if c.Seed != nil {
		seed = *c.Seed
	}
	return demo.Run(ctx, s.out, demo.Options{
		Workers: c.Workers, Shards: c.Shards, Records: c.Records, Reshards: c.Reshard, Seed: seed, Bin: bin,
		Args: func(id, endpoint, stream, app string) []string {
			return []string{"demo-worker", "--id", id, "--endpoint", endpoint, "--stream", stream, "--app", app, "--failover-time", demo.FailoverTime.String()}
		},
	})
}

// demoWorkerCmd is what the demo starts.
type demoWorkerCmd struct {
	ID           string        `required:""`
	Endpoint     string        `required:""`
	Stream       string        `required:""`
	App          string        `required:""`
	FailoverTime time.Duration `required:""`
}

// Run works until the demo says otherwise.
func (c demoWorkerCmd) Run(ctx context.Context, s streams) error {
	return demo.RunWorker(ctx, s.in, s.out, s.err, demo.WorkerOptions{
		ID: c.ID, Endpoint: c.Endpoint, Stream: c.Stream, App: c.App, FailoverTime: c.FailoverTime,
	})
}
