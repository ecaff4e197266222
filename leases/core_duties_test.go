package leases_test

import (
	"context"
	"errors"
	"time"

	"github.com/shardlease/shardlease/cleanup"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// coreScript is a run of a production function as far as it has come: it is run from its beginning with the answers so far, up to
// the next question. So what happens between two of its requests happens in between.
type coreScript struct {
	w       *coreWorker
	run     func(*coreScript) error
	ok      bool
	answers []any
	times   []leases.Stamp // what it has read from its clock
	asked   int            // of answers
	looked  int            // of times
	open    func() any     // the next question: what it is answered when it is
	write   func(context.Context) (any, error)
}

var errCoreOpen = errors.New("not answered yet")

func (s *coreScript) replay() error {
	s.asked, s.looked, s.open, s.write = 0, 0, nil, nil
	return s.run(s)
}

// ctx has the worker's clock, which shows at each look what it showed when that look was taken first.
func (s *coreScript) ctx() context.Context {
	now := func() leases.Stamp {
		if s.looked == len(s.times) {
			s.times = append(s.times, s.w.stamp())
		}
		s.looked++
		return s.times[s.looked-1]
	}
	never := func(time.Duration) *loop.Timer {
		return loop.NewTimerOf(nil, func() bool { return true }, func(time.Duration) {})
	}
	clock := loop.NewClock(func() time.Time { return now().Mono() }, func() time.Time { return now().Wall() }, never)
	return loop.WithClock(context.Background(), clock)
}

func (s *coreScript) syncer() *shardsync.HierarchicalShardSyncer {
	return shardsync.NewHierarchicalShardSyncer(s, s, shardsync.SyncerOptions{Stream: "orders", Worker: s.w.id, From: config.TrimHorizon()})
}

// answer answers the open question, or fails it, and goes on with next.
func (s *coreScript) answer(ok bool, next func()) {
	switch {
	case !ok:
		s.answers = append(s.answers, errCoreNetwork)
		next()
	case s.write != nil:
		var got any
		write := s.write
		s.w.call(func(ctx context.Context) (err error) { got, err = write(ctx); return err }, func(err error) {
			if err != nil {
				got = err
			}
			s.answers = append(s.answers, got)
			next()
		})
	default:
		s.answers = append(s.answers, s.open())
		next()
	}
}

// ask is the answer to a question, or an error: that which it was answered with, or that it is open.
func (s *coreScript) ask(q func() any, write func(context.Context) (any, error)) (any, error) {
	switch {
	case s.open != nil:
		return nil, errCoreOpen
	case s.asked == len(s.answers):
		s.open, s.write = q, write
		return nil, errCoreOpen
	}
	a := s.answers[s.asked]
	s.asked++
	if err, failed := a.(error); failed {
		return nil, err
	}
	return a, nil
}

func noAnswer() any { return nil }

func (s *coreScript) Get(_ context.Context, key string) (leases.Lease, bool, error) {
	a, err := s.ask(func() any { l, _ := s.w.lease(key); return l }, nil)
	l, _ := a.(leases.Lease)
	return l, l.Key != "", err
}

func (s *coreScript) List(context.Context) (leases.Listing, error) {
	a, err := s.ask(func() any { return s.w.c.leases() }, nil)
	all, _ := a.([]leases.Lease)
	return leases.Listing{Leases: all}, err
}

func (s *coreScript) Create(_ context.Context, l leases.Lease) (bool, error) {
	a, err := s.ask(noAnswer, func(ctx context.Context) (any, error) { return s.w.table.Create(ctx, l) })
	made, _ := a.(bool)
	return made, err
}

func (s *coreScript) UpdateMetadata(_ context.Context, key string, m leases.Metadata) error {
	_, err := s.ask(noAnswer, func(ctx context.Context) (any, error) { return true, s.w.table.UpdateMetadata(ctx, key, m) })
	return err
}

func (s *coreScript) ListShards(context.Context, string, shardsync.Filter) ([]shardsync.Shard, error) {
	a, err := s.ask(func() any { return s.w.c.stream.listing() }, nil)
	all, _ := a.([]shardsync.Shard)
	return all, err
}

func (s *coreScript) ServiceTime() (time.Time, bool) { return time.Time{}, false }

// end is what the service says at the end of the shard.
func (s *coreShard) end() shardsync.End {
	var end shardsync.End
	for _, child := range s.c.stream.children(s) {
		end.Children = append(end.Children, shardsync.ChildShard{
			ID: child.id, ParentIDs: child.parentIDs(),
			StartingHashKey: child.keys.Start.String(), EndingHashKey: child.keys.End.String(),
		})
	}
	return end
}

// sync creates the rows that are missing, as every worker does at its start; later, too, for what an audit would find.
func (w *coreWorker) sync() {
	again := func() { w.soon(3*time.Second, 6*time.Second, w.sync) }
	decided := w.stamp()
	w.read(func(ok bool) {
		have := w.c.leases()
		if _, hole := shardsync.FindHole(have); !ok || w.stopping || len(have) > 0 && !hole {
			again()
			return
		}
		w.read(func(ok bool) {
			missing, err := shardsync.DetermineNewLeases(w.c.stream.listing(), have, config.TrimHorizon())
			if !ok || err != nil {
				again()
				return
			}
			w.create(decided, missing, again)
		})
	})
}

// create creates rows one after the other, while what was decided is not too old.
func (w *coreWorker) create(decided leases.Stamp, missing []leases.Lease, then func()) {
	now := w.stamp()
	age := now.Mono().Sub(decided.Mono())
	if len(missing) == 0 || age >= leases.DecisionLife || age+decided.Slept(now) >= leases.DecisionLife {
		then()
		return
	}
	w.call(func(ctx context.Context) error { _, err := w.table.Create(ctx, missing[0]); return err }, func(err error) {
		if err != nil {
			then()
			return
		}
		w.create(decided, missing[1:], then)
	})
}

// clean deletes rows that nobody needs any more. Here every worker leads.
func (w *coreWorker) clean() {
	keep := coreKeeps
	if w.c.lacks == withoutKeeping {
		keep = 0
	}
	now := w.stamp().Mono()
	if w.c.now >= w.cut {
		finished := map[string]bool{}
		for _, l := range w.c.leases() {
			if !l.Finished() {
				continue
			}
			finished[l.Key] = true
			since, seen := w.ended[l.Key]
			if !seen {
				w.ended[l.Key] = now
			} else if now.Sub(since) >= keep {
				w.remove(l.Key)
			}
		}
		for key := range w.ended {
			if !finished[key] {
				delete(w.ended, key)
			}
		}
	}
	w.soon(coreClean/2, coreClean, w.clean)
}

// remove reads a row and those that matter for it, one after the other, and deletes it if it may go.
func (w *coreWorker) remove(key string) {
	w.read(func(ok bool) {
		row, there := w.lease(key)
		if !ok || !there {
			return
		}
		w.rows(row.ParentShardIDs, nil, func(parents []leases.Lease) {
			w.rows(row.ChildShardIDs, nil, func(children []leases.Lease) {
				if !cleanup.Decide(row, parents, children, cleanup.Known{}).Delete {
					return
				}
				w.call(func(ctx context.Context) error { return w.table.Delete(ctx, row) }, func(error) {})
			})
		})
	})
}

// rows reads those of the rows that exist.
func (w *coreWorker) rows(ids []string, found []leases.Lease, then func([]leases.Lease)) {
	if len(ids) == 0 {
		then(found)
		return
	}
	w.read(func(ok bool) {
		if !ok {
			return
		}
		if l, there := w.lease(ids[0]); there {
			found = append(found, l)
		}
		w.rows(ids[1:], found, then)
	})
}
