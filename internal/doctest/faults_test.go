package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"
)

// The cases of a test that strikes a reader with each fault are the keys of a map in its file.
func TestFaults_areThoseThatAreTested(t *testing.T) {
	t.Parallel()
	for doc, in := range map[string]struct{ file, cases string }{
		"docs/reading.md": {"polling_faults_test.go", "pollingFaults"},
		"docs/fan-out.md": {"fanout_faults_test.go", "fanOutFaults"},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "retrieval", in.file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		tested := keysOf(t, f, in.cases)
		var documented []string
		for _, row := range table(section(t, document(t, doc), "## Faults")) {
			if !testName.MatchString(row[len(row)-1]) || len(row) < 3 { // else what has a test of its own
				documented = append(documented, quoted(row[0])...)
			}
		}
		same(t, doc+", Faults", documented, tested)
	}
}

// keysOf are the keys of a map of that name in a file.
func keysOf(t *testing.T, f *ast.File, name string) (keys []string) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != name {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			key, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		return false
	})
	if len(keys) == 0 {
		t.Errorf("there is no map %s with cases", name)
	}
	return keys
}
