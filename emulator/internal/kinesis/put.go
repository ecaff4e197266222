package kinesis

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

const (
	maxPutRecords = 500
	maxPutBytes   = 10 << 20
	maxRecord     = 1 << 20 // unless a configuration says otherwise
	maxKey        = 256     // characters
)

type putEntry struct {
	Data                          []byte
	PartitionKey, ExplicitHashKey string
}

type putRecordInput struct {
	streamRef
	putEntry
	SequenceNumberForOrdering string
}

type putRecordOutput struct {
	ShardId, SequenceNumber, EncryptionType string
}

type putRecordsInput struct {
	streamRef
	Records []putEntry
}

// leastEntry is about what the text of a record without data takes.
const leastEntry = 32

// DecodeJSON implements wire.JSONDecoder.
func (in *putRecordsInput) DecodeJSON(s *wire.Scanner) error {
	return s.Object(func(name []byte) error {
		switch string(name) {
		case "StreamName":
			return text(s, &in.StreamName)
		case "StreamARN":
			return text(s, &in.StreamARN)
		case "StreamId":
			return text(s, &in.StreamId)
		case "Records":
			if s.Null() {
				return nil
			}
			in.Records = make([]putEntry, 0, min(maxPutRecords, s.Left()/leastEntry+1))
			return s.Array(func() error {
				in.Records = append(in.Records, putEntry{})
				if s.Null() {
					return nil
				}
				e := &in.Records[len(in.Records)-1]
				return s.Object(func(name []byte) error { return e.member(s, name) })
			})
		}
		return wire.UnknownMember(name)
	})
}

func (e *putEntry) member(s *wire.Scanner, name []byte) error {
	switch string(name) {
	case "Data":
		if s.Null() {
			return nil
		}
		encoded, err := s.String()
		if err != nil {
			return err
		}
		e.Data = make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
		n, err := base64.StdEncoding.Decode(e.Data, encoded)
		if err != nil {
			return fmt.Errorf("member Data: %w", err)
		}
		e.Data = e.Data[:n]
		return nil
	case "PartitionKey":
		return text(s, &e.PartitionKey)
	case "ExplicitHashKey":
		return text(s, &e.ExplicitHashKey)
	}
	return wire.UnknownMember(name)
}

func text(s *wire.Scanner, to *string) error {
	if s.Null() {
		return nil
	}
	raw, err := s.String()
	*to = string(raw)
	return err
}

type putResult struct {
	shard *shard
	count uint64
	err   *wire.Error
}

// putRecordsOutput writes its own JSON: half a thousand small objects are most of what a producer waits for.
type putRecordsOutput struct {
	failed     int
	encryption string
	results    []putResult
}

// target checks an entry and finds its hash key.
func (e *putEntry) target(most int) (hash, *wire.Error) {
	if n := utf8.RuneCountInString(e.PartitionKey); n < 1 || n > maxKey {
		return hash{}, malformed("PartitionKey has %d characters, want 1 to %d", n, maxKey)
	}
	if e.Data == nil {
		return hash{}, malformed("Data is needed")
	}
	if size := e.size(); size > most {
		return hash{}, invalid("a record of %d bytes (data and partition key), want at most %d", size, most)
	}
	if e.ExplicitHashKey == "" {
		return hashOf(e.PartitionKey), nil
	}
	return parseHash("ExplicitHashKey", e.ExplicitHashKey)
}

func (e *putEntry) size() int { return len(e.Data) + len(e.PartitionKey) }

func (k *Service) putRecord(now time.Time, in *putRecordInput) (any, *wire.Error) {
	h, err := in.target(k.cfg.MaxRecord)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.findReady(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	x := s.route(h)
	if in.SequenceNumberForOrdering != "" {
		if err := s.checkOrdering(in.SequenceNumberForOrdering); err != nil {
			return nil, err
		}
	}
	if !k.admitPut(x, in.size()) {
		return nil, throttled(x)
	}
	x.trim(s.horizon(now))
	return putRecordOutput{x.id, x.sequence(x.append(now, in.PartitionKey, in.Data)), s.encryption()}, nil
}

// checkOrdering wants a sequence number that this stream has given. There is nothing else to do about it: later records
// always have larger numbers.
func (s *stream) checkOrdering(number string) *wire.Error {
	for _, x := range s.shards {
		if _, ok := x.parseSequence(number, false); ok {
			return nil
		}
	}
	return invalid("SequenceNumberForOrdering %q was not given by stream %s", number, s.name)
}

func (k *Service) putRecords(now time.Time, in *putRecordsInput) (any, *wire.Error) {
	if n := len(in.Records); n < 1 || n > maxPutRecords {
		return nil, malformed("%d Records, want 1 to %d", n, maxPutRecords)
	}
	targets := make([]hash, len(in.Records))
	total := 0
	for i := range in.Records {
		h, err := in.Records[i].target(k.cfg.MaxRecord)
		if err != nil {
			err.Message = "Records[" + itoa(i) + "]: " + err.Message
			return nil, err
		}
		targets[i] = h
		total += in.Records[i].size()
	}
	if total > maxPutBytes {
		return nil, invalid("Records of %d bytes, want at most %d", total, maxPutBytes)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.findReady(now, in.streamRef)
	if err != nil {
		return nil, err
	}
	horizon := s.horizon(now)
	out := &putRecordsOutput{encryption: s.encryption(), results: make([]putResult, len(in.Records))}
	for i := range in.Records {
		e := &in.Records[i]
		x := s.route(targets[i])
		if !k.admitPut(x, e.size()) {
			out.failed++
			out.results[i].err = throttled(x)
			continue
		}
		x.trim(horizon)
		out.results[i] = putResult{shard: x, count: x.append(now, e.PartitionKey, e.Data)}
	}
	return out, nil
}
