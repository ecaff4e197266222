package golden

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"testing"
)

//go:embed testdata/*.jsonl
var files embed.FS

// Row is one item of a table at a named stage of a worker's life.
type Row struct {
	Stage string          `json:"stage"` // as "created at TRIM_HORIZON"
	KCL   string          `json:"kcl"`   // version, or versions, of the library
	Mode  string          `json:"mode"`  // 2.7, 2x, 3x, phase1, …
	Table string          `json:"table"` // APP, APP-CoordinatorState, APP-WorkerMetricStats
	Item  json.RawMessage `json:"item"`  // DynamoDB JSON, as a Scan gave it
}

// Request is one shape of request, by its first example.
type Request struct {
	Purpose  string          `json:"purpose"` // our label, as "take (unowned or own)"
	KCL      string          `json:"kcl"`
	Mode     string          `json:"mode"`
	Count    int             `json:"count"`  // how often the shape was seen
	Target   string          `json:"target"` // X-Amz-Target
	Body     json.RawMessage `json:"body"`
	Status   int             `json:"response_status"`
	Response json.RawMessage `json:"response"` // lists of more than four items are cut
}

// Trace is one request about a row whose life was followed.
type Trace struct {
	Trace    string          `json:"trace"` // what was going on, as "graceful handoff"
	KCL      string          `json:"kcl"`
	Mode     string          `json:"mode"`
	At       float64         `json:"t"`   // seconds since the trace began
	Who      string          `json:"who"` // the worker
	Purpose  string          `json:"purpose"`
	Target   string          `json:"target"`
	Body     json.RawMessage `json:"body"`
	Status   int             `json:"response_status"` // 0 if the answer was withheld
	Response json.RawMessage `json:"response"`
}

// Rows returns the 419 recorded rows, those of 2.x first.
func Rows(tb testing.TB) []Row {
	tb.Helper()
	return read[Row](tb, "rows-2x", "rows-3x")
}

// Requests returns the 112 recorded shapes of request, those of 2.x first.
func Requests(tb testing.TB) []Request {
	tb.Helper()
	return read[Request](tb, "requests-2x", "requests-3x")
}

// Traces returns the 353 recorded steps in order.
func Traces(tb testing.TB) []Trace {
	tb.Helper()
	return read[Trace](tb, "traces")
}

func read[T any](tb testing.TB, names ...string) []T {
	tb.Helper()
	var all []T
	for _, name := range names {
		data, err := files.ReadFile("testdata/" + name + ".jsonl")
		if err != nil {
			tb.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, len(data)+1)
		for n := 1; lines.Scan(); n++ {
			var one T
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				tb.Fatal(fmt.Errorf("%s.jsonl line %d: %w", name, n, err))
			}
			all = append(all, one)
		}
	}
	return all
}
