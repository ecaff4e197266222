package shards

import (
	"testing"

	"github.com/shardlease/shardlease/formal/internal/explore"
)

func TestModels_keepTheirRulesAndDrain(t *testing.T) {
	t.Parallel()
	const limit = 30_000 // the others are left to make model
	whole := 0
	for _, m := range Models() {
		g := explore.Run[State](m, limit, true)
		if g.Broken != "" {
			t.Errorf("%s: %s\n%s", m.Name(), g.Broken, g.Trace)
		}
		if g.Broken != "" || g.Truncated {
			continue
		}
		whole++
		for _, d := range m.Duties() {
			if stuck, trace := g.Check(d); stuck > 0 {
				t.Errorf("%s: %s: not from %d states\n%s", m.Name(), d.Name, stuck, trace)
			}
		}
	}
	if whole < 3 {
		t.Errorf("%d models were explored to their ends", whole)
	}
}

func TestVariants_areFound(t *testing.T) {
	t.Parallel()
	for _, v := range Variants() {
		const limit = 30_000
		g := explore.Run[State](v, limit, false)
		if g.Broken != "" == (v.Spare != "") && !g.Truncated {
			t.Errorf("without %q: %q after %d states; spare: %q", v.Guard(), g.Broken, g.Len(), v.Spare)
		}
	}
}

// A script is the production function: EndShard of a shard that was split asks for nothing, creates both rows and names them.
func TestScripts_areWhatProductionCodeAsks(t *testing.T) {
	t.Parallel()
	m := &Model{Stream: split, Named: true}
	m.Initial()
	n := m.begin(task{kind: endShard, shard: 0, named: true})
	for _, want := range []question{{askCreate, 1}, {askCreate, 2}, {askUpdate, 0}} {
		if s := m.scripts[n]; s.done || s.asks != want {
			t.Fatalf("after answers %v it asks %v (done %t), want %v", s.answers, s.asks, s.done, want)
		}
		n = m.answer(n, 1)
	}
	if s := m.scripts[n]; !s.done || !s.ok {
		t.Errorf("after all answers: done %t, ok %t", s.done, s.ok)
	}
}
