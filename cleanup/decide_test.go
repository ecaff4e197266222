package cleanup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/leases"
)

func at(sequence string) checkpoint.ExtendedSequenceNumber {
	return checkpoint.ExtendedSequenceNumber{SequenceNumber: sequence}
}

func lease(key string, at checkpoint.ExtendedSequenceNumber) leases.Lease {
	return leases.Lease{Key: key, Checkpoint: at}
}

func pinned(l leases.Lease) leases.Lease {
	l.StartAtMillis = 1_700_000_000_000
	return l
}

// KCL's own cases (LeaseCleanupManagerTest) stand under their names there, L1 to L12; four of them have no counterpart:
// cleanup cannot be switched off (L3), nothing is queued (L8), and a manager runs once (L11). L10 is two cases here.
func TestDecide(t *testing.T) {
	t.Parallel()
	type rows = []leases.Lease
	split := leases.Lease{Key: "p", Checkpoint: checkpoint.ShardEnd, ParentShardIDs: []string{"g"}, ChildShardIDs: []string{"l", "r"}}
	merge := leases.Lease{Key: "p", Checkpoint: checkpoint.ShardEnd, ChildShardIDs: []string{"m"}}
	silent := leases.Lease{Key: "p", Checkpoint: checkpoint.ShardEnd}
	l, r, m := lease("l", at("7")), lease("r", at("8")), lease("m", at("9"))
	open := split
	open.Checkpoint = at("5")
	grandparent := lease("g", checkpoint.ShardEnd)
	stay := func(why Reason, about string) Verdict { return Verdict{Reason: why, About: about} }
	completed, garbage := Verdict{Delete: true, Reason: Completed}, Verdict{Delete: true, Reason: Garbage}
	gone, goneAndCovered := Known{Gone: true}, Known{Gone: true, Covered: true}

	for name, c := range map[string]struct {
		lease             leases.Lease
		parents, children rows
		known             Known
		want              Verdict
	}{
		"L1 split, both children at LATEST":                   {split, nil, rows{pinned(lease("l", checkpoint.Latest)), pinned(lease("r", checkpoint.Latest))}, Known{}, completed},
		"L2 merge, child at LATEST":                           {merge, nil, rows{pinned(lease("m", checkpoint.Latest))}, Known{}, completed},
		"L4 split, no child has a lease":                      {split, nil, nil, Known{}, stay(ChildMissing, "l")},
		"L5 merge, child at TRIM_HORIZON":                     {merge, nil, rows{lease("m", checkpoint.TrimHorizon)}, Known{}, stay(ChildNotBegun, "m")},
		"L7 a parent's lease remains":                         {split, rows{grandparent}, rows{l, r}, Known{}, stay(ParentRemains, "g")},
		"L10 shard gone":                                      {split, nil, nil, goneAndCovered, garbage},
		"L10 shard gone, its keys nowhere (X19, KCL deletes)": {split, nil, nil, gone, stay(Uncovered, "")},
		"L12 no children known (X5, KCL deletes)":             {silent, nil, nil, Known{}, stay(ChildrenUnknown, "")},

		// kcl-lease-layer §9.9
		"merge, child at AT_TIMESTAMP":                     {merge, nil, rows{lease("m", checkpoint.AtTimestamp)}, Known{}, stay(ChildNotBegun, "m")},
		"merge, child at AT_TIMESTAMP, pinned":             {merge, nil, rows{pinned(lease("m", checkpoint.AtTimestamp))}, Known{}, stay(ChildNotBegun, "m")},
		"merge, child at TRIM_HORIZON, pinned":             {merge, nil, rows{pinned(lease("m", checkpoint.TrimHorizon))}, Known{}, stay(ChildNotBegun, "m")},
		"split, one child at LATEST without a time":        {split, nil, rows{l, lease("r", checkpoint.Latest)}, Known{}, stay(ChildNotBegun, "r")},
		"shard gone, parent remains (KCL deletes)":         {split, rows{grandparent}, nil, goneAndCovered, stay(ParentRemains, "g")},
		"split, both children have checkpoints":            {split, nil, rows{r, l}, Known{}, completed},
		"split, a child is finished":                       {split, nil, rows{l, lease("r", checkpoint.ShardEnd)}, Known{}, completed},
		"split, one child is missing":                      {split, nil, rows{l}, Known{}, stay(ChildMissing, "r")},
		"split, one child has not begun":                   {split, nil, rows{lease("l", checkpoint.TrimHorizon), r}, Known{}, stay(ChildNotBegun, "l")},
		"a row without checkpoint has not begun":           {merge, nil, rows{lease("m", checkpoint.ExtendedSequenceNumber{})}, Known{}, stay(ChildNotBegun, "m")},
		"not finished, all else well":                      {open, nil, rows{l, r}, goneAndCovered, stay(Unfinished, "")},
		"not finished, at TRIM_HORIZON":                    {lease("p", checkpoint.TrimHorizon), nil, nil, goneAndCovered, stay(Unfinished, "")},
		"children known from elsewhere":                    {silent, nil, rows{m}, Known{ChildIDs: []string{"m"}}, completed},
		"children known from elsewhere, one missing":       {silent, nil, rows{l}, Known{ChildIDs: []string{"l", "r"}}, stay(ChildMissing, "r")},
		"the row's own children count first":               {merge, nil, rows{m}, Known{ChildIDs: []string{"x"}}, completed},
		"a stranger's row is no child's":                   {merge, nil, rows{l}, Known{}, stay(ChildMissing, "m")},
		"gone, children unknown, covered":                  {silent, nil, nil, goneAndCovered, garbage},
		"gone, children unknown, not covered":              {silent, nil, nil, gone, stay(Uncovered, "")},
		"gone, child waits, covered: it waits for nobody":  {merge, nil, rows{lease("m", checkpoint.TrimHorizon)}, goneAndCovered, garbage},
		"gone, and all children have begun":                {merge, nil, rows{m}, gone, completed},
		"finished a moment ago, all else well":             {merge, nil, rows{m}, Known{JustFinished: true}, stay(JustFinished, "")},
		"finished a moment ago, gone and covered":          {silent, nil, nil, Known{Gone: true, Covered: true, JustFinished: true}, stay(JustFinished, "")},
		"finished a moment ago, child waits":               {merge, nil, rows{lease("m", checkpoint.TrimHorizon)}, Known{JustFinished: true}, stay(ChildNotBegun, "m")},
		"covered but not gone":                             {merge, nil, nil, Known{Covered: true}, stay(ChildMissing, "m")},
		"a stream's row of many: children by id of shard":  {merge, nil, rows{{Key: "1:orders:1:m", ShardID: "m", Checkpoint: at("3")}}, Known{}, completed},
		"sequence number 0 is a checkpoint":                {merge, nil, rows{lease("m", at("0"))}, Known{}, completed},
		"finished child needs no time although LATEST was": {merge, nil, rows{lease("m", checkpoint.ShardEnd)}, Known{}, completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, Decide(c.lease, c.parents, c.children, c.known)); d != "" {
				t.Errorf("Decide (-want +got)\n%s", d)
			}
		})
	}
}

func TestReason_saysItInWords(t *testing.T) {
	t.Parallel()
	seen := map[string]Reason{}
	for r := Unfinished; r <= Garbage; r++ {
		s := r.String()
		if before, twice := seen[s]; twice || s == "" {
			t.Errorf("reasons %d and %d are both %q", before, r, s)
		}
		seen[s] = r
	}
	if len(seen) != len(reasonNames) {
		t.Errorf("%d names, %d reasons", len(reasonNames), len(seen))
	}
}
