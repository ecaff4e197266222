package demo

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/internal/loop"
)

// reaction is for how long the scenario waits for the fleet to react before it goes on regardless.
const reaction = 6 * time.Second

// scenario does to the stream and the fleet what there is to do, each thing when a share of the records is stored. All
// choices come from the seed; which worker holds which shard does not, so that "the worker to kill" is a rank among
// those that hold one.
type scenario struct {
	stream string
	api    *kinesis.Client
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
		{0.10, s.split},
		{0.24, s.merge},
		{0.38, s.kill},
		{0.66, s.stop},
		{0.80, s.join},
	} {
		at := int((step.at + 0.03*s.random.Float64()) * float64(s.board.total))
		if err := s.board.wait(ctx, func() bool { return s.board.stored >= at }); err != nil {
			return err
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open lists the open shards by their place on the ring.
func (s *scenario) open(ctx context.Context) ([]types.Shard, error) {
	var open []types.Shard
	in := &kinesis.ListShardsInput{StreamName: aws.String(s.stream)}
	for {
		out, err := s.api.ListShards(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the demo's shards: %w", err)
		}
		for _, shard := range out.Shards {
			if shard.SequenceNumberRange.EndingSequenceNumber == nil {
				open = append(open, shard)
			}
		}
		if out.NextToken == nil {
			break
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken}
	}
	slices.SortFunc(open, func(a, b types.Shard) int {
		return hash(a.HashKeyRange.StartingHashKey).Cmp(hash(b.HashKeyRange.StartingHashKey))
	})
	return open, nil
}

func hash(decimal *string) *big.Int {
	n, ok := new(big.Int).SetString(aws.ToString(decimal), 10)
	if !ok {
		return new(big.Int)
	}
	return n
}

func (s *scenario) split(ctx context.Context) error {
	open, err := s.open(ctx)
	if err != nil {
		return err
	}
	shard := open[s.random.IntN(len(open))]
	low, high := hash(shard.HashKeyRange.StartingHashKey), hash(shard.HashKeyRange.EndingHashKey)
	middle := new(big.Int).Add(low, high)
	middle.Rsh(middle, 1)
	_, err = s.api.SplitShard(ctx, &kinesis.SplitShardInput{
		StreamName: aws.String(s.stream), ShardToSplit: shard.ShardId, NewStartingHashKey: aws.String(middle.String()),
	})
	if err != nil {
		return fmt.Errorf("split %s: %w", aws.ToString(shard.ShardId), err)
	}
	return s.resharded(ctx, "split of %s", aws.ToString(shard.ShardId))
}

func (s *scenario) merge(ctx context.Context) error {
	open, err := s.open(ctx)
	if err != nil {
		return err
	}
	i := s.random.IntN(len(open) - 1) // there are two at least: one was split
	a, b := aws.ToString(open[i].ShardId), aws.ToString(open[i+1].ShardId)
	_, err = s.api.MergeShards(ctx, &kinesis.MergeShardsInput{
		StreamName: aws.String(s.stream), ShardToMerge: aws.String(a), AdjacentShardToMerge: aws.String(b),
	})
	if err != nil {
		return fmt.Errorf("merge %s and %s: %w", a, b, err)
	}
	return s.resharded(ctx, "merge of %s and %s", a, b)
}

// resharded notes what came of the parents.
func (s *scenario) resharded(ctx context.Context, format string, parents ...string) error {
	open, err := s.open(ctx)
	if err != nil {
		return err
	}
	var children []string
	for _, shard := range open {
		if slices.Contains(parents, aws.ToString(shard.ParentShardId)) {
			children = append(children, aws.ToString(shard.ShardId))
		}
	}
	names := make([]any, len(parents))
	for i, p := range parents {
		names[i] = short(p)
	}
	s.board.say("%s into %s", fmt.Sprintf(format, names...), list(children))
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
	held := s.board.doom(id, killed)
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
	held := s.board.doom(id, stopped)
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

// moved waits until others read what a worker read.
func (s *scenario) moved(ctx context.Context, id string, held []string) error {
	bounded, cancel := loop.Timeout(ctx, reaction, "take over "+list(held))
	defer cancel()
	var waiting []string
	err := s.board.wait(bounded, func() bool {
		waiting = nil
		for _, shard := range held {
			if owner := s.board.shards[shard].owner; owner == "" || owner == id {
				waiting = append(waiting, short(shard))
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
