package consume

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/shardlease/shardlease/processor"
)

// Format is how a record is printed.
type Format string

// The formats.
const (
	JSON Format = "json" // one object a line
	Data Format = "data" // the record's data and a line's end
)

// line is a record in JSON. Data is there as text if it is valid UTF-8, else as base64 under another name, so that a
// reader never has to guess.
type line struct {
	Stream   string    `json:"stream,omitempty"` // if there are several
	Shard    string    `json:"shard"`
	Sequence string    `json:"sequence"`
	Sub      int64     `json:"sub,omitempty"` // index in an aggregate; the first is 0 and left out
	Key      string    `json:"key"`
	Arrival  time.Time `json:"arrival"`
	Data     *string   `json:"data,omitempty"`
	Base64   []byte    `json:"data_base64,omitempty"`
	Error    string    `json:"error,omitempty"` // of an aggregate that cannot be taken apart
}

// origin is where records come from; stream is empty if there is only one.
type origin struct{ stream, shard string }

// appendRecord prints one record with its line's end.
func appendRecord(to *bytes.Buffer, f Format, of origin, r processor.Record) error {
	if f == Data {
		to.Write(r.Data)
		to.WriteByte('\n')
		return nil
	}
	l := line{Stream: of.stream, Shard: of.shard, Sequence: r.SequenceNumber, Sub: r.SubSequenceNumber, Key: r.PartitionKey, Arrival: r.ApproximateArrival.UTC()}
	if utf8.Valid(r.Data) {
		text := string(r.Data)
		l.Data = &text
	} else {
		l.Base64 = r.Data
	}
	if r.Err != nil {
		l.Error = r.Err.Error()
	}
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false) // data is for other programs, not for a page
	return e.Encode(l)
}
