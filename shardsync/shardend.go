package shardsync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// End says that a shard has no more records, and which shards follow.
type End struct {
	Children []ChildShard
	Gone     bool // the service knows the shard no longer
}

// ChildShard is a shard that follows one or two others.
type ChildShard struct {
	ID                             string
	ParentIDs                      []string
	StartingHashKey, EndingHashKey string // decimal
}

// EndShard makes the children of an ended shard known: first it creates their rows where there are none, then it writes
// their ids into the parent's row. After that, and never before, the parent may be checkpointed at SHARD_END: a crash
// after any step leaves a parent that is not finished, whose next owner does the same again.
//
// The children start at TRIM_HORIZON, whatever the configuration says: everything in them follows what was read. If end
// names none (the shard is gone, or the server does not say), they are looked up in a listing. A shard that is gone and of
// which the listing knows no child either leaves none; the audit of the ring finds what is missing then.
//
// After a merge the child waits for both parents, so a row of the other parent must exist before the child's, unless that
// parent is behind us. If it has a row, or is listed no more, or the child already has a row, all is well. Otherwise the
// rows that its lineage lacks are created first, as [DetermineNewLeases] says; while a lease in that lineage is unfinished
// the error wraps [ErrOtherParentUnread].
//
// What makes it right to create the children is that the parent is not finished: the caller holds its lease, has just made sure of that
// ([leases.Held.Usable]), and does so again before another call. What has not been done [leases.DecisionLife] later is not done.
//
// An error means that it is not known which of the steps were done; call EndShard again. It is idempotent.
// (KCL: ShutdownTask.takeShardEndAction)
func (s *HierarchicalShardSyncer) EndShard(ctx context.Context, parent leases.Lease, end End) error {
	if err := s.endShard(ctx, parent, end); err != nil {
		return fmt.Errorf("create leases of the children of shard %s: %w", parent.Shard(), err)
	}
	return nil
}

func (s *HierarchicalShardSyncer) endShard(ctx context.Context, parent leases.Lease, end End) error {
	d := decisionAt(loop.ClockOf(ctx))
	children, err := s.childLeases(ctx, parent, end)
	if err != nil || len(children) == 0 {
		return err
	}
	ids := make([]string, 0, len(children))
	for _, child := range children {
		if err := s.createChild(ctx, d, parent, child); err != nil {
			return err
		}
		ids = append(ids, child.Key)
	}
	slices.Sort(ids)
	return s.table.UpdateMetadata(ctx, parent.Key, leases.Metadata{ChildShardIDs: ids})
}

// childLeases are the rows to create.
func (s *HierarchicalShardSyncer) childLeases(ctx context.Context, parent leases.Lease, end End) ([]leases.Lease, error) {
	// The pin outlives the parents: shards that get their first lease later start from the same time.
	start := position{checkpoint.TrimHorizon, parent.StartAtMillis}
	var out []leases.Lease
	for _, c := range end.Children {
		if !slices.Contains(c.ParentIDs, parent.Shard()) {
			return nil, fmt.Errorf("the service names %s as a child, but its parents as %q", c.ID, c.ParentIDs)
		}
		var r hashkey.Range
		if !s.opts.ByLineage {
			var err error
			if r, err = hashkey.ParseRange(c.StartingHashKey, c.EndingHashKey); err != nil {
				return nil, fmt.Errorf("child %s: %w", c.ID, err)
			}
		}
		out = append(out, leases.Lease{
			Key: c.ID, Checkpoint: start.at, StartAtMillis: start.millis,
			ParentShardIDs: slices.Sorted(slices.Values(c.ParentIDs)), HashKeyRange: r,
		})
	}
	if len(out) > 0 {
		return out, nil
	}
	shards, err := s.detector.ListShards(ctx, s.opts.Stream, Filter{})
	if s.opts.ByLineage && errors.Is(err, ErrStreamNotFound) {
		// The shard was read to its end in time, its processor took longer. A stream of a table never comes back under its ARN: to
		// wait for it would leave the lease unfinished for ever.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range shards {
		if slices.Contains(c.ParentIDs(), parent.Shard()) {
			out = append(out, newLease(c, start))
		}
	}
	return out, nil
}

// createChild creates a child's row if there is none. A row of the other parent of a merge comes first.
func (s *HierarchicalShardSyncer) createChild(ctx context.Context, d decision, parent, child leases.Lease) error {
	for _, other := range child.ParentShardIDs {
		if other == parent.Shard() {
			continue
		}
		if _, there, err := s.table.Get(ctx, other); err != nil || there {
			if err != nil {
				return err
			}
			continue
		}
		// No row: it was finished and cleaned up, which needs a row of the child, or it was never reached.
		if _, there, err := s.table.Get(ctx, child.Key); err != nil || there {
			return err
		}
		if err := s.reach(ctx, other); err != nil {
			return fmt.Errorf("child %s of shards %q: %w", child.Key, child.ParentShardIDs, err)
		}
	}
	_, err := s.create(ctx, d, child)
	return err
}

