package shardsync

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestShardBorn_readsTheTimeInTheIdsOfTableStreams(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int64{
		"shardId-00000001414576573621-f55eea83": 1414576573621,
		"shardId-00000000000000000007-0":        7,
		"shardId-000000000003":                  -1, // of Kinesis
		"shardId-0000000141457657362-f55eea83":  -1,
		"shardId-00000001414576573621":          -1,
		"shardId-00000001414576573621-":         -1,
		"00000001414576573621-f55eea83":         -1,
		"shardId-0000000141457657x621-f55eea83": -1,
		"":                                      -1,
	} {
		born, ok := ShardBorn(id)
		if ok != (want >= 0) || ok && born.UnixMilli() != want {
			t.Errorf("ShardBorn(%q) = %v, %v, want %d", id, born, ok, want)
		}
		created := time.UnixMilli(want).Add(time.Minute)
		if OfEarlierStream(id, created) {
			t.Errorf("%q is taken for a shard of an earlier stream although it may be a minute older than the stream by another clock", id)
		}
		if got := OfEarlierStream(id, created.Add(time.Millisecond)); got != ok {
			t.Errorf("OfEarlierStream(%q) = %v, want %v", id, got, ok)
		}
	}
}

// A shard may end between two requests of one listing.
func TestCloseParents_closesWhatHasAChild(t *testing.T) {
	t.Parallel()
	got := closeParents([]Shard{
		{ID: "a", StartingSequenceNumber: "1"},
		{ID: "b", ParentID: "a", StartingSequenceNumber: "5", EndingSequenceNumber: "7"},
		{ID: "c", ParentID: "b", StartingSequenceNumber: "8"},
		{ID: "d", ParentID: "gone", StartingSequenceNumber: "2"},
	})
	want := []Shard{
		{ID: "a", StartingSequenceNumber: "1", EndingSequenceNumber: "5"},
		{ID: "b", ParentID: "a", StartingSequenceNumber: "5", EndingSequenceNumber: "7"},
		{ID: "c", ParentID: "b", StartingSequenceNumber: "8"},
		{ID: "d", ParentID: "gone", StartingSequenceNumber: "2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("closeParents (-want +got):\n%s", diff)
	}
}
