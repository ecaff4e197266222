package put

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"unicode/utf8"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/producer"
)

// toRecord makes a line a record. With a field, the line must be a JSON object whose member of that name is a string or a
// number; that is the partition key, a number as it is written in the line. Without, the key is a hash of the line, so
// that lines spread over the shards and equal lines meet.
func toRecord(l line, field string) (producer.Record, error) {
	if l.length > producer.MaxRecordBytes {
		return producer.Record{}, tooLong(l.length)
	}
	if field == "" {
		h := fnv.New64a()
		_, _ = h.Write(l.text) // never fails
		return producer.Record{Key: strconv.FormatUint(h.Sum64(), 16), Data: l.text}, fits(l.length, 16)
	}
	key, err := keyOf(l.text, field)
	if err != nil {
		return producer.Record{}, err
	}
	return producer.Record{Key: key, Data: l.text}, fits(l.length, len(key))
}

func fits(line, key int) error {
	if line+key > producer.MaxRecordBytes {
		return fmt.Errorf("the line has %d bytes and its key %d, want at most %d (1 MiB) together", line, key, producer.MaxRecordBytes)
	}
	return nil
}

func tooLong(length int) error {
	return fmt.Errorf("the line has %d bytes, want at most %d (1 MiB, with its key)", length, producer.MaxRecordBytes)
}

func keyOf(text []byte, field string) (string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return "", fmt.Errorf("the line is a JSON %s, want an object with the field %q: %s", wrong.Value, field, excerpt(text))
		}
		return "", fmt.Errorf("the line is not valid JSON (%w), want an object with the field %q: %s", err, field, excerpt(text))
	}
	if members == nil {
		return "", fmt.Errorf("the line is a JSON null, want an object with the field %q", field)
	}
	raw, ok := members[field]
	if !ok {
		return "", fmt.Errorf("the object has no field %q: %s", field, excerpt(text))
	}
	var key string
	switch c := raw[0]; {
	case c == '"':
		if err := json.Unmarshal(raw, &key); err != nil {
			return "", fmt.Errorf("read the field %q: %w", field, err)
		}
	case c == '-' || c >= '0' && c <= '9':
		key = string(raw)
	default:
		return "", fmt.Errorf("the field %q is %s, want a string or a number", field, excerpt(raw))
	}
	if n := utf8.RuneCountInString(key); n < 1 || n > producer.MaxKeyRunes {
		return "", fmt.Errorf("the field %q has %d characters, want 1 to %d to be a partition key", field, n, producer.MaxKeyRunes)
	}
	return key, nil
}

// excerpt quotes the beginning of what was found.
func excerpt(text []byte) string {
	const most = 60
	if len(text) > most {
		return strconv.QuoteToGraphic(string(text[:most])) + "…"
	}
	return strconv.QuoteToGraphic(string(text))
}
