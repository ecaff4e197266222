package shardsync

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardlease/shardlease/internal/loop"
	"github.com/shardlease/shardlease/leases"
)

// Streams of DynamoDB tables have shards without hash keys. Which shard follows which is all that is known of them: there is no ring
// to be whole or to have a hole, and each audit compares all shards with all leases. See [SyncerOptions].ByLineage.

// closeParents returns a listing in which every shard that has a child is closed. A listing takes several requests, between which a
// shard may end: it is shown as open then, beside its child.
func closeParents(shards []Shard) []Shard {
	follower := map[string]string{}
	for _, s := range shards {
		for _, id := range s.ParentIDs() {
			follower[id] = s.StartingSequenceNumber
		}
	}
	for i := range shards {
		if first, has := follower[shards[i].ID]; has && shards[i].Open() {
			shards[i].EndingSequenceNumber = first
		}
	}
	return shards
}

// checkListing reports whether a listing can be that of a whole stream. The error wraps [ErrInconsistent].
func (s *HierarchicalShardSyncer) checkListing(shards []Shard) error {
	if !s.opts.ByLineage {
		return checkRing(shards)
	}
	if len(shards) == 0 {
		return fmt.Errorf("%w: it shows no shard", ErrInconsistent)
	}
	return nil
}

// ShardBorn is the time that the id of a shard of DynamoDB Streams begins with, as in
// shardId-00000001414576573621-f55eea83; ok is false for ids of another form.
func ShardBorn(id string) (t time.Time, ok bool) {
	digits, random, cut := strings.Cut(strings.TrimPrefix(id, "shardId-"), "-")
	if !cut || len(digits) != 20 || random == "" || !strings.HasPrefix(id, "shardId-") {
		return time.Time{}, false
	}
	millis, err := strconv.ParseInt(digits, 10, 64)
	return time.UnixMilli(millis), err == nil
}

// OfEarlierStream reports whether a shard's id says that it was born before a stream of a table was created: a table whose stream was
// disabled and enabled again has another stream, with another ARN. A minute is for clocks that differ.
func OfEarlierStream(id string, created time.Time) bool {
	born, ok := ShardBorn(id)
	return ok && born.Add(time.Minute).Before(created)
}

// errHasRanges is in the error about leases with ranges of hash keys.
var errHasRanges = errors.New("leases of a table's stream have no range of hash keys")

// foreign returns an error if leases cannot be of this stream, by lineage: some have ranges of hash keys, which the Java adapter for
// DynamoDB Streams makes up and Kinesis has; or some are of an earlier stream of the table and not finished, so that what is left to
// read there would be left out.
func (s *HierarchicalShardSyncer) foreign(have []leases.Lease) error {
	var created time.Time
	if c, ok := s.detector.(checker); ok {
		created, _ = c.Created()
	}
	for _, l := range have {
		if r := l.HashKeyRange; r.Known {
			who := "an application that reads a stream of Kinesis, or another version of a library, has made it"
			if r.Start.String() == "0" && r.End.String() == "1" {
				who = "the Java adapter for DynamoDB Streams has made it, which gives every shard that range"
			}
			return &PermanentError{
				Doing:  fmt.Sprintf("compare shards and leases of stream %q", s.opts.Stream),
				Advice: "choose another ApplicationName, or stop its workers and delete the table's rows; then reading starts at InitialPosition",
				Err:    fmt.Errorf("%w, but that of shard %s has %s to %s: %s", errHasRanges, l.Shard(), r.Start, r.End, who),
			}
		}
		if !l.Finished() && OfEarlierStream(l.Shard(), created) {
			return &PermanentError{
				Doing:  fmt.Sprintf("find the leases' places in stream %q, created at %s", s.opts.Stream, timeText(created)),
				Advice: "set StreamARN to the table's earlier stream until all of its shards are finished, if it still exists; or " + HistoryAdvice,
				Err:    fmt.Errorf("%w: shard %s is older than the stream", ErrOtherHistory, l.Shard()),
			}
		}
	}
	return nil
}

// listed is a listing that several may use.
type listed struct {
	turn   chan struct{} // held by who lists, or looks
	shards []Shard
	at     time.Time
}

// listingLife is for how long a listing tells who a shard's ancestors are. That never changes: a listing that is old lacks shards that
// were born since, and the parent of a shard that has a lease already is none of them.
const listingLife = 10 * time.Second

// ancestry lists the stream for a look at a shard's ancestors. All shards at which an application begins ask for it when it starts, and
// of a large table's stream a listing is tens of requests, of which the service allows ten a second: by lineage they share one.
func (s *HierarchicalShardSyncer) ancestry(ctx context.Context) ([]Shard, error) {
	if !s.opts.ByLineage {
		return s.detector.ListShards(ctx, s.opts.Stream, Filter{})
	}
	r := &s.recent
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-r.turn }()
	clock := loop.ClockOf(ctx)
	if r.shards != nil && clock.Since(r.at) < listingLife {
		return r.shards, nil
	}
	at := clock.Now()
	shards, err := s.detector.ListShards(ctx, s.opts.Stream, Filter{})
	if err == nil {
		r.shards, r.at = shards, at
	}
	return shards, err
}
