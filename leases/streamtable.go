package leases

import (
	"context"
	"sync"
)

// StreamTable is the part of a lease table that belongs to one of several streams. It speaks of shards: Key of each lease
// that it takes or returns is the shard's id, as in the table of one stream, and the row has the stream's identifier before
// it. Everything else is as in [Table]; it is safe for concurrent use.
type StreamTable struct {
	table  *Table
	stream string
}

// OfStream returns the part of the table that belongs to the stream with this identifier (account:name:epoch).
func (t *Table) OfStream(identifier string) *StreamTable {
	return &StreamTable{table: t, stream: identifier}
}

// Key is the key of a shard's row.
func (s *StreamTable) Key(shard string) string { return s.stream + ":" + shard }

// Local is a row of the stream as this table returns it.
func (s *StreamTable) Local(l Lease) Lease {
	l.Key = l.Shard()
	return l
}

// List returns the stream's rows. Listings of the streams of one table that are asked for at the same time are one: 200
// streams would otherwise read the whole table 200 times. Each begins after it was asked for.
func (s *StreamTable) List(ctx context.Context) (Listing, error) {
	sum, byStream, err := s.table.shared.list(ctx, s.table.List)
	if err != nil {
		return Listing{}, err
	}
	sum.Leases = nil
	for _, l := range byStream[s.stream] {
		sum.Leases = append(sum.Leases, s.Local(l))
	}
	return sum, nil
}

// Get is [Table.Get].
func (s *StreamTable) Get(ctx context.Context, shard string) (Lease, bool, error) {
	l, there, err := s.table.Get(ctx, s.Key(shard))
	if there {
		l = s.Local(l)
	}
	return l, there, err
}

// Create is [Table.Create]; the row names its stream and its shard, as KCL wants it.
func (s *StreamTable) Create(ctx context.Context, l Lease) (created bool, err error) {
	l.StreamName, l.ShardID, l.Key = s.stream, l.Key, s.Key(l.Key)
	return s.table.Create(ctx, l)
}

// UpdateMetadata is [Table.UpdateMetadata]; ChildShardIDs are ids of shards.
func (s *StreamTable) UpdateMetadata(ctx context.Context, shard string, m Metadata) error {
	return s.table.UpdateMetadata(ctx, s.Key(shard), m)
}

// Delete is [Table.Delete].
func (s *StreamTable) Delete(ctx context.Context, seen Lease) error {
	seen.Key = s.Key(seen.Key)
	return s.table.Delete(ctx, seen)
}

// sharedListing lets several ask for one listing.
type sharedListing struct {
	turn chan struct{} // held by the one who lists

	mu       sync.Mutex
	begun    int // how many listings have begun
	number   int // of the last one that was good, from 1
	sum      Listing
	byStream map[string][]Lease
}

func newSharedListing() *sharedListing { return &sharedListing{turn: make(chan struct{}, 1)} }

// list returns a listing that began after the call. Whoever waits while another one lists finds, when it is its turn, either
// that one too old, because it began before the call, and lists; or the listing of somebody who waited as well, and takes it.
func (s *sharedListing) list(ctx context.Context, list func(context.Context) (Listing, error)) (Listing, map[string][]Lease, error) {
	before := s.count(0)
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return Listing{}, nil, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	if sum, byStream, ok := s.after(before); ok {
		return sum, byStream, nil
	}
	number := s.count(1)
	sum, err := list(ctx)
	if err != nil {
		return Listing{}, nil, err
	}
	byStream := ByStream(sum.Leases)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number, s.sum, s.byStream = number, sum, byStream
	return sum, byStream, nil
}

// count adds to the number of listings that have begun, and returns it.
func (s *sharedListing) count(more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun += more
	return s.begun
}

// after returns the last listing if it was not among the first so many.
func (s *sharedListing) after(before int) (Listing, map[string][]Lease, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum, s.byStream, s.number > before
}

// ByStream divides leases by the identifiers of their streams.
func ByStream(all []Lease) map[string][]Lease {
	by := map[string][]Lease{}
	for _, l := range all {
		stream := l.Stream()
		by[stream] = append(by[stream], l)
	}
	return by
}
