package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// The scenarios of a child.
const (
	catchUp = "catch-up"
	idle    = "idle"
)

// mib is how figures are printed.
func mib(bytes uint64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// child is the worker of one scenario, in a process of its own.
func child(ctx context.Context, s settings, say printer) error {
	cfg := config.Default("memory-"+s.child, stream)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	cloud := aws.Config{
		Region: emulator.Region, BaseEndpoint: &s.endpoint,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "worker", SecretAccessKey: "secret", Source: "bench"}, nil
		}),
	}
	if s.child == catchUp {
		return catchingUp(ctx, cfg, cloud, s, say)
	}
	return idling(ctx, cfg, cloud, s, say)
}

// working runs a worker until f returns. It does not wait for the worker to stop: process and table end in a moment.
func working(ctx context.Context, cfg config.Config, cloud aws.Config, p processor.Factory, f func(w *shardlease.Worker, ended <-chan struct{}) error) error {
	w, err := shardlease.New(cfg, cloud, p)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	var ran error
	go func() {
		defer close(ended)
		ran = w.Run(ctx)
	}()
	err = f(w, ended)
	select {
	case <-ended:
		return errors.Join(err, ran)
	default:
		return err
	}
}

// buffered counts the bytes that were fetched and not handled, as a user sees them: data, keys and sequence numbers.
type buffered struct{ now, most atomic.Int64 }

func (b *buffered) add(n int64) {
	now := b.now.Add(n)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
}

// stuck is a user that stands still with its first batch, so that the worker reads ahead as far as it may, and is quick once
// let go.
type stuck struct {
	processor.Base
	held  *buffered
	left  int
	letGo <-chan struct{}
	ended func()
}

