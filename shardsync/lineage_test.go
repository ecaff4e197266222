package shardsync

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

func TestOfTableStream_refusesTheLeasesOfAnotherStream(t *testing.T) {
	t.Parallel()
	const mine = "arn:aws:dynamodb:us-east-1:000000000000:table/orders/stream/2026-01-02T03:04:05.678"
	for of, want := range map[string]string{
		mine: "",
		"":   "is one of no stream of a table",
		"arn:aws:dynamodb:us-east-1:000000000000:table/orders/stream/2026-01-01T00:00:00.000": "set StreamARN to that earlier or later stream of the table",
		"arn:aws:dynamodb:us-east-1:000000000000:table/bills/stream/2026-01-02T03:04:05.678":  "set StreamARN to that one",
		"arn:aws:dynamodb:us-east-1:000000000000:table/orders2/stream/2026-01-02":             "set StreamARN to that one",
	} {
		err := OfTableStream(leases.Lease{Key: "shardId-1", StreamARN: of}, mine)
		if want == "" && err == nil {
			continue
		}
		if !errors.Is(err, ErrOtherHistory) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), mine) {
			t.Errorf("a lease of %q: %v, want %q", of, err, want)
		}
	}
}

// What was read to its end, and whose row is gone, must not get a lease again because an old listing shows it as open.
func TestCurrent_refusesAListingThatIsOlderThanTheLeases(t *testing.T) {
	t.Parallel()
	const root, child, grandchild = "shardId-00000001536611227703-aa", "shardId-00000001536625627703-bb", "shardId-00000001536640027703-cc"
	unfinished := []leases.Lease{{Key: grandchild, ParentShardIDs: []string{child}, Checkpoint: checkpoint.TrimHorizon}}
	for name, c := range map[string]struct {
		listed []string
		have   []leases.Lease
		old    bool
	}{
		"from before the roots ended":         {[]string{root}, unfinished, true},
		"from before the children ended":      {[]string{root, child}, unfinished, true},
		"as it is":                            {[]string{root, child, grandchild}, unfinished, false},
		"with shards that have no leases yet": {[]string{child, grandchild, "shardId-00000001536654427703-00"}, unfinished, false},
		"the lease that says so is finished":  {[]string{root}, []leases.Lease{{Key: grandchild, Checkpoint: checkpoint.ShardEnd}}, false},
	} {
		var shards []Shard
		for _, id := range c.listed {
			shards = append(shards, Shard{ID: id})
		}
		if err := current(shards, c.have); errors.Is(err, ErrInconsistent) != c.old || !c.old && err != nil {
			t.Errorf("%s: %v, want that it is old: %t", name, err, c.old)
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
