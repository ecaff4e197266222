package kinesis

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// The answers that carry records are written by hand, straight from the stored records: encoding/json would want a
// struct and two strings for each.

// recordOverhead is about what one record takes in JSON besides its data and key.
const recordOverhead = 220

// AppendJSON implements wire.JSONAppender.
func (o *getRecordsOutput) AppendJSON(to []byte) []byte {
	if to == nil {
		to = make([]byte, 0, 512+jsonSize(o.records))
	}
	to = append(to, `{"MillisBehindLatest":`...)
	to = strconv.AppendInt(to, o.behind, 10)
	if o.next != "" {
		to = append(to, `,"NextShardIterator":"`...)
		to = append(append(to, o.next...), '"')
	} else {
		to = appendChildren(to, o.children)
	}
	to = appendRecords(to, o.shard, o.encryption, o.records)
	return append(to, '}')
}

func jsonSize(records []record) int {
	size := 0
	for i := range records {
		size += base64.StdEncoding.EncodedLen(len(records[i].data)) + len(records[i].key) + recordOverhead
	}
	return size
}

func appendChildren(to []byte, children []childShape) []byte {
	text, _ := json.Marshal(children) // strings
	return append(append(to, `,"ChildShards":`...), text...)
}

func appendRecords(to []byte, x *shard, encryption string, records []record) []byte {
	to = append(to, `,"Records":[`...)
	for i := range records {
		r := &records[i]
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"SequenceNumber":"`...)
		to = x.appendSequence(to, r.count)
		to = append(to, `","ApproximateArrivalTimestamp":`...)
		to = wire.AppendMillis(to, r.at)
		if encryption != "NONE" {
			to = append(append(append(to, `,"EncryptionType":"`...), encryption...), '"')
		}
		to = append(to, `,"PartitionKey":`...)
		to = appendString(to, r.key)
		to = append(to, `,"Data":"`...)
		to = base64.StdEncoding.AppendEncode(to, r.data)
		to = append(to, `"}`...)
	}
	return append(to, ']')
}

// appendString writes a JSON string, the plain ones, which are nearly all, without a detour.
func appendString(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			text, _ := json.Marshal(s)
			return append(to, text...)
		}
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// AppendJSON implements wire.JSONAppender.
func (o *putRecordsOutput) AppendJSON(to []byte) []byte {
	if to == nil {
		to = make([]byte, 0, 128+140*len(o.results))
	}
	to = append(to, `{"FailedRecordCount":`...)
	to = strconv.AppendInt(to, int64(o.failed), 10)
	to = append(to, `,"EncryptionType":"`...)
	to = append(to, o.encryption...)
	to = append(to, `","Records":[`...)
	for i := range o.results {
		r := &o.results[i]
		if i > 0 {
			to = append(to, ',')
		}
		if r.err != nil {
			to = append(appendString(append(to, `{"ErrorCode":`...), r.err.Code), `,"ErrorMessage":`...)
			to = append(appendString(to, r.err.Message), '}')
			continue
		}
		to = append(to, `{"SequenceNumber":"`...)
		to = r.shard.appendSequence(to, r.count)
		to = append(to, `","ShardId":"`...)
		to = append(to, r.shard.id...)
		to = append(to, `"}`...)
	}
	return append(to, "]}"...)
}

// subscriptionEvent is a SubscribeToShardEvent.
type subscriptionEvent struct {
	shard        *shard
	records      []record
	continuation string // "" at the end of the shard
	behind       int64
	encryption   string
	children     []childShape // set at the end of the shard
}

// AppendJSON implements wire.JSONAppender.
func (e *subscriptionEvent) AppendJSON(to []byte) []byte {
	if to == nil {
		to = make([]byte, 0, 512+jsonSize(e.records))
	}
	to = append(to, `{"MillisBehindLatest":`...)
	to = strconv.AppendInt(to, e.behind, 10)
	if e.continuation != "" {
		to = append(to, `,"ContinuationSequenceNumber":"`...)
		to = append(append(to, e.continuation...), '"')
	} else {
		to = appendChildren(to, e.children)
	}
	to = appendRecords(to, e.shard, e.encryption, e.records)
	return append(to, '}')
}
