package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrdered_behavesAsASortedMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o ordered
		model := map[string]*row{}
		// Enough keys that blocks split and vanish.
		for range rapid.IntRange(0, 3000).Draw(t, "steps") {
			key := fmt.Sprintf("%04d", rapid.IntRange(1, 1500).Draw(t, "key"))
			if rapid.IntRange(0, 2).Draw(t, "action") == 0 {
				o.remove(key)
				delete(model, key)
			} else {
				r := &row{}
				o.put(key, r)
				model[key] = r
			}
		}
		if o.count != len(model) {
			t.Fatalf("count %d, want %d", o.count, len(model))
		}
		keys := slices.Sorted(maps.Keys(model))
		for _, k := range keys {
			if o.get(k) != model[k] {
				t.Fatalf("get(%s) is not what was put", k)
			}
		}
		from := fmt.Sprintf("%04d", rapid.IntRange(0, 1501).Draw(t, "from"))
		var up, down, wantUp, wantDown []string
		o.ascend(from, func(k string, _ *row) bool { up = append(up, k); return true })
		o.descend(from, func(k string, _ *row) bool { down = append(down, k); return true })
		for _, k := range keys {
			if k > from {
				wantUp = append(wantUp, k)
			}
			if k < from {
				wantDown = append(wantDown, k)
			}
		}
		slices.Reverse(wantDown)
		if diff := cmp.Diff(wantUp, up) + cmp.Diff(wantDown, down); diff != "" {
			t.Fatalf("from %s (-want +got):\n%s", from, diff)
		}
	})
}

func TestSegments_coverEachPositionOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 5000).Draw(t, "total")
		position := partition(stringValue(rapid.String().Draw(t, "key")))
		segment := segmentOf(position, total)
		if segment < 0 || segment >= total {
			t.Fatalf("segment %d of %d", segment, total)
		}
		if start := segmentStart(segment, total); start > position {
			t.Fatalf("segment %d of %d starts at %x, above its position %x", segment, total, start, position)
		}
		if segment+1 < total {
			if next := segmentStart(segment+1, total); next <= position {
				t.Fatalf("segment %d of %d starts at %x, not above the position %x of the one before", segment+1, total, next, position)
			}
		}
	})
}
