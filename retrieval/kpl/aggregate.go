package kpl

import (
	"crypto/md5" // the format asks for it; nothing secret depends on it
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardlease/shardlease/hashkey"
)

// UserRecord is what a producer packs into an aggregate.
type UserRecord struct {
	PartitionKey    string // 1 to 256 characters
	ExplicitHashKey string // decimal, less than 2^128; empty: the hash of PartitionKey
	Data            []byte
}

// mostKeyCharacters is how long a partition key may be, as Kinesis counts.
const mostKeyCharacters = 256

// Aggregate returns the data of one Kinesis record that holds records in their order, as the KPL packs them. All of them must
// belong to one shard, and the record must be put into that shard, with the PartitionKey and ExplicitHashKey of any of them;
// a consumer leaves out those that belong to another. How large a record may be is for the stream to say: 1 MiB with its key,
// or 10 MiB where that is allowed. The error says that there are none, or which one has a key that Kinesis would refuse.
func Aggregate(records ...UserRecord) ([]byte, error) {
	if len(records) == 0 {
		return nil, errors.New("aggregate user records: there are none")
	}
	var keys, explicit table
	var body, record []byte
	for i, r := range records {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("aggregate user record %d of %d: %w", i, len(records), err)
		}
		record = protowire.AppendTag(record[:0], partitionKeyIndex, protowire.VarintType)
		record = protowire.AppendVarint(record, keys.index(r.PartitionKey))
		if r.ExplicitHashKey != "" {
			record = protowire.AppendTag(record, explicitHashKeyIndex, protowire.VarintType)
			record = protowire.AppendVarint(record, explicit.index(r.ExplicitHashKey))
		}
		record = protowire.AppendTag(record, dataField, protowire.BytesType)
		record = protowire.AppendBytes(record, r.Data)
		body = protowire.AppendTag(body, recordsField, protowire.BytesType)
		body = protowire.AppendBytes(body, record)
	}
	out := make([]byte, len(magic), len(magic)+keys.bytes+explicit.bytes+len(body)+md5.Size)
	copy(out, magic)
	out = keys.append(out, partitionKeyTable)
	out = explicit.append(out, explicitHashKeyTable)
	out = append(out, body...)
	sum := md5.Sum(out[len(magic):])
	return append(out, sum[:]...), nil
}

func (r UserRecord) check() error {
	if n := utf8.RuneCountInString(r.PartitionKey); n < 1 || n > mostKeyCharacters || !utf8.ValidString(r.PartitionKey) {
		return fmt.Errorf("partition key has %d characters, want 1 to %d of UTF-8", n, mostKeyCharacters)
	}
	if r.ExplicitHashKey != "" {
		if _, err := hashkey.Parse(r.ExplicitHashKey); err != nil {
			return fmt.Errorf("explicit %w", err)
		}
	}
	return nil
}

// table is a table of keys in the order in which they were first asked for.
type table struct {
	keys  []string
	at    map[string]uint64
	bytes int // as written, or a little more
}

func (t *table) index(key string) uint64 {
	i, there := t.at[key]
	if !there {
		if t.at == nil {
			t.at = map[string]uint64{}
		}
		i = uint64(len(t.keys))
		t.at[key] = i
		t.keys = append(t.keys, key)
		t.bytes += protowire.SizeTag(partitionKeyTable) + protowire.SizeBytes(len(key))
	}
	return i
}

func (t *table) append(out []byte, field protowire.Number) []byte {
	for _, key := range t.keys {
		out = protowire.AppendTag(out, field, protowire.BytesType)
		out = protowire.AppendString(out, key)
	}
	return out
}
