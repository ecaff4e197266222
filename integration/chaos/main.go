//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // of a worker whose parent is gone: the write fails, and it stops gracefully
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errWrong says that a promise was broken; what and how was printed.
var errWrong = errors.New("the fleet has not kept its promises")

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "worker" {
		return runWorker(ctx, args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxics write to the logger of the whole process, whatever logger their proxy was given
	r := &run{}
	var length float64
	var artifacts string
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&r.seed, "seed", 0, "what the schedule follows from; 0: a random one")
	flags.Float64Var(&length, "minutes", 1, "how long faults happen")
	flags.IntVar(&r.places, "workers", 4, "places of the fleet")
	flags.IntVar(&r.shards, "shards", 6, "shards at the start")
	flags.DurationVar(&r.failover, "failover", 6*time.Second, "failover time: what a busy machine delays must be far below it")
	flags.BoolVar(&r.clocks, "clocks", false, "only wall clocks are wrong, and no lease may move")
	flags.StringVar(&r.packages, "packages", "integration/servers", "folder with the servers' npm packages")
	flags.StringVar(&artifacts, "artifacts", "_artifacts", "folder where a failure's logs are kept")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.seed == 0 {
		r.seed = uint64(rand.Uint32())
	}
	if r.places < 3 {
		return fmt.Errorf("-workers is %d, want 3 at least: one has to stay while others go", r.places)
	}
	if r.clocks && !canShift {
		return shiftWall(0)
	}
	r.lasts = time.Duration(length * float64(time.Minute))
	var err error
	if r.packages, err = filepath.Abs(r.packages); err != nil {
		return err
	}
	return r.inFolder(ctx, artifacts)
}

// inFolder keeps everything that processes write in a folder, which is kept if something was wrong.
func (r *run) inFolder(ctx context.Context, artifacts string) error {
	name := fmt.Sprintf("chaos-%d", r.seed)
	if r.clocks {
		name = fmt.Sprintf("clocks-%d", r.seed)
	}
	work, err := filepath.Abs(filepath.Join(artifacts, name))
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o750)); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	r.work = work
	fmt.Printf("%d workers share %d shards for %v over dynalite and kinesis-local; FailoverTime %v; seed %d\n", r.places, r.shards, r.lasts, r.failover, r.seed)
	err = r.execute(ctx, os.Stdout)
	if err == nil && !r.report(os.Stdout) {
		err = errWrong
	}
	if err == nil {
		return os.RemoveAll(work)
	}
	replay := fmt.Sprintf("make chaos SEED=%d MINUTES=%s", r.seed, minutes(r.lasts))
	if r.clocks {
		replay = "make clocks"
	}
	return fmt.Errorf("%w\nreplay: %s\nlogs of the workers and servers, and timeline.txt, are in %s", err, replay, work)
}
