package leases

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/internal/mermaid"
)

const lifecycleDoc = "../docs/lease-lifecycle.md"

// drawn returns the edges of a drawing in docs/lease-lifecycle.md, as "from --> to: label", sorted.
func drawn(t *testing.T, title string) []string {
	t.Helper()
	text, err := os.ReadFile(lifecycleDoc)
	if err != nil {
		t.Fatal(err)
	}
	var edges []string
	for _, e := range mermaid.Edges(string(text), title) {
		edges = append(edges, edge(e.From, e.To, e.Label))
	}
	slices.Sort(edges)
	return edges
}

func edge(from, to, label string) string {
	return strings.ReplaceAll(from, "_", " ") + " --> " + strings.ReplaceAll(to, "_", " ") + ": " + label
}

func TestLifecycle_isAsDrawn(t *testing.T) {
	t.Parallel()
	var coded []string
	for s := range RowState(len(rowStateNames)) {
		for w := range rowWrite(len(rowWriteNames)) {
			next, ok := nextRow(s, w)
			if ok {
				coded = append(coded, edge(s.String(), next.String(), w.String()))
			} else if next != s {
				t.Errorf("%v in state %v cannot land and leads to %v", w, s, next)
			}
		}
	}
	slices.Sort(coded)
	if d := cmp.Diff(drawn(t, "lease row"), coded); d != "" {
		t.Errorf("%s and nextRow differ (-drawn +coded)\n%s", lifecycleDoc, d)
	}
}

func TestKnowledge_isAsDrawn(t *testing.T) {
	t.Parallel()
	// Pairs that cannot meet: what was not read before cannot be unchanged or expire, nobody's time passes on a free row.
	impossible := map[string]bool{
		edge("unseen", "fresh", "read unchanged"): true, edge("unseen", "unseen", "failover time passed"): true,
		edge("unseen", "unseen", "gone"): true, edge("free", "fresh", "read unchanged"): true,
		edge("free", "free", "failover time passed"): true, edge("stale", "stale", "failover time passed"): true,
	}
	var coded []string
	for k := range Knowledge(len(knowledgeNames)) {
		for s := range sight(len(sightNames)) {
			if e := edge(k.String(), nextKnowledge(k, s).String(), s.String()); !impossible[e] {
				coded = append(coded, e)
			}
		}
	}
	slices.Sort(coded)
	if d := cmp.Diff(drawn(t, "what a worker knows"), coded); d != "" {
		t.Errorf("%s and nextKnowledge differ (-drawn +coded)\n%s", lifecycleDoc, d)
	}
}

func TestLease_stateSeesThroughWhatHandoffsLeaveBehind(t *testing.T) {
	t.Parallel()
	tenure := func(worker string, at int64) *Tenure { return &Tenure{Worker: worker, Nonce: "n", At: at} }
	for name, c := range map[string]struct {
		lease Lease
		want  RowState
	}{
		"no row":               {Lease{}, RowAbsent},
		"created":              {Lease{Key: "s"}, RowUnowned},
		"owned by Go":          {Lease{Key: "s", Owner: "a", Counter: 3, Tenure: tenure("a", 3)}, RowOwned},
		"owned by Java":        {Lease{Key: "s", Owner: "j", Counter: 3}, RowOwned},
		"asked":                {Lease{Key: "s", Owner: "b", CheckpointOwner: "a", HandoffTo: "b", Counter: 3, Tenure: tenure("a", 3)}, RowHandingOver},
		"Java took it since":   {Lease{Key: "s", Owner: "j", CheckpointOwner: "a", HandoffTo: "b", Counter: 4, Tenure: tenure("a", 3)}, RowOwned},
		"Java mark":            {Lease{Key: "s", Owner: "j", CheckpointOwner: "k", Counter: 4}, RowOwned},
		"handed over":          {Lease{Key: "s", Owner: "b", HandoffTo: "b", Counter: 4, Tenure: tenure("a", 4)}, RowInTransit},
		"ended":                {Lease{Key: "s", Owner: "a", Checkpoint: checkpoint.ShardEnd, Counter: 4, Tenure: tenure("a", 4)}, RowEnded},
		"ended and given up":   {Lease{Key: "s", Checkpoint: checkpoint.ShardEnd}, RowEnded},
		"ended while asked":    {Lease{Key: "s", Owner: "b", CheckpointOwner: "a", HandoffTo: "b", Checkpoint: checkpoint.ShardEnd, Counter: 3, Tenure: tenure("a", 3)}, RowEnded},
		"released with tenure": {Lease{Key: "s", Counter: 9, Tenure: tenure("a", 9)}, RowUnowned},
	} {
		if got := c.lease.State(); got != c.want {
			t.Errorf("%s: state is %v, want %v", name, got, c.want)
		}
	}
}
