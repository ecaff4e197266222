package kinesis

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

type getShardIteratorInput struct {
	streamRef
	ShardId, ShardIteratorType, StartingSequenceNumber string
	Timestamp                                          *wire.Time
}

type getShardIteratorOutput struct{ ShardIterator string }

func (k *Service) getShardIterator(now time.Time, in *getShardIteratorInput) (any, *wire.Error) {
	s, err := k.findReady(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	x, err := s.shard(now, in.ShardId)
	if err != nil {
		return nil, err
	}
	if !k.allow("GetShardIterator "+s.arn+x.id, 5, 5) {
		return nil, throttled(x)
	}
	from, err := x.position(now, in.ShardIteratorType, in.StartingSequenceNumber, in.Timestamp)
	if err != nil {
		return nil, err
	}
	return getShardIteratorOutput{newIterator(now, x, from).String()}, nil
}

// position turns a starting point into the count of the first record to read.
func (x *shard) position(now time.Time, kind, number string, at *wire.Time) (uint64, *wire.Error) {
	wantsNumber := kind == "AT_SEQUENCE_NUMBER" || kind == "AFTER_SEQUENCE_NUMBER"
	switch {
	case wantsNumber && number == "":
		return 0, invalid("a sequence number is needed with %s", kind)
	case kind == "AT_TIMESTAMP" && at == nil:
		return 0, invalid("Timestamp is needed with AT_TIMESTAMP")
	}
	switch kind {
	case "TRIM_HORIZON":
		return x.start, nil
	case "LATEST":
		return x.stream.count + 1, nil
	case "AT_TIMESTAMP":
		// A millisecond is all that a client can say: the one that has begun is not in the future.
		if at.UnixMilli() > now.UnixMilli() {
			return 0, invalid("Timestamp %s is in the future, now is %s", at.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano))
		}
		return x.since(at.Time), nil
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
		from, ok := x.parseSequence(number, kind == "AFTER_SEQUENCE_NUMBER")
		if !ok {
			return 0, invalid("StartingSequenceNumber %s used in GetShardIterator on shard %s in stream %s under account %s is invalid.", number, x.id, x.stream.name, Account)
		}
		return from, nil
	}
	return 0, malformed("iterator type %q, want AT_SEQUENCE_NUMBER, AFTER_SEQUENCE_NUMBER, TRIM_HORIZON, LATEST or AT_TIMESTAMP", kind)
}

// iterator is what a shard iterator holds. It can be used any number of times until it expires.
type iterator struct {
	created int64 // the stream's, nanoseconds: one made anew under the name is another
	shard   uint32
	from    uint64
	issued  int64 // Unix milliseconds
	stream  string
}

const iteratorHead = 8 + 4 + 8 + 8

func newIterator(now time.Time, x *shard, from uint64) iterator {
	return iterator{x.stream.created.UnixNano(), uint32(x.index), from, now.UnixMilli(), x.stream.name}
}

// String is the iterator as clients see it, with a checksum, so that garbage is not taken for one.
func (t iterator) String() string {
	raw := make([]byte, 0, iteratorHead+len(t.stream)+crc32.Size)
	raw = binary.BigEndian.AppendUint64(raw, uint64(t.created))
	raw = binary.BigEndian.AppendUint32(raw, t.shard)
	raw = binary.BigEndian.AppendUint64(raw, t.from)
	raw = binary.BigEndian.AppendUint64(raw, uint64(t.issued))
	raw = append(raw, t.stream...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	return base64.StdEncoding.EncodeToString(raw)
}

func parseIterator(s string) (iterator, bool) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw) < iteratorHead+1+crc32.Size {
		return iterator{}, false
	}
	body := raw[:len(raw)-crc32.Size]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(raw[len(body):]) {
		return iterator{}, false
	}
	return iterator{
		created: int64(binary.BigEndian.Uint64(body)),
		shard:   binary.BigEndian.Uint32(body[8:]),
		from:    binary.BigEndian.Uint64(body[12:]),
		issued:  int64(binary.BigEndian.Uint64(body[20:])),
		stream:  string(body[iteratorHead:]),
	}, true
}
