package leases_test

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/shardsync"
)

// coreStream is the stream as the service knows it.
type coreStream struct {
	c      *core
	shards []*coreShard
	byID   map[string]*coreShard
}

// coreShard is one shard, and what is judged of it.
type coreShard struct {
	c       *core
	id      string
	parents []*coreShard
	keys    hashkey.Range
	born    time.Duration
	every   time.Duration // a record comes
	closed  bool
	last    int64 // records, once it is closed

	created bool // it has had a row
	ended   bool // its SHARD_END was durable once
	handled int64
	nonce   string // of the newest tenure, and its token
	epoch   int64
}

func newCoreStream(c *core, shards int) *coreStream {
	s := &coreStream{c: c, byID: map[string]*coreShard{}}
	next := hashkey.Key{}
	for i := range shards {
		end := hashkey.Max
		if i+1 < shards {
			end.Hi = hashkey.Max.Hi / uint64(shards) * uint64(i+1)
		}
		s.add(hashkey.Range{Start: next, End: end, Known: true})
		next, _ = end.Next()
	}
	return s
}

func (s *coreStream) add(keys hashkey.Range, parents ...*coreShard) {
	shard := &coreShard{
		c: s.c, id: fmt.Sprintf("shardId-%012d", len(s.shards)), parents: parents, keys: keys, born: s.c.now,
		every: s.c.between(200*time.Millisecond, 2*time.Second),
	}
	s.shards = append(s.shards, shard)
	s.byID[shard.id] = shard
}

// put is how many records the shard has.
func (s *coreShard) put() int64 {
	if s.closed {
		return s.last
	}
	return int64((s.c.now - s.born) / s.every)
}

func (s *coreShard) parentIDs() []string {
	var ids []string
	for _, p := range s.parents {
		ids = append(ids, p.id)
	}
	return ids
}

func (s *coreStream) open() (n int) {
	for _, shard := range s.shards {
		if !shard.closed {
			n++
		}
	}
	return n
}

func (s *coreStream) children(of *coreShard) (all []*coreShard) {
	for _, shard := range s.shards {
		if slices.Contains(shard.parents, of) {
			all = append(all, shard)
		}
	}
	return all
}

// reshard splits an open shard or merges it with its neighbour.
func (s *coreStream) reshard() {
	var open []*coreShard
	for _, shard := range s.shards {
		if !shard.closed {
			open = append(open, shard)
		}
	}
	slices.SortFunc(open, func(a, b *coreShard) int { return a.keys.Compare(b.keys) })
	closes := func(shard *coreShard) { shard.last, shard.closed = shard.put(), true }
	i := s.c.random.IntN(len(open))
	a := open[i]
	closes(a)
	if i+1 < len(open) && s.c.random.IntN(2) == 0 {
		b := open[i+1]
		closes(b)
		s.c.note("shards %s and %s are merged", a.id, b.id)
		s.add(hashkey.Range{Start: a.keys.Start, End: b.keys.End, Known: true}, a, b)
		return
	}
	s.c.note("shard %s is split", a.id)
	middle := hashkey.Key{Hi: a.keys.Start.Hi + (a.keys.End.Hi-a.keys.Start.Hi)/2, Lo: hashkey.Max.Lo}
	above, _ := middle.Next()
	s.add(hashkey.Range{Start: a.keys.Start, End: middle, Known: true}, a)
	s.add(hashkey.Range{Start: above, End: a.keys.End, Known: true}, a)
}

// listing is what the service lists.
func (s *coreStream) listing() []shardsync.Shard {
	all := make([]shardsync.Shard, len(s.shards))
	for i, shard := range s.shards {
		all[i] = shardsync.Shard{ID: shard.id, StartingSequenceNumber: "1", HashKeyRange: shard.keys}
		if len(shard.parents) > 0 {
			all[i].ParentID = shard.parents[0].id
		}
		if len(shard.parents) > 1 {
			all[i].AdjacentParentID = shard.parents[1].id
		}
		if shard.closed {
			all[i].EndingSequenceNumber = corePlace(shard.last).SequenceNumber
		}
	}
	return all
}

// corePlace is the sequence number of the n-th record, and coreNumber its inverse; 0 for what is none.
func corePlace(n int64) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: strconv.FormatInt(1_000_000+n, 10)}
}

func coreNumber(at checkpoint.ExtendedSequenceNumber) int64 {
	n, err := strconv.ParseInt(at.SequenceNumber, 10, 64)
	if err != nil {
		return 0
	}
	return n - 1_000_000
}
