package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/internal/audit"
	"github.com/shardlease/shardlease/internal/loop"
)

// reaction is for how long the scenario waits for the fleet to react before it goes on regardless.
const reaction = 6 * time.Second

// scenario does to the fleet what there is to do, each thing when a share of the records is stored. All choices come from
// the seed; which worker holds which shard does not, so that "the worker to kill" is a rank among those that hold one.
type scenario struct {
	board  *board
	fleet  *fleet
	joiner string
	random *rand.Rand
}

// run returns when everything was done.
func (s *scenario) run(ctx context.Context) error {
	for _, step := range []struct {
		at float64 // share of the records
		do func(context.Context) error
	}{
		{0.38, s.kill},
		{0.66, s.stop},
		{0.80, s.join},
	} {
		if err := s.board.reach(ctx, step.at+0.03*s.random.Float64()); err != nil {
			return err
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// victim picks a running worker, one that holds a shard if there is one.
func (s *scenario) victim() string {
	var up, holding []string
	s.board.look(func() {
		for _, w := range s.board.workers {
			if w.phase != running {
				continue
			}
			up = append(up, w.id)
			if len(s.board.held(w.id)) > 0 {
				holding = append(holding, w.id)
			}
		}
	})
	if len(holding) > 0 {
		up = holding
	}
	rank := s.random.Float64()
	if len(up) == 0 {
		return ""
	}
	return up[int(rank*float64(len(up)))]
}

func (s *scenario) kill(ctx context.Context) error {
	id := s.victim()
	if id == "" {
		return errors.New("kill a worker: none is running")
	}
	held := s.board.doom(id, audit.Killed)
	if err := s.fleet.kill(ctx, id); err != nil {
		return err
	}
	return s.moved(ctx, id, held)
}

func (s *scenario) stop(ctx context.Context) error {
	id := s.victim()
	if id == "" {
		return errors.New("stop a worker: none is running")
	}
	held := s.board.doom(id, audit.Stopped)
	s.fleet.ask(id)
	if s.alone(id) {
		return nil // its shards wait for the one that joins
	}
	return s.moved(ctx, id, held)
}

func (s *scenario) alone(id string) (alone bool) {
	s.board.look(func() {
		alone = !slices.ContainsFunc(s.board.workers, func(w *workerState) bool { return w.id != id && w.phase == running })
	})
	return alone
}

// moved waits until others read what a worker read, but for shards that it, or anybody, has read to their ends meanwhile.
func (s *scenario) moved(ctx context.Context, id string, held []string) error {
	bounded, cancel := loop.Timeout(ctx, reaction, "take over "+list(held))
	defer cancel()
	var waiting []string
	err := s.board.wait(bounded, func() bool {
		waiting = nil
		for _, shard := range held {
			at := s.board.shards[shard]
			if !at.ended && (at.owner == "" || at.owner == id) {
				waiting = append(waiting, audit.Short(shard))
			}
		}
		return len(waiting) == 0
	})
	if err != nil && ctx.Err() == nil {
		s.board.say("nobody reads %s, %v after %s left", strings.Join(waiting, ", "), reaction, id)
		return nil
	}
	return err
}

func (s *scenario) join(context.Context) error {
	s.board.say("%s joins", s.joiner)
	return s.fleet.start(s.joiner)
}
