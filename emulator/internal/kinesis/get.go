package kinesis

import (
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

const maxGetRecords = 10_000

type getRecordsInput struct {
	ShardIterator, StreamARN, StreamId string
	Limit                              *int
}

// getRecordsOutput writes its own JSON (json.go), from records that stay in the shard.
type getRecordsOutput struct {
	shard      *shard
	records    []record
	next       string // iterator; "" at the end of the shard
	behind     int64
	encryption string
	children   []childShape // set at the end of the shard
}

func (k *Service) getRecords(now time.Time, in *getRecordsInput) (any, *wire.Error) {
	t, ok := parseIterator(in.ShardIterator)
	if !ok {
		return nil, invalid("Invalid ShardIterator.")
	}
	limit, err := within("Limit", in.Limit, maxGetRecords, maxGetRecords)
	if err != nil {
		return nil, err
	}
	issued := time.UnixMilli(t.issued)
	if age := now.Sub(issued); age > k.cfg.IteratorTTL {
		return nil, wire.Errorf("ExpiredIteratorException", "Iterator expired. The iterator was created at time %s while right now it is %s which is further in the future than the tolerated delay of %s.",
			issued.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano), k.cfg.IteratorTTL)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.byName(now, t.stream)
	if s == nil || s.created.UnixNano() != t.created {
		return nil, notFound("Stream %s under account %s not found.", t.stream, Account)
	}
	if in.StreamARN != "" && in.StreamARN != s.arn || in.StreamId != "" && in.StreamId != s.id {
		return nil, invalid("the iterator is one of stream %s, not of %s%s", s.arn, in.StreamARN, in.StreamId)
	}
	x, err := s.shard(now, shardID(int(t.shard)))
	if err != nil {
		return nil, err
	}
	if !k.admitGet(x) {
		return nil, throttled(x)
	}
	p := x.read(now, t.from, limit, maxPageBytes)
	k.chargeGet(x, p.records)
	out := &getRecordsOutput{shard: x, records: p.records, behind: p.behind, encryption: s.encryption()}
	if p.atEnd {
		out.children = x.childShapes()
	} else {
		out.next = newIterator(now, x, p.next).String()
	}
	return out, nil
}
