package shards

import (
	"strconv"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
	"github.com/shardlease/shardlease/shardsync"
)

// most is how many shards a stream may have.
const most = 4

// Shard is one shard of a model's stream. Its life is told in stages of the stream: it exists from Born on, has no more records from
// Closed on, and the service has forgotten it from Gone on; 9 is never.
type Shard struct {
	Parents            []uint8
	From, To           uint64 // upper words of its hash keys
	Born, Closed, Gone uint8
}

// level is how far a shard's row is: two bits.
type level = uint8

const (
	absent level = iota
	fresh        // at TRIM_HORIZON
	begun        // at a record
	ended        // at SHARD_END
)

func id(s uint8) string { return "shardId-00000000000" + strconv.Itoa(int(s)) }

func (m *Model) index(key string) uint8 { return key[len(key)-1] - '0' }

func (m *Model) keys(s uint8) hashkey.Range {
	sh := m.Stream[s]
	return hashkey.Range{Start: hashkey.Key{Hi: sh.From}, End: hashkey.Key{Hi: sh.To, Lo: ^uint64(0)}, Known: true}
}

func (m *Model) parentIDs(s uint8) (ids []string) {
	for _, p := range m.Stream[s].Parents {
		ids = append(ids, id(p))
	}
	return ids
}

// children are the shards that follow s.
func (m *Model) children(s uint8) (all []uint8) {
	for c := range m.Stream {
		for _, p := range m.Stream[c].Parents {
			if p == s {
				all = append(all, uint8(c))
			}
		}
	}
	return all
}

// lease is the row of a shard as production code sees it. knows tells whether it names its children.
func (m *Model) lease(s uint8, at level, knows bool) leases.Lease {
	l := leases.Lease{Key: id(s), ParentShardIDs: m.parentIDs(s), HashKeyRange: m.keys(s), Counter: 1}
	switch at {
	case absent:
		return leases.Lease{}
	case fresh:
		l.Checkpoint = checkpoint.TrimHorizon
	case begun:
		l.Checkpoint = checkpoint.ExtendedSequenceNumber{SequenceNumber: "1" + strconv.Itoa(int(s))}
	case ended:
		l.Checkpoint = checkpoint.ShardEnd
	}
	if knows {
		for _, c := range m.children(s) {
			l.ChildShardIDs = append(l.ChildShardIDs, id(c))
		}
	}
	return l
}

// rows are the rows that a code, two bits for each shard, stands for.
func (m *Model) rows(code uint8) (all []leases.Lease) {
	for s := range uint8(len(m.Stream)) {
		if at := code >> (2 * s) & 3; at != absent {
			all = append(all, m.lease(s, at, false))
		}
	}
	return all
}

// listing is what the service lists at a stage.
func (m *Model) listing(stage uint8) (all []shardsync.Shard) {
	for s, sh := range m.Stream {
		if sh.Born > stage || sh.Gone <= stage {
			continue
		}
		shard := shardsync.Shard{ID: id(uint8(s)), StartingSequenceNumber: "1" + strconv.Itoa(s), HashKeyRange: m.keys(uint8(s))}
		if len(sh.Parents) > 0 {
			shard.ParentID = id(sh.Parents[0])
		}
		if len(sh.Parents) > 1 {
			shard.AdjacentParentID = id(sh.Parents[1])
		}
		if sh.Closed <= stage {
			shard.EndingSequenceNumber = "9"
		}
		all = append(all, shard)
	}
	return all
}
