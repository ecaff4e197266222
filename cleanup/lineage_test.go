package cleanup

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// keys is a range of small numbers.
func keys(from, to uint64) hashkey.Range {
	return hashkey.Range{Start: hashkey.Key{Lo: from}, End: hashkey.Key{Lo: to}, Known: true}
}

func TestChildren_onlyWhenAllAreThere(t *testing.T) {
	t.Parallel()
	g := newLineage([]Shard{
		{"l", []string{"p"}, keys(0, 49)},
		{"r", []string{"p"}, keys(50, 99)},
		{"m", []string{"a", "b"}, keys(100, 299)},
		{"half", []string{"q"}, keys(300, 349)},
		{"unknown", []string{"u"}, hashkey.Range{}},
	})
	for name, c := range map[string]struct {
		id   string
		keys hashkey.Range
		want []string
	}{
		"of a split":                    {"p", keys(0, 99), []string{"l", "r"}},
		"of a merge":                    {"a", keys(100, 199), []string{"m"}},
		"of the other side":             {"b", keys(200, 299), []string{"m"}},
		"half of a split":               {"q", keys(300, 399), nil},
		"none":                          {"l", keys(0, 49), nil},
		"keys not known":                {"p", hashkey.Range{}, nil},
		"child's keys not known":        {"u", keys(1, 2), nil},
		"keys beyond those of children": {"p", keys(0, 100), nil},
	} {
		if d := cmp.Diff(c.want, g.children(c.id, c.keys)); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

func TestOpenKeys_ofUnfinishedLeasesOnly(t *testing.T) {
	t.Parallel()
	row := func(r hashkey.Range, at checkpoint.ExtendedSequenceNumber) leases.Lease {
		return leases.Lease{HashKeyRange: r, Checkpoint: at}
	}
	s := openKeys([]leases.Lease{
		row(keys(50, 99), at("1")), row(keys(0, 49), checkpoint.TrimHorizon),
		row(keys(100, 199), checkpoint.ShardEnd), row(hashkey.Range{}, at("2")), row(keys(200, 299), checkpoint.Latest),
	})
	if d := cmp.Diff(spans{keys(0, 99), keys(200, 299)}, s); d != "" {
		t.Errorf("openKeys (-want +got)\n%s", d)
	}
	if s.cover(hashkey.Range{}) {
		t.Error("a range that is not known is covered by part of the ring")
	}
	if !union([]hashkey.Range{hashkey.Full()}).cover(hashkey.Range{}) {
		t.Error("a range that is not known is not covered by the whole ring")
	}
}

// Against the plain definition, key by key.
func TestSpans_coverWhatTheyWereMadeOf(t *testing.T) {
	t.Parallel()
	some := rapid.Custom(func(t *rapid.T) hashkey.Range {
		from := rapid.Uint64Range(0, 30).Draw(t, "from")
		return keys(from, rapid.Uint64Range(from, 30).Draw(t, "to"))
	})
	rapid.Check(t, func(t *rapid.T) {
		ranges := rapid.SliceOfN(some, 0, 6).Draw(t, "ranges")
		asked := some.Draw(t, "asked")
		want := true
		for k := asked.Start.Lo; k <= asked.End.Lo; k++ {
			want = want && slices.ContainsFunc(ranges, func(r hashkey.Range) bool { return r.Contains(hashkey.Key{Lo: k}) })
		}
		if got := union(slices.Clone(ranges)).cover(asked); got != want {
			t.Fatalf("%v cover %v: %t, want %t", ranges, asked, got, want)
		}
	})
}
