package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/loop"
)

// What the demo's fleet has in common.
const (
	FailoverTime = 2 * time.Second
	stream       = "demo"
	app          = "demo-app"
)

const (
	startLimit = 20 * time.Second // for every shard to have its first owner
	drainLimit = 15 * time.Second // without any record arriving, though some are missing
)

// Options say how large the demo is.
type Options struct {
	Workers, Shards, Records int
	Reshards                 int // random ones; 0: one split and one merge
	Seed                     uint64
	Bin                      string                                          // the program to run as a worker
	Args                     func(id, endpoint, stream, app string) []string // how to run it so
}

// ErrVerdict is the error of a demo in which a record was lost or out of order.
var ErrVerdict = errors.New("the audit found faults")

// Run shows the demo on out. It fails if the audit finds a record lost, out of order or invented, if a worker ended by
// itself, if the demo could not be staged, or when ctx ends. No process outlives it.
func Run(ctx context.Context, out io.Writer, o Options) error {
	clock := loop.ClockOf(ctx)
	server := emulator.New()
	if err := server.CreateStream(stream, o.Shards); err != nil {
		return err
	}
	endpoint, closeServer, err := server.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer closeServer()
	_, _ = fmt.Fprintf(out, "%d workers share %d shards and %d records; FailoverTime is %v (a lease is respected for so long after its last renewal; the default is 10s), Cleanup.Interval %v (between looks for rows of finished shards that may go; the default is 60s); --seed %d\n\n",
		o.Workers, o.Shards, o.Records, FailoverTime, CleanupInterval, o.Seed)

	b := newBoard(clock, o.Records)
	f := newFleet(o.Bin, b, func(id string) []string { return o.Args(id, endpoint, stream, app) })
	drawing, stopDrawing := context.WithCancel(context.WithoutCancel(ctx))
	drawn := make(chan struct{})
	go func() {
		defer close(drawn)
		(&screen{out: out, terminal: isTerminal(out), board: b}).run(drawing)
	}()
	table, staged := stage(ctx, server, b, f, o)
	f.close(ctx)
	stopDrawing()
	<-drawn
	if staged != nil {
		if faults := b.faults(); len(faults) > 0 && ctx.Err() == nil {
			return fmt.Errorf("%w; %s", staged, strings.Join(faults, "; "))
		}
		return staged
	}
	v := audit.Judge(b.evidence())
	v.Print(out)
	table.print(out)
	v.PrintMoves(out)
	_, _ = fmt.Fprintf(out, "  took %.1f s, --seed %d\n", b.now().Seconds(), o.Seed)
	if !v.OK() || len(table.missing()) > 0 {
		f.printLogs(out)
		return fmt.Errorf("%w: %d lost, %d out of order, %d never produced, %d open shards without a row", ErrVerdict, v.Lost, v.OutOfOrder, v.Unknown, len(table.missing()))
	}
	if faults := b.faults(); len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

// stage starts the fleet, lets everything happen, and returns when all records have arrived, or no more do. The inventory is
// of that moment, with the fleet still running, some seconds later if there are rows that may go.
func stage(ctx context.Context, server *emulator.Server, b *board, f *fleet, o Options) (inventory, error) {
	for i := range o.Workers {
		if err := f.start(name(i)); err != nil {
			return inventory{}, err
		}
	}
	if err := assembled(ctx, b, o); err != nil {
		return inventory{}, err
	}
	b.say("the producer starts")
	api := kinesis.NewFromConfig(server.AWSConfig())
	// Three sources of chance, so that what one of them is asked does not change what the others answer.
	chance := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, n)) }
	low, high := bounds(o.Shards)
	r := &resharder{stream: stream, api: api, board: b, random: chance(3), low: low, high: high}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		// The rest is put when there is nothing more to happen: enough for every shard that may be open then.
		l := load{stream: stream, records: o.Records - high, keys: keysFor(o.Records), random: chance(1)}
		return l.run(groupCtx, api, b)
	})
	group.Go(func() error { return r.run(groupCtx, o.Reshards) })
	group.Go(func() error {
		s := scenario{board: b, fleet: f, joiner: name(o.Workers), random: chance(2)}
		return s.run(groupCtx)
	})
	if err := group.Wait(); err != nil {
		return inventory{}, err
	}
	if err := r.putLast(ctx, high); err != nil {
		return inventory{}, err
	}
	drain(ctx, b)
	if ctx.Err() != nil {
		return inventory{}, context.Cause(ctx)
	}
	return settle(ctx, dynamodb.NewFromConfig(server.AWSConfig()), r)
}

func name(i int) string { return fmt.Sprintf("worker-%d", i+1) }

// assembled waits until every shard has an owner.
func assembled(ctx context.Context, b *board, o Options) error {
	bounded, cancel := loop.Timeout(ctx, startLimit, "give each shard an owner")
	defer cancel()
	bounded, fail := context.WithCancelCause(bounded)
	defer fail(nil)
	return b.wait(bounded, func() bool {
		owned := 0
		for _, s := range b.shards {
			if s.owner != "" {
				owned++
			}
		}
		for _, w := range b.workers {
			if w.err != "" {
				fail(errors.New("the fleet did not start"))
			}
		}
		return owned == o.Shards
	})
}

// drain waits until every record has arrived, or ctx has ended. When none comes for long it gives up: the audit will say
// what is missing.
func drain(ctx context.Context, b *board) {
	for {
		arrived := 0
		b.look(func() { arrived = b.arrived })
		bounded, cancel := loop.Timeout(ctx, drainLimit, "deliver another record")
		silent := b.wait(bounded, func() bool { return b.arrived == b.stored || b.arrived > arrived }) != nil
		cancel()
		var missing int
		b.look(func() { missing = b.stored - b.arrived })
		switch {
		case ctx.Err() != nil:
			return
		case missing == 0:
			b.say("all records have arrived")
			return
		case silent:
			b.say("no record has arrived for %v, and %d are missing", drainLimit, missing)
			return
		}
	}
}
