package demo

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/loop"
)

// reshard makes so many changes to a stream of 4 shards whose records are all stored, and returns what it said and the
// resharder.
func reshard(t *testing.T, seed uint64, changes int) ([]string, *resharder) {
	t.Helper()
	server := emulator.New()
	if err := server.CreateStream(stream, 4); err != nil {
		t.Fatal(err)
	}
	b := newBoard(loop.Real(), 1)
	b.store("a", "shardId-000000000000")
	low, high := bounds(4)
	r := &resharder{stream: stream, api: kinesis.NewFromConfig(server.AWSConfig()), board: b, random: rand.New(rand.NewPCG(seed, 3)), low: low, high: high}
	if err := r.run(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range b.timeline {
		said = append(said, e.text)
	}
	return said, r
}

func TestResharder_splitsAndMergesOnceUnlessAskedForMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said, _ := reshard(t, 1, 0)
		if len(said) != 2 || !strings.HasPrefix(said[0], "split of shard ") || !strings.HasPrefix(said[1], "merge of shard ") {
			t.Errorf("it did %q, want a split and a merge", said)
		}
	})
}

func TestResharder_makesAsManyChangesAsAskedTheSameOnesForASeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said, r := reshard(t, 7, 50)
		if len(said) != 50 {
			t.Errorf("it made %d changes, want 50", len(said))
		}
		for _, kind := range []string{"split of ", "merge of ", "scaling from "} {
			if !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, kind) }) {
				t.Errorf("50 changes without a %q: %q", kind, said)
			}
		}
		open, err := r.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(open); n < 2 || n > 8 {
			t.Errorf("%d shards are open, want 2 to 8", n)
		}
		again, _ := reshard(t, 7, 50)
		if diff := cmp.Diff(said, again); diff != "" {
			t.Errorf("the same seed did other things (-first +second):\n%s", diff)
		}
		if other, _ := reshard(t, 8, 50); slices.Equal(said, other) {
			t.Error("another seed did the same things")
		}
	})
}

func TestResharder_putsALastRecordIntoEachOpenShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, r := reshard(t, 3, 5)
		open, err := r.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.putLast(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		if r.board.stored != 9 {
			t.Errorf("the board counts %d records, want the first one and 8", r.board.stored)
		}
		for _, id := range ids(open) {
			if s := r.board.shards[id]; s == nil || s.stored == 0 {
				t.Errorf("nothing was put into %s", id)
			}
		}
	})
}

func TestInventory_comparesRowsAndOpenShards(t *testing.T) {
	t.Parallel()
	const one, two, three = "shardId-000000000001", "shardId-000000000002", "shardId-000000000003"
	for name, c := range map[string]struct {
		inventory inventory
		want      string
		ok        bool
	}{
		"the same":         {inventory{rows: []string{one, two}, open: []string{one, two}}, "  rows 2, open shards 2\n", true},
		"rows are left":    {inventory{rows: []string{one, two, three}, open: []string{three}}, "  rows 3, open shards 1\n    left for shards 1, 2: the row of a finished shard stays", true},
		"a row is missing": {inventory{rows: []string{one}, open: []string{one, two}}, "  rows 1, open shards 2\n    none for shard 2, though open\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			c.inventory.print(&text)
			if !strings.Contains(text.String(), c.want) {
				t.Errorf("printed\n%s\nwant %q", &text, c.want)
			}
			if ok := len(c.inventory.missing()) == 0; ok != c.ok {
				t.Errorf("nothing is missing: %v, want %v", ok, c.ok)
			}
		})
	}
}
