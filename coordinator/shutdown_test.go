package coordinator

import (
	_ "embed"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/internal/mermaid"
)

//go:embed doc.go
var docText string

func TestWorkerStates_areThoseOfTheDrawing(t *testing.T) {
	t.Parallel()
	drawn := map[mermaid.Edge]bool{}
	for _, e := range mermaid.Edges(docText, "worker") {
		drawn[e] = true
	}
	built := map[mermaid.Edge]bool{}
	for s := New; s <= Stopped; s++ {
		for e := evRun; e <= evReleased; e++ {
			if to := next(s, e); to != s {
				built[mermaid.Edge{From: s.String(), To: to.String(), Label: e.String()}] = true
			}
		}
	}
	if d := cmp.Diff(drawn, built); d != "" {
		t.Errorf("drawing and code differ (-drawn +built)\n%s", d)
	}
}

func TestWorkerStates_neverGoBack(t *testing.T) {
	t.Parallel()
	for s := New; s <= Stopped; s++ {
		for e := evRun; e <= evReleased; e++ {
			if to := next(s, e); to < s {
				t.Errorf("next(%v, %v) = %v, want nothing before %v", s, e, to, s)
			}
		}
	}
}
