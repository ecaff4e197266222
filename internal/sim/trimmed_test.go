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

// Retention takes a shard and the one that follows it from under a worker that is cut off, and another reads what comes after both before that
// worker is back. The order is kept; that the loss is told, by who holds the first one's lease, is asked at the end.
func TestHandle_aGapThatIsToldLaterIsNoFaultOfTheOrder(t *testing.T) {
	t.Parallel()
	j := newJudge(&history{began: time.Now().Add(-time.Minute), broken: make(chan struct{})}, Schedule{Retention: 20 * time.Second})
	j.put["first"] = []putRecord{{record: record{key: "k", n: 0}, at: time.Second}, {record: record{key: "k", n: 1}, at: 2 * time.Second, lease: "first"}}
	j.put["last"] = []putRecord{{record: record{key: "k", n: 2}, at: 50 * time.Second, lease: "last"}}
	j.lives = map[string]*life{"first": {made: time.Second, numbered: 2 * time.Second}}
	j.newest["k"], j.handled[record{key: "k", n: 0}] = 0, true
	x := &process{name: "p"}
	j.handle(&tenure{process: x, lease: "last", last: map[string]int{}}, record{key: "k", n: 2})
	if len(j.violations) > 0 {
		t.Errorf("%v", j.violations)
	}
	if p, found := j.untold(); !found || p.n != 1 {
		t.Errorf("to be told is %v, %t; want the record that was lost", p, found)
	}
}
