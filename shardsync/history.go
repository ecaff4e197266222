package shardsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

// ErrOtherHistory means that leases and stream do not belong together: the stream was deleted and created anew under its
// name, or the name is that of another one. Its shards have the ids of the first one's, but what the leases say was read is
// not in them. Somebody has to decide what to read; until then nothing is created, and no lease is moved.
var ErrOtherHistory = errors.New("the leases are those of another stream, or this one was deleted and created anew")

// HistoryAdvice says what to do about [ErrOtherHistory].
const HistoryAdvice = "check the stream's name; to read the new stream, stop the workers and delete the rows of its lease table, or choose another ApplicationName"

// otherHistory returns an error that wraps [ErrOtherHistory] if every lease that names a record names one older than its
// shard. A sequence number contains a time: those of a stream that was created anew are larger than all before. One such
// lease among others is somebody's handiwork, and its consumer's affair.
func otherHistory(shards []Shard, have []leases.Lease) error {
	begin := make(map[string]string, len(shards))
	for _, s := range shards {
		begin[s.ID] = s.StartingSequenceNumber
	}
	var example string
	for _, l := range have {
		first, listed := begin[l.Shard()]
		if !listed || first == "" || l.Checkpoint.IsSentinel() || l.Checkpoint.IsZero() {
			continue
		}
		if l.Checkpoint.Compare(checkpoint.ExtendedSequenceNumber{SequenceNumber: first}) >= 0 {
			return nil
		}
		if example == "" {
			example = fmt.Sprintf("shard %s begins at sequence number %s, but its lease says that it was read up to %s", l.Shard(), first, l.Checkpoint.SequenceNumber)
		}
	}
	if example == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrOtherHistory, example)
}

// unread returns an error that wraps [ErrOtherHistory] if an open shard has a finished lease: its records are read by nobody.
func unread(shards []Shard, have []leases.Lease) error {
	finished := map[string]bool{}
	for _, l := range have {
		if l.Finished() {
			finished[l.Shard()] = true
		}
	}
	var open []string
	for _, s := range shards {
		if s.Open() && finished[s.ID] {
			open = append(open, s.ID)
		}
	}
	if len(open) == 0 {
		return nil
	}
	slices.Sort(open)
	return fmt.Errorf("nobody reads %d shards, %s the first of them: they are open, but their leases say that they were read to their ends; perhaps %w, or somebody wrote SHARD_END into their rows",
		len(open), open[0], ErrOtherHistory)
}

// checker is a [ShardDetector] that can say at once that there is no such stream, or that it is being deleted.
type checker interface {
	// Check returns nil if the stream exists, or if that cannot be seen. It waits while the stream is being created.
	Check(ctx context.Context, stream string) error
	// Created is when the stream was created, as far as Check has seen it.
	Created() (t time.Time, ok bool)
}
