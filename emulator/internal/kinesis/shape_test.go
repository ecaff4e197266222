package kinesis

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// TestShape_saysTheSameAsTheJSONWrittenByHand: the two ways to an answer's members have them alike.
func TestShape_saysTheSameAsTheJSONWrittenByHand(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_120)
	s := newStream(now, "orders", provisioned, 2)
	x := s.shards[0]
	for _, data := range []string{"", "a\x00ü"} {
		x.append(now, `key "`+data, []byte(data))
	}
	records := x.read(now, x.start, 10, maxPageBytes).records
	children := []childShape{{"shardId-000000000002", []string{x.id}, x.keys()}}
	for name, answer := range map[string]interface {
		wire.JSONAppender
		wire.Shaper
	}{
		"records":               &getRecordsOutput{shard: x, records: records, next: "it", behind: 7, encryption: "KMS"},
		"no records":            &getRecordsOutput{shard: x, next: "it", encryption: "NONE"},
		"end":                   &getRecordsOutput{shard: x, children: children, encryption: "NONE"},
		"end without children":  &getRecordsOutput{shard: x, children: []childShape{}, encryption: "NONE"},
		"event":                 &subscriptionEvent{shard: x, records: records, continuation: "5", behind: 7, encryption: "NONE"},
		"event at the end":      &subscriptionEvent{shard: x, children: children, encryption: "KMS"},
		"event at the very end": &subscriptionEvent{shard: x, children: []childShape{}, encryption: "NONE"},
		"put":                   &putRecordsOutput{failed: 1, encryption: "NONE", results: []putResult{{shard: x, count: 3}, {err: throttled(x)}}},
	} {
		var byHand, byShape any
		if err := json.Unmarshal(answer.AppendJSON(nil), &byHand); err != nil {
			t.Fatal(err)
		}
		encoded, err := wire.CBOR{}.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		// CBOR back into the same shape, and that as JSON.
		shape := answer.Shape()
		back := newOf(shape)
		if err := (wire.CBOR{}).Unmarshal(encoded, back); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := json.Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &byShape); err != nil {
			t.Fatal(err)
		}
		dropEmptyChildren(byHand) // encoding/json leaves them out
		if diff := cmp.Diff(byHand, byShape); diff != "" {
			t.Errorf("%s (-JSON +CBOR):\n%s", name, diff)
		}
	}
}

func newOf(v any) any { return reflect.New(reflect.TypeOf(v)).Interface() }

func dropEmptyChildren(answer any) {
	if m, ok := answer.(map[string]any); ok {
		if list, ok := m["ChildShards"].([]any); ok && len(list) == 0 {
			delete(m, "ChildShards")
		}
	}
}
