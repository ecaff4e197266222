package doctest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What docs/fencing.md shows is what the examples run.
func TestFencing_showsWhatTheExamplesRun(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "examples", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %d files, error %v", len(files), err)
	}
	var code strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	blocks := strings.Split(document(t, "docs/fencing.md"), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Error("docs/fencing.md shows no code")
	}
	for _, b := range blocks {
		if b, _, _ = strings.Cut(b, "```"); !strings.Contains(code.String(), b) {
			t.Errorf("docs/fencing.md shows what no example has:\n%s", b)
		}
	}
}
