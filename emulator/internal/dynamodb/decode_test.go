package dynamodb

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// plain undoes what object does, for comparison with encoding/json.
func plain(v any) any {
	switch v := v.(type) {
	case object:
		m := map[string]any{}
		for _, e := range v {
			m[e.name] = plain(e.value)
		}
		return m
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	}
	return v
}

// FuzzDecode holds our reading of JSON against encoding/json's: the same documents, the same values. We refuse three more
// things: a member that comes twice, bytes that are not UTF-8, and more than 200 levels.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : [ 1 , -2.5e3 , "x\n\u00e9\ud83d\ude00" , null , true , false ] } `, `{"a":{"S":"é"}}`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `"\q"`, `01`, `1.`, `-`, `1e400`,
		`{"a":1,"a":2}`, "\"\x01\"", "\"\xff\"", `nul`, `"abc`, `[[[[`, `{"b":1,"a":2}`, ``,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decode(wire.JSON10, []byte(text))
		var want any
		wantErr := json.Unmarshal([]byte(text), &want)
		if err != nil {
			stricter := strings.Contains(err.Error(), "comes twice") || strings.Contains(err.Error(), "not UTF-8") || strings.Contains(err.Error(), "levels of JSON")
			if wantErr == nil && !stricter {
				t.Fatalf("decode(%q): %v, but encoding/json takes it", text, err)
			}
			return
		}
		if strings.TrimSpace(text) == "" {
			return // an empty body is an empty input
		}
		if wantErr != nil {
			t.Fatalf("decode(%q) = %v, but encoding/json says %v", text, got, wantErr)
		}
		if diff := cmp.Diff(want, plain(got)); diff != "" {
			t.Fatalf("decode(%q) (-encoding/json +ours)\n%s", text, diff)
		}
	})
}

// mapCodec is a codec that decodes to what encoding/json makes, as one for another protocol might.
type mapCodec struct{ wire.JSON }

func (mapCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func TestDecode_takesTheMapsOfOtherCodecs(t *testing.T) {
	t.Parallel()
	const text = `{"b":[{"y":1,"x":{"S":"s"}}],"a":null}`
	want, err := decode(wire.JSON10, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(mapCodec{}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(member{})); diff != "" {
		t.Errorf("(-JSON +maps)\n%s", diff)
	}
	if o, _ := got.(object); o[0].name != "a" || o[1].name != "b" {
		t.Errorf("members are not in order: %v", got)
	}
}
