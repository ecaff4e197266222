package leases

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// The writes of Table do to a row what the drawing says, and those that it does not show fail.
func TestLifecycle_isWhatTheTableDoes(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bubble) {
		random := rand.New(rand.NewPCG(3, 4))
		number := 0
		var me Tenure // the last that took the row, and what it believes to hold
		var held Lease
		for range 400 {
			row, found, err := b.table.Get(b.ctx, shardKey(0))
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				row = Lease{}
			}
			w := []rowWrite{
				writeCreate, writeTake, writeTake, writeRenew, writeCheckpoint, writeCheckpoint, writeAsk, writeRelease, writeEnd, writeDelete,
			}[random.IntN(10)]
			want, can := nextRow(row.State(), w)
			seen := row
			seen.Key = shardKey(0)
			if me.Nonce == "" && w != writeCreate && w != writeTake && w != writeDelete {
				continue // who never held it has nothing to write
			}
			number++
			place := at(number)
			var wrote Written
			switch w {
			case writeCreate:
				var created bool
				if created, err = b.table.Create(b.ctx, Lease{Key: seen.Key, Checkpoint: checkpoint.TrimHorizon}); !created {
					err = errors.New("there is a row")
				}
			case writeTake:
				next := Tenure{Worker: fmt.Sprint("w", number%3), Nonce: fmt.Sprint("h/1/r/", number), Failover: 10 * second}
				if wrote, err = b.table.Take(b.ctx, seen, next); err == nil {
					me = next
				}
			case writeRenew:
				wrote, err = b.table.Renew(b.ctx, held, me, Renewal{})
			case writeCheckpoint:
				wrote, err = b.table.Update(b.ctx, held, me, Update{Checkpoint: &place})
			case writeEnd:
				wrote, err = b.table.Update(b.ctx, held, me, Update{Checkpoint: &checkpoint.ShardEnd})
			case writeAsk:
				if row.State() != RowOwned {
					continue // StartHandoff would see that in the row
				}
				b.mark(0, "asker", row.Owner)
			case writeRelease:
				err = b.table.Evict(b.ctx, held, me)
			case writeComplete: // not among those drawn
			case writeDelete:
				err = b.table.Delete(b.ctx, seen)
			}
			if err == nil && wrote.Lease.Key != "" {
				held = wrote.Lease
			}
			// What changes nothing may succeed or fail: deleting what is gone, releasing again, ending what has ended.
			idle := row.State() == RowAbsent && w == writeDelete || row.State() == RowUnowned && w == writeRelease || row.State() == RowEnded && (w == writeEnd || row.Owner == "" && (w == writeRenew || w == writeRelease))
			if err != nil && can && !idle {
				t.Fatalf("%v of a row that is %v: %v", w, row.State(), err)
			}
			if err == nil && !can && !idle {
				t.Fatalf("%v of a row that is %v landed", w, row.State())
			}
			after, found, err := b.table.Get(b.ctx, seen.Key)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				after = Lease{}
			}
			if after.State() != want {
				t.Fatalf("%v of a row that was %v leaves it %v, want %v", w, row.State(), after.State(), want)
			}
		}
	})
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
