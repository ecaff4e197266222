package leases

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
)

func TestShare_changesNothingAndKeepsEqualPartsOnce(t *testing.T) {
	t.Parallel()
	row := func(key, number, nonce string, parents ...string) Lease {
		return Lease{
			Key: strings.Clone(key), Checkpoint: checkpoint.ExtendedSequenceNumber{SequenceNumber: strings.Clone(number)},
			Tenure: &Tenure{Worker: "w", Nonce: strings.Clone(nonce)}, ParentShardIDs: parents,
		}
	}
	own := row("shard", "17", "a/1", "p", "q")
	for name, listed := range map[string]Lease{
		"equal":    row("shard", "17", "a/1", "p", "q"),
		"another":  row("other", "18", "b/1", "p"),
		"in parts": row("shard", "18", "a/1"),
		"empty":    {ParentShardIDs: []string{}},
	} {
		before := listed
		listed.share(&own)
		if d := cmp.Diff(before, listed); d != "" {
			t.Errorf("%s: it is another row now: %s", name, d)
		}
		if listed.Key == own.Key && unsafe.StringData(listed.Key) != unsafe.StringData(own.Key) {
			t.Errorf("%s: the key is there twice", name)
		}
		if same := listed.Tenure == own.Tenure; same != (name == "equal" || name == "in parts") {
			t.Errorf("%s: the same tenure: %v", name, same)
		}
	}
}
