package kinesis

import "github.com/shardlease/shardlease/emulator/internal/wire"

// The members of the answers that write their own JSON, for other encodings.

type recordShape struct {
	SequenceNumber              string
	ApproximateArrivalTimestamp wire.Time
	EncryptionType              string `json:",omitempty"`
	PartitionKey                string
	Data                        []byte
}

func recordShapes(x *shard, encryption string, records []record) []recordShape {
	if encryption == "NONE" {
		encryption = ""
	}
	out := make([]recordShape, len(records))
	for i := range records {
		r := &records[i]
		out[i] = recordShape{x.sequence(r.count), wire.Millis(r.at), encryption, r.key, r.data}
	}
	return out
}

type getRecordsShape struct {
	MillisBehindLatest int64
	NextShardIterator  string       `json:",omitempty"`
	ChildShards        []childShape `json:",omitempty"`
	Records            []recordShape
}

// Shape implements wire.Shaper.
func (o *getRecordsOutput) Shape() any {
	return getRecordsShape{o.behind, o.next, o.children, recordShapes(o.shard, o.encryption, o.records)}
}

type subscriptionShape struct {
	MillisBehindLatest         int64
	ContinuationSequenceNumber string       `json:",omitempty"`
	ChildShards                []childShape `json:",omitempty"`
	Records                    []recordShape
}

// Shape implements wire.Shaper.
func (e *subscriptionEvent) Shape() any {
	return subscriptionShape{e.behind, e.continuation, e.children, recordShapes(e.shard, e.encryption, e.records)}
}

type putRecordsShape struct {
	FailedRecordCount int
	EncryptionType    string
	Records           []putResultShape
}

type putResultShape struct {
	ErrorCode      string `json:",omitempty"`
	ErrorMessage   string `json:",omitempty"`
	SequenceNumber string `json:",omitempty"`
	ShardId        string `json:",omitempty"`
}

// Shape implements wire.Shaper.
func (o *putRecordsOutput) Shape() any {
	out := putRecordsShape{o.failed, o.encryption, make([]putResultShape, len(o.results))}
	for i := range o.results {
		if r := &o.results[i]; r.err != nil {
			out.Records[i] = putResultShape{ErrorCode: r.err.Code, ErrorMessage: r.err.Message}
		} else {
			out.Records[i] = putResultShape{SequenceNumber: r.shard.sequence(r.count), ShardId: r.shard.id}
		}
	}
	return out
}
