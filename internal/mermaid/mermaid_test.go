package mermaid

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEdges_readsOnlyTheDrawingOfThatTitle(t *testing.T) {
	t.Parallel()
	const doc = "```mermaid\nstateDiagram-v2\n%% one\n[*] --> A\nA --> B: go\n```\n" +
		"//\tstateDiagram-v2\n//\t%% two\n//\tA --> C: stop, or leave\n//\tC --> [*]\n"
	want := []Edge{{"A", "B", "go"}}
	if d := cmp.Diff(want, Edges(doc, "one")); d != "" {
		t.Errorf("one: (-want +got)\n%s", d)
	}
	want = []Edge{{"A", "C", "stop, or leave"}}
	if d := cmp.Diff(want, Edges(doc, "two")); d != "" {
		t.Errorf("two: (-want +got)\n%s", d)
	}
}