// reach creates what rows a shard without one needs for being reached. It returns nil if the shard has a row then, or if
// nothing will ever reach it.
func (s *HierarchicalShardSyncer) reach(ctx context.Context, id string) error {
	d := decisionAt(loop.ClockOf(ctx))
	shards, err := s.allShards(ctx)
	if err != nil {
		return err
	}
	have, err := s.rows(ctx)
	if err != nil {
		return err
	}
	missing, err := DetermineNewLeases(shards, have, s.opts.From)
	if err != nil {
		return err
	}
	s.pin(missing)
	line := lineageOf(shards, id)
	for _, l := range missing {
		if !line[l.Key] {
			continue
		}
		if _, err := s.create(ctx, d, l); err != nil {
			return err
		}
		have = append(have, l)
	}
	if ahead := stillAhead(have, line, id); ahead != "" {
		return fmt.Errorf("shard %s has no lease, and that of its ancestor %s is not finished: %w", id, ahead, ErrOtherParentUnread)
	}
	return nil
}

// stillAhead is the key of an unfinished lease in a shard's lineage that will bring the shard's own; "" if the shard has one,
// or if nothing will.
func stillAhead(have []leases.Lease, line map[string]bool, id string) string {
	ahead := ""
	for _, l := range have {
		switch {
		case l.Shard() == id:
			return ""
		case line[l.Shard()] && !l.Finished():
			ahead = l.Key
		}
	}
	return ahead
}

// lineageOf is the set of a listed shard and its listed ancestors; it is empty if the shard is not listed.
func lineageOf(shards []Shard, id string) map[string]bool {
	index := make(map[string]int, len(shards))
	for i, s := range shards {
		index[s.ID] = i
	}
	line := map[string]bool{}
	for next := []string{id}; len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		if i, listed := index[id]; listed && !line[id] {
			line[id] = true
			next = append(next, shards[i].ParentIDs()...)
		}
	}
	return line
}

// ParentsEnded reports whether a shard may be read: every parent was read to its end. A parent's row says so itself; it is
// read consistently, so that no shard starts because of a row that was written a moment ago.
//
// A parent without a row does not hold back a shard whose checkpoint is a sequence number (it has begun, so its parents were
// finished and cleaned up) or one of the positions LATEST and AT_TIMESTAMP (it was chosen as a first shard), nor one that is
// listed no more. Otherwise its listed ancestors decide: while one of them has an unfinished lease, the end of that will in
// time bring a lease of the parent, and the shard waits; if none has, nothing ever will, since no ancestor of a leased shard
// is created, and the shard starts.
// (KCL: BlockOnParentShardTask, for which a parent without a row never holds back)
func (s *HierarchicalShardSyncer) ParentsEnded(ctx context.Context, l leases.Lease) (bool, error) {
	var absent []string
	for _, id := range l.ParentShardIDs {
		parent, there, err := s.table.Get(ctx, id)
		switch {
		case err != nil:
			return false, fmt.Errorf("look whether the parents of shard %s have ended: %w", l.Shard(), err)
		case !there:
			absent = append(absent, id)
		case !parent.Finished():
			return false, nil
		}
	}
	if len(absent) == 0 || l.Checkpoint != checkpoint.TrimHorizon {
		return true, nil
	}
	ended, err := s.absentEnded(ctx, absent)
	if err != nil {
		return false, fmt.Errorf("look whether parents %q of shard %s, which have no leases, have ended: %w", absent, l.Shard(), err)
	}
	return ended, nil
}

func (s *HierarchicalShardSyncer) absentEnded(ctx context.Context, absent []string) (bool, error) {
	shards, err := s.ancestry(ctx)
	if err != nil {
		return false, err
	}
	have, err := s.rows(ctx)
	if err != nil {
		return false, err
	}
	for _, id := range absent {
		if stillAhead(have, lineageOf(shards, id), id) != "" {
			return false, nil
		}
		// Between the first look and the listing the parent may have got its row, and then the last of its ancestors may
		// have been finished. Rows are written in that order, so a look after the listing sees it.
		parent, there, err := s.table.Get(ctx, id)
		if err != nil || there && !parent.Finished() {
			return false, err
		}
	}
	return true, nil
}
