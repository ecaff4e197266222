package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"
)

// The cases of TestPolling_survivesEachFault are the keys of a map in its file.
func TestFaults_ofPollingAreThoseThatAreTested(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "retrieval", "polling_faults_test.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "pollingFaults" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			name, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			tested = append(tested, name)
		}
		return false
	})
	var documented []string
	for _, row := range table(section(t, document(t, "docs/reading.md"), "## Faults")) {
		documented = append(documented, quoted(row[0])...)
	}
	same(t, "docs/reading.md, Faults", documented, tested)
}
