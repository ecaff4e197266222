package sim

import (
	"testing"
	"time"
)

// A parent is read to its end so late that retention takes a child's first records before the child gets its lease. The child is read from
// what is left; nobody can know that there was more. Of a child that came and went unseen the end of its parent is to be told.
func TestUntold_aLossBeforeTheFirstReadNeedNotBeToldIfTheShardWasStillThere(t *testing.T) {
	t.Parallel()
	j := &judge{history: &history{began: time.Now().Add(-time.Minute)}, handled: map[record]bool{}, put: map[string][]putRecord{
		"child": {{record: record{key: "k", n: 1}, at: 5 * time.Second}},
	}}
	j.trims = trims{
		retention: 20 * time.Second, may: true, parents: map[string][]string{"child": {"parent"}}, gone: map[string]bool{},
		lives: map[string]*life{"parent": {made: time.Second, numbered: 2 * time.Second}, "child": {made: 30 * time.Second, numbered: 31 * time.Second}},
	}
	if p, found := j.untold(); found {
		t.Errorf("%s was to be told", p)
	}
	delete(j.lives, "child")
	if _, found := j.untold(); !found {
		t.Error("the loss of a whole shard that had no lease, and whose parent's end is not told, need not be told")
	}
	j.gone["parent"] = true
	if p, found := j.untold(); found {
		t.Errorf("%s was to be told, although the parent's end was", p)
	}
}
