package kpl

import (
	"bytes"
	"crypto/md5" // the format asks for it; nothing secret depends on it
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// magic is how an aggregate begins.
const magic = "\xf3\x89\x9a\xc2"

// The fields of an AggregatedRecord, and those of a Record in it.
const (
	partitionKeyTable, explicitHashKeyTable, recordsField protowire.Number = 1, 2, 3
	partitionKeyIndex, explicitHashKeyIndex, dataField    protowire.Number = 1, 2, 3
)

// shortest is the smallest Record: an index and no data, each with its tag.
const shortest = 4

// isAggregate reports whether data begins like an aggregate.
func isAggregate(data []byte) bool {
	return len(data) >= len(magic) && string(data[:len(magic)]) == magic
}

// body is the AggregatedRecord in an aggregate that message has accepted.
func body(data []byte) []byte { return data[len(magic) : len(data)-md5.Size] }

// message returns the AggregatedRecord in data, which begins like an aggregate, if its sum is right.
func message(data []byte) ([]byte, error) {
	if least := len(magic) + md5.Size; len(data) < least {
		return nil, fmt.Errorf("it is cut short: %d bytes, want at least %d", len(data), least)
	}
	m := body(data)
	if sum, want := md5.Sum(m), data[len(data)-md5.Size:]; !bytes.Equal(sum[:], want) {
		return nil, fmt.Errorf("its MD5 sum is %x, want %x", sum, want)
	}
	return m, nil
}

// nextField returns the first field of an AggregatedRecord that has a value of bytes, as all of its own do, and what comes
// after it; number is 0 at the end. Others are of a later version of the format, and skipped.
func nextField(m []byte) (number protowire.Number, value, rest []byte, err error) {
	// Nearly always the next byte is such a field's tag: this half of the function is worth a tenth of all the time.
	if len(m) > 1 && m[0] < 0x80 && m[0] >= 1<<3 && protowire.Type(m[0]&7) == protowire.BytesType {
		if length, n := varint(m[1:]); n > 0 && length <= uint64(len(m)-1-n) {
			at := 1 + n
			end := at + int(length)
			return protowire.Number(m[0] >> 3), m[at:end], m[end:], nil
		}
	}
	for len(m) > 0 {
		number, kind, n := tag(m)
		if n < 0 {
			return 0, nil, nil, malformed(n)
		}
		m = m[n:]
		if kind == protowire.BytesType {
			if value, n = protowire.ConsumeBytes(m); n < 0 {
				return 0, nil, nil, malformed(n)
			}
			return number, value, m[n:], nil
		}
		if n = protowire.ConsumeFieldValue(number, kind, m); n < 0 {
			return 0, nil, nil, malformed(n)
		}
		m = m[n:]
	}
	return 0, nil, nil, nil
}

// varint is protowire.ConsumeVarint, without a call for what has one byte.
func varint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

// invalidNumber is what protowire answers where the number of a field is 0.
var _, _, invalidNumber = protowire.ConsumeTag([]byte{0})

// tag is protowire.ConsumeTag, which alone lets numbers pass that protobuf refuses.
func tag(b []byte) (protowire.Number, protowire.Type, int) {
	number, kind, n := protowire.ConsumeTag(b)
	if n > 0 && number > protowire.MaxValidNumber {
		return 0, 0, invalidNumber
	}
	return number, kind, n
}

// malformed words what protowire has found; its own words change from build to build.
func malformed(n int) error {
	if errors.Is(protowire.ParseError(n), io.ErrUnexpectedEOF) {
		return errors.New("it is no AggregatedRecord: a field goes beyond the end")
	}
	return errors.New("it is no AggregatedRecord: it has a field that protobuf does not allow")
}

// userRecord is a Record as it stands in an aggregate.
type userRecord struct {
	key, explicit uint64 // indexes
	hasExplicit   bool
	data          []byte
}

// parseRecord reads a Record.
func parseRecord(raw []byte) (userRecord, error) {
	// What producers write: indexes of one byte, then the data, and nothing else. All else takes twice as long.
	const keyTag, explicitTag, dataTag = 1 << 3, 2 << 3, 3<<3 | 2
	if len(raw) >= shortest && raw[0] == keyTag && raw[1] < 0x80 {
		u, at := userRecord{key: uint64(raw[1])}, 2
		if len(raw) > 5 && raw[2] == explicitTag && raw[3] < 0x80 {
			u.explicit, u.hasExplicit, at = uint64(raw[3]), true, 4
		}
		if raw[at] == dataTag {
			if length, n := varint(raw[at+1:]); n > 0 && length == uint64(len(raw)-at-1-n) {
				u.data = slices.Clip(raw[at+1+n:]) // whoever appends to a user record must not write into the next one
				return u, nil
			}
		}
	}
	return parseFields(raw)
}

// parseFields reads a Record field by field. If a field is there more than once the last one counts, as everywhere in protobuf.
func parseFields(raw []byte) (u userRecord, err error) {
	var hasKey, hasData bool
	for len(raw) > 0 {
		number, kind, n := tag(raw)
		if n < 0 {
			return u, malformed(n)
		}
		raw = raw[n:]
		switch {
		case number == partitionKeyIndex && kind == protowire.VarintType:
			u.key, n = varint(raw)
			hasKey = true
		case number == explicitHashKeyIndex && kind == protowire.VarintType:
			u.explicit, n = varint(raw)
			u.hasExplicit = true
		case number == dataField && kind == protowire.BytesType:
			u.data, n = protowire.ConsumeBytes(raw)
			hasData = true
		default:
			n = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if n < 0 {
			return u, malformed(n)
		}
		raw = raw[n:]
	}
	switch {
	case !hasKey:
		return u, errors.New("it has no partition key")
	case !hasData:
		return u, errors.New("it has no data")
	}
	u.data = slices.Clip(u.data)
	return u, nil
}
