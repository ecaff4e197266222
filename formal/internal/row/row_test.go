package row

import (
	"testing"

	"github.com/shardlease/shardlease/formal/internal/explore"
)

func TestSmallModel_keepsItsRulesAndIsStuckNowhere(t *testing.T) {
	t.Parallel()
	m := Small()
	g := explore.Run[State](m, 500_000, true)
	if g.Broken != "" || g.Truncated || g.Len() < 10_000 {
		t.Fatalf("%d states, truncated %t, %s\n%s", g.Len(), g.Truncated, g.Broken, g.Trace)
	}
	for _, d := range m.Duties() {
		if stuck, trace := g.Check(d); stuck > 0 {
			t.Errorf("%s: not from %d states\n%s", d.Name, stuck, trace)
		}
	}
	t.Logf("%d states", g.Len())
}

// Those that take longest are left to make model.
func TestVariants_areFound(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, v := range Variants() {
		if named[v.Guard()] || v.Guard() == "" {
			t.Errorf("guard %q is listed twice, or has no name", v.Guard())
		}
		named[v.Guard()] = true
		const limit = 20_000
		g := explore.Run[State](v, limit, false)
		if g.Broken != "" == (v.Spare != "") && !g.Truncated {
			t.Errorf("without %q: %q after %d states; spare: %q", v.Guard(), g.Broken, g.Len(), v.Spare)
		}
	}
	if len(named) != len(guardNames)-1 {
		t.Errorf("%d variants for %d guards", len(named), len(guardNames)-1)
	}
}
