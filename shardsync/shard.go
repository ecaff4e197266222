package shardsync

import (
	"context"
	"time"

	"github.com/shardlease/shardlease/hashkey"
)

// Shard is one shard as the service lists it.
type Shard struct {
	ID, ParentID, AdjacentParentID               string // parents are empty if there are none
	StartingSequenceNumber, EndingSequenceNumber string // the ending one is empty while the shard is open
	HashKeyRange                                 hashkey.Range
}

// Filter selects shards. The zero Filter selects all that the service still knows.
// (Kinesis: ShardFilter; KCL: ShardFilter by initial position)
type Filter struct {
	Kind FilterKind
	At   time.Time // for AtTimestamp
}

// FilterKind is the kind of a [Filter].
type FilterKind int

// The kinds of filter that a shard sync uses.
const (
	All           FilterKind = iota // every shard within retention
	AtLatest                        // shards open now
	AtTrimHorizon                   // shards open at the trim horizon
	AtTimestamp                     // shards open at Filter.At
)

// ShardDetector lists a stream's shards. (KCL: ShardDetector)
type ShardDetector interface {
	// ListShards returns the shards that f selects, all pages of them. It retries transient faults itself and then
	// fails with what the service said. A server that ignores filters returns more; callers must cope.
	ListShards(ctx context.Context, stream string, f Filter) ([]Shard, error)
	// ServiceTime is what the service's own clock showed when it last answered (its Date header); ok is false before.
	ServiceTime() (t time.Time, ok bool)
}