func (p *stuck) ProcessRecords(ctx context.Context, in processor.ProcessRecordsInput) error {
	select {
	case <-p.letGo:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i := range in.Records {
		r := &in.Records[i]
		p.held.add(-int64(len(r.Data) + len(r.PartitionKey) + len(r.SequenceNumber)))
	}
	if p.left -= len(in.Records); p.left == 0 {
		p.ended()
	}
	return in.Checkpointer.Checkpoint(ctx)
}

// filled waits until nothing more was fetched for a while.
func (b *buffered) filled(ctx context.Context, ended <-chan struct{}) error {
	const looks = 12
	for same, last := 0, int64(0); same < looks; {
		if err := pause(ctx, ended, 250*time.Millisecond); err != nil {
			return err
		}
		if now := b.now.Load(); now == 0 || now != last {
			same, last = 0, now
		} else {
			same++
		}
	}
	return nil
}

func catchingUp(ctx context.Context, cfg config.Config, cloud aws.Config, s settings, say printer) error {
	cfg.LeaseManagement.FailoverTime = patience
	cfg.Retrieval.ByteBudget = catchUpBudget
	var held buffered
	cfg.Hooks = &config.Hooks{Fetched: func(e config.FetchEvent) { held.add(int64(e.Bytes)) }}
	var all sync.WaitGroup
	all.Add(s.shards)
	letGo := make(chan struct{})
	p := func(processor.Shard) processor.RecordProcessor {
		return &stuck{held: &held, left: perCatchUp, letGo: letGo, ended: all.Done}
	}
	return working(ctx, cfg, cloud, p, func(_ *shardlease.Worker, ended <-chan struct{}) error {
		began := time.Now()
		used, err := measure(func() error {
			if err := held.filled(ctx, ended); err != nil {
				return err
			}
			say("catch-up: %d shards with %s of data, budget %s\n", s.shards, mib(uint64(s.shards)*perCatchUp*catchUpSize), mib(catchUpBudget))
			say("  fetched while all processors stand still: %s, %.2f x budget; heap %s\n", mib(uint64(held.now.Load())),
				float64(held.now.Load())/catchUpBudget, mib(heapNow()))
			close(letGo)
			return waitOr(&all, ended)
		})
		if err != nil {
			return err
		}
		most := held.most.Load()
		_, peak := resident()
		say("  all read after %.1f s; fetched and not handled at most %s, %.2f x budget; heap at most %s; resident at most %s\n",
			time.Since(began).Seconds(), mib(uint64(most)), float64(most)/catchUpBudget, mib(used.peakHeap), mib(peak))
		return nil
	})
}

// patience is a FailoverTime with which no lease is lost because this machine is busy with other things.
const patience = time.Minute

// requests is how many connections a worker keeps, each with two goroutines.
const requests = 100

func idling(ctx context.Context, cfg config.Config, cloud aws.Config, s settings, say printer) error {
	cfg.LeaseManagement.FailoverTime = patience
	if s.idleTime > 0 {
		cfg.Retrieval.MaxIdleTime = s.idleTime
	}
	var polls atomic.Int64
	cfg.Hooks = &config.Hooks{Fetched: func(config.FetchEvent) { polls.Add(1) }}
	p := func(processor.Shard) processor.RecordProcessor { return &still{} }
	began := time.Now()
	return working(ctx, cfg, cloud, p, func(w *shardlease.Worker, ended <-chan struct{}) error {
		for reads(w) < s.shards {
			if err := pause(ctx, ended, time.Second); err != nil {
				return err
			}
		}
		say("idle: %d shards, each read after %.0f s\n", s.shards, time.Since(began).Seconds())
		if err := calm(ctx, ended, s, &polls); err != nil {
			return err
		}
		return collected(func() error { return watch(ctx, w, ended, s, &polls, say) }, say)
	})
}

// calm waits until the shards are asked about as seldom as they are to be, since an idle one is asked less and less often, and until nothing
// of what the start has piled up waits for its turn.
func calm(ctx context.Context, ended <-chan struct{}, s settings, polls *atomic.Int64) error {
	const look, most = 5 * time.Second, 4 * time.Minute
	for began := time.Now(); s.idleTime > 0 && time.Since(began) < most; {
		before := polls.Load()
		if err := pause(ctx, ended, look); err != nil {
			return err
		}
		asked := float64(s.shards) * look.Seconds() / s.idleTime.Seconds()
		if float64(polls.Load()-before) < 1.5*asked && runtime.NumGoroutine() < 2*requests+s.shards/20 {
			break
		}
	}
	return nil
}

// collected lets f look at the process as its environment has set up the garbage collector, and then as other settings do, to show what they
// save and cost.
func collected(f func() error, say printer) error {
	const limit = 110 << 20
	for _, c := range []struct {
		name    string
		percent int // 0: as it is
		limit   int64
	}{{name: "as the environment says, by default GOGC=100"}, {name: "GOGC=50", percent: 50}, {name: "GOMEMLIMIT=" + strings.ReplaceAll(mib(limit), " ", ""), percent: 100, limit: limit}} {
		say(" %s:\n", c.name)
		if c.percent > 0 {
			defer debug.SetGCPercent(debug.SetGCPercent(c.percent))
			debug.FreeOSMemory() // what the settings before needed
		}
		if c.limit > 0 {
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(c.limit))
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// still is a processor to which nothing comes.
type still struct{ processor.Base }

func (*still) ProcessRecords(context.Context, processor.ProcessRecordsInput) error { return nil }

// reads is how many shards a worker reads.
func reads(w *shardlease.Worker) (n int) {
	for _, a := range w.Assignments() {
		if a.State == processor.Processing.String() {
			n++
		}
	}
	return n
}

// pause waits, unless the worker ends.
func pause(ctx context.Context, ended <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ended:
		return errors.New("the worker has ended before its work")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watch prints six times what the process has, and at the end the largest.
func watch(ctx context.Context, w *shardlease.Worker, ended <-chan struct{}, s settings, polls *atomic.Int64, say printer) error {
	const looks = 6
	var most uint64
	for range looks {
		before, cpu := polls.Load(), cpuTime()
		if err := pause(ctx, ended, s.settle/looks); err != nil {
			return err
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now, _ := resident()
		most = max(most, now)
		say("  %d shards: resident %s, heap %s, of which live %s, stacks %s, %d goroutines; %.0f polls/s, %.2f CPUs\n", reads(w),
			mib(now), mib(m.HeapInuse), mib(live()), mib(m.StackInuse), runtime.NumGoroutine(),
			float64(polls.Load()-before)/(s.settle/looks).Seconds(), (cpuTime()-cpu).Seconds()/(s.settle/looks).Seconds())
	}
	_, peak := resident()
	say("  resident while idle, at most %s; since the start, at most %s; limit 150 MB: %v\n", mib(most), mib(peak), verdict(most <= 150e6))
	if s.memprofile == "" {
		return nil
	}
	runtime.GC()
	return save(s.memprofile, func(to io.Writer) error { return pprof.Lookup("heap").WriteTo(to, 0) })
}

func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "missed"
}

// live is what the last garbage collection has found alive.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// save writes a file.
func save(name string, write func(io.Writer) error) (err error) {
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return write(to)
}
