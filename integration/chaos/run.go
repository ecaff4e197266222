//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// options say how large a run is.
type options struct {
	seed           uint64
	lasts          time.Duration
	places, shards int
	failover       time.Duration
	packages       string // the folder of the servers' npm packages
	clocks         bool   // only clocks are wrong, and no lease may move
	work           string // folder for data and logs
}

// assembleLimit is how long a fleet may take to share the shards at the start, with servers that have just been started.
const assembleLimit = 2 * time.Minute

// run is one run.
type run struct {
	options
	schedule []fault
	table    *server
	stream   *server
	links    [][]*link
	ledger   *ledger
	history  *history
	fleet    *fleet
	source   *source
	turns    []chan struct{} // one slot each: who holds it may replace the place's process
	done     map[kind]int
	total    map[kind]time.Duration
	began    time.Duration // when the fleet was complete
	settled  time.Duration // how long it took at the end until everything was as if nothing had happened
}

// execute runs it and returns what must not be: nil if nothing was. Errors are of the staging.
func (r *run) execute(ctx context.Context, out io.Writer) (err error) {
	timeline, err := os.Create(filepath.Join(r.work, "timeline.txt"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timeline.Close()) }()
	r.ledger, r.history = newLedger(timeline), newHistory()
	r.done, r.total = map[kind]int{}, map[kind]time.Duration{}
	r.schedule = plan(r.seed, r.lasts, r.failover, r.places)
	if r.clocks {
		r.schedule = clockPlan(r.lasts)
	} else if !canShift {
		_, _ = fmt.Fprintln(out, shiftWall(0), "- clocks do not jump in this run")
		r.schedule = slices.DeleteFunc(r.schedule, func(f fault) bool { return f.Kind == jump })
	}
	for _, f := range r.schedule {
		_, _ = fmt.Fprintln(out, f)
	}

	r.table, r.stream = newServers(r.packages, r.work)
	defer func() {
		err = errors.Join(err, r.table.stop(syscall.SIGKILL), r.stream.stop(syscall.SIGKILL))
	}()
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() error { return r.table.start(starting) })
	group.Go(func() error { return r.stream.start(starting) })
	if err := group.Wait(); err != nil {
		return err
	}
	r.source = newSource(r.stream, r.ledger)
	if err := r.source.create(ctx, r.shards); err != nil {
		return err
	}
	defer func() {
		for _, of := range r.links {
			for _, l := range of {
				err = errors.Join(err, l.close())
			}
		}
	}()
	for place := range r.places {
		r.turns = append(r.turns, make(chan struct{}, 1))
		toTable, err := newLink(fmt.Sprint(place, "-table"), r.table, r.seed+uint64(place), r.history.see)
		if err != nil {
			return err
		}
		r.links = append(r.links, []*link{toTable})
		toStream, err := newLink(fmt.Sprint(place, "-stream"), r.stream, r.seed+uint64(100+place), nil)
		if err != nil {
			return err
		}
		r.links[place] = append(r.links[place], toStream)
	}
	bin, err := os.Executable()
	if err != nil {
		return err
	}
	r.fleet = newFleet(bin, r.work, r.failover, r.links, r.ledger)
	well := false
	defer func() { r.fleet.close(context.WithoutCancel(ctx), well) }()
	if err := r.stage(ctx); err != nil {
		return err
	}
	well = true
	return nil
}

// stage starts the fleet, lets everything happen, and returns when all is as if nothing had happened, or is not in time.
func (r *run) stage(ctx context.Context) error {
	for place := range r.places {
		if err := r.fleet.start(place, "", r.startShift(place)); err != nil {
			return err
		}
	}
	if err := r.assembled(ctx); err != nil {
		return err
	}
	r.began = r.ledger.now()
	r.ledger.say("the fleet is complete; the schedule begins")
	putting, stop := context.WithCancel(ctx)
	defer stop()
	producing := make(chan error, 1)
	go func() { producing <- r.source.produce(putting, r.seed) }()
	group, faulty := errgroup.WithContext(ctx)
	for i, f := range r.schedule {
		group.Go(func() error {
			if err := sleep(faulty, time.Until(r.ledger.zero.Add(r.began+f.At))); err != nil {
				return err
			}
			if err := r.befall(faulty, i, f); err != nil {
				return fmt.Errorf("fault %v: %w", f, err)
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil {
		err = sleep(ctx, time.Until(r.ledger.zero.Add(r.began+r.lasts)))
	}
	r.ledger.say("everything that the schedule has done is undone")
	stop()
	if err := errors.Join(err, <-producing); err != nil {
		return err
	}
	if err := r.source.putLast(ctx); err != nil {
		return err
	}
	return r.settle(ctx)
}

// startShift is by how much the clocks of a place's first process are wrong.
func (r *run) startShift(place int) time.Duration {
	if !r.clocks {
		return 0
	}
	return []time.Duration{time.Hour, -time.Hour, 0}[min(place, 2)]
}

// assembled waits until the workers say that they share the shards evenly, and have not changed that for a moment.
func (r *run) assembled(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, assembleLimit, fmt.Errorf("%d workers did not share %d shards within %v", r.places, r.shards, assembleLimit))
	defer cancel()
	since := time.Now()
	return r.ledger.wait(ctx, func() bool {
		reads := r.ledger.reads()
		sum, low, high := 0, r.shards, 0
		for _, n := range reads {
			sum, low, high = sum+n, min(low, n), max(high, n)
		}
		if sum != r.shards || len(reads) < min(r.places, r.shards) || high-low > 1 {
			since = time.Now()
		}
		return time.Since(since) > r.failover/2 || len(r.ledger.faults()) > 0
	})
}

// clockPlan has the clock of place 2 jump, to and fro.
func clockPlan(lasts time.Duration) []fault {
	const each = 5 * time.Second
	shifts := []time.Duration{time.Hour, -time.Hour, time.Minute, 24 * time.Hour, -time.Minute}
	var all []fault
	for at := each; at+each <= lasts; at += 2 * each {
		all = append(all, fault{Kind: jump, At: at, For: each, Place: 2, Shift: shifts[len(all)%len(shifts)]})
	}
	return all
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
