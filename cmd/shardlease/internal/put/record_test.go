package put

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/producer"
)

func TestToRecord_takesTheKeyFromTheFieldAsItIsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"k":"ATL"}`:                   "ATL",
		`{"k":405}`:                     "405",
		`{"k":1.50}`:                    "1.50",
		`{"k":-0}`:                      "-0",
		`{"k":12345678901234567890}`:    "12345678901234567890",
		`{"k":1e3,"other":[1,2]}`:       "1e3",
		` { "other" : 1 , "k" : "é" } `: "é",
		`{"k":"\u0041\n"}`:              "A\n",
		`{"k":"last","k":"one wins"}`:   "one wins",
	} {
		got, err := toRecord(line{number: 1, text: []byte(text), length: len(text)}, "k")
		if err != nil || got.Key != want || string(got.Data) != text {
			t.Errorf("toRecord(%s) = key %q, data %q, error %v; want key %q and the line as data", text, got.Key, got.Data, err, want)
		}
	}
}

func TestToRecord_saysWhatIsWrongWithALine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"k":`:           "not valid JSON",
		`delay,origin`:    "not valid JSON",
		`{"k":1} {"k":2}`: "not valid JSON",
		`[1,2]`:           "is a JSON array",
		`"k"`:             "is a JSON string",
		`7`:               "is a JSON number",
		`null`:            "is a JSON null",
		`{}`:              `has no field "k": "{}"`,
		`{"K":1}`:         `has no field "k"`,
		`{"k":null}`:      `the field "k" is "null", want a string or a number`,
		`{"k":true}`:      `is "true", want a string or a number`,
		`{"k":{"a":1}}`:   `want a string or a number`,
		`{"k":""}`:        "has 0 characters, want 1 to 256",
		`{"k":"` + strings.Repeat("é", 257) + `"}`: "has 257 characters, want 1 to 256",
	} {
		if _, err := toRecord(line{number: 1, text: []byte(text), length: len(text)}, "k"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("toRecord(%.40s) = error %v, want one that contains %q", text, err, want)
		}
	}
}

func TestToRecord_countsTheKeyToTheLimit(t *testing.T) {
	t.Parallel()
	text := []byte(`{"k":"abc","pad":"` + strings.Repeat("x", producer.MaxRecordBytes-23) + `"}`)
	if len(text)+3 != producer.MaxRecordBytes {
		t.Fatalf("the line has %d bytes", len(text))
	}
	if _, err := toRecord(line{number: 1, text: text, length: len(text)}, "k"); err != nil {
		t.Errorf("a line that fills a record with its key: %v", err)
	}
	text = append(text, ' ')
	if _, err := toRecord(line{number: 1, text: text, length: len(text)}, "k"); err == nil || !strings.Contains(err.Error(), "1048576 (1 MiB)") {
		t.Errorf("a byte more: error %v, want the limit", err)
	}
}

func TestLineReader_splitsAsWritten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 200_000)
	for name, c := range map[string]struct {
		in   string
		want []line
	}{
		"nothing":           {"", nil},
		"one line":          {"a\n", []line{{1, []byte("a"), 1}}},
		"no end":            {"a\nb", []line{{1, []byte("a"), 1}, {2, []byte("b"), 1}}},
		"CRLF":              {"a\r\n\r\nb\r\n", []line{{1, []byte("a"), 1}, {2, []byte{}, 0}, {3, []byte("b"), 1}}},
		"blank":             {"\n\na\n", []line{{1, []byte{}, 0}, {2, []byte{}, 0}, {3, []byte("a"), 1}}},
		"longer than limit": {long + "\nb\n", []line{{1, []byte(long[:100_002]), 200_000}, {2, []byte("b"), 1}}},
		"at the limit":      {long[:100_000] + "\r\n", []line{{1, []byte(long[:100_000]), 100_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLineReader(strings.NewReader(c.in), 100_000)
			var got []line
			for {
				l, err := r.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, l)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(line{})); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
