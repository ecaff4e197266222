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

// current reports whether a listing knows the stream as it was when the leases were made. One that is older shows shards that were read to
// their end, and whose rows are gone, as if nothing followed them: they would get leases again, and be read twice. There is no ring here
// that is whole all the same. The ids of a table's stream begin with the time of a shard's birth, so an unfinished lease of a shard that is
// younger than all that is listed tells it. If it is the lease of a shard that has left the stream, whoever reads it finishes it. The
// error wraps [ErrInconsistent].
func current(shards []Shard, have []leases.Lease) error {
	youngest := ""
	for _, s := range shards {
		youngest = max(youngest, s.ID)
	}
	for _, l := range have {
		if id := l.Shard(); !l.Finished() && id > youngest {
			return fmt.Errorf("%w: it shows no shard younger than %s, and shard %s, which follows, has a lease: it is old", ErrInconsistent, youngest, id)
		}
	}
	return nil
}

// errHasRanges is in the error about leases with ranges of hash keys.
var errHasRanges = errors.New("leases of a table's stream have no range of hash keys")

// foreign returns an error if leases are not of this stream. A stream of Kinesis has none that name a table's stream; of the others
// see [otherHistory]. Of a table's stream some have ranges of hash keys, which the Java adapter for DynamoDB Streams
// makes up and Kinesis has; or some are not finished and name another stream, or none. Their shards are not listed here, as if they had
// been trimmed; to read on without them would leave out what is still to be read there.
func (s *HierarchicalShardSyncer) foreign(have []leases.Lease) error {
	doing := fmt.Sprintf("find the leases' places in stream %q", s.opts.Stream)
	for _, l := range have {
		if !s.opts.ByLineage {
			if l.StreamARN == "" {
				continue
			}
			return &PermanentError{
				Doing:  doing,
				Advice: "choose another ApplicationName, or read that stream, with shardlease.WithSource",
				Err:    fmt.Errorf("%w: that of shard %s is one of %q, the stream of a DynamoDB table, and this worker reads a stream of Kinesis", ErrOtherHistory, l.Shard(), l.StreamARN),
			}
		}
		if r := l.HashKeyRange; r.Known {
			who := "an application that reads a stream of Kinesis, or another version of a library, has made it"
			if r.Start.String() == "0" && r.End.String() == "1" {
				who = "the Java adapter for DynamoDB Streams has made it, which gives every shard that range"
			}
			return &PermanentError{
				Doing:  doing,
				Advice: "choose another ApplicationName, or stop its workers and delete the table's rows; then reading starts at InitialPosition",
				Err:    fmt.Errorf("%w, but that of shard %s has %s to %s: %s", errHasRanges, l.Shard(), r.Start, r.End, who),
			}
		}
		if !l.Finished() {
			if err := OfTableStream(l, s.opts.StreamARN); err != nil {
				return err
			}
		}
	}
	return nil
}

// OfTableStream returns a *[PermanentError] unless a lease is one of the stream of a DynamoDB table that has this ARN. It wraps
// [ErrOtherHistory].
func OfTableStream(l leases.Lease, arn string) error {
	if l.StreamARN == arn {
		return nil
	}
	of, advice := strconv.Quote(l.StreamARN), ""
	switch table, _, _ := strings.Cut(arn, "/stream/"); {
	case l.StreamARN == "":
		of = "no stream of a table"
	case strings.HasPrefix(l.StreamARN, table+"/stream/"):
		advice = "set StreamARN to that earlier or later stream of the table until all of its shards are finished, if it still exists; or "
	default:
		advice = "set StreamARN to that one; or "
	}
	return &PermanentError{
		Doing:  fmt.Sprintf("find the leases' places in stream %q", arn),
		Advice: advice + HistoryAdvice,
		Err:    fmt.Errorf("%w: that of shard %s is one of %s", ErrOtherHistory, l.Shard(), of),
	}
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
