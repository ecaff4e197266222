package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// FuzzScanner_string: what the scanner takes for a string is one, with the same value.
func FuzzScanner_string(f *testing.F) {
	for _, s := range []string{`"plain"`, `"ü😀"`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9\ud83d\ude00"`, `"\ud800"`, "\"\x01\"", "\"\xff\"", `"open`, `"a" "b"`, `  "x"  `, `"\x"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := wire.NewScanner(data)
		got, err := s.String()
		if err == nil {
			err = s.End()
		}
		var want string
		wantErr := json.Unmarshal(data, &want)
		if isString := wantErr == nil && string(data) != "null" && json.Valid(data); (err == nil) != isString && err == nil {
			t.Fatalf("%q: accepted as %q, encoding/json says %v", data, got, wantErr)
		}
		if err == nil && string(got) != want {
			t.Errorf("%q: got %q, want %q", data, got, want)
		}
		if err != nil && wantErr == nil && len(data) > 0 && want != "" {
			t.Errorf("%q: %v, but encoding/json takes it", data, err)
		}
	})
}

func TestTime_isSecondsWithMilliseconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		millis int64
		text   string
	}{{0, "0.000"}, {1, "0.001"}, {1_700_000_000_120, "1700000000.120"}, {-1500, "-1.500"}} {
		text, err := json.Marshal(wire.Time{Time: time.UnixMilli(c.millis)})
		if err != nil || string(text) != c.text {
			t.Errorf("%d ms is written %s, %v; want %s", c.millis, text, err, c.text)
		}
		var back wire.Time
		if err := json.Unmarshal(text, &back); err != nil || back.UnixMilli() != c.millis {
			t.Errorf("%s is read as %d ms, %v; want %d", text, back.UnixMilli(), err, c.millis)
		}
	}
	for _, s := range []string{`"1"`, `1e300`, `{}`} {
		if err := json.Unmarshal([]byte(s), new(wire.Time)); err == nil {
			t.Errorf("%s is taken for a time", s)
		}
	}
	var exp wire.Time
	if err := json.Unmarshal([]byte("1.7E9"), &exp); err != nil || exp.Unix() != 1_700_000_000 {
		t.Errorf("1.7E9 is read as %v, %v", exp, err)
	}
}
