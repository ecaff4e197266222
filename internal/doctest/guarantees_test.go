package doctest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const guarantees = "docs/guarantees.md"

// tests are the names of all tests of the repository, and the text of all its Go files.
func tests(t *testing.T) (names map[string]bool, code string) {
	t.Helper()
	names = map[string]bool{}
	var all strings.Builder
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		all.Write(text)
		if !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, all.String()
}

var caseNames = regexp.MustCompile(`\*\(cases? ([^)]*)\)\*`)

var testName = regexp.MustCompile("`(Test\\w+)`")

func TestGuarantees_nameTestsThatExist(t *testing.T) {
	t.Parallel()
	exist, code := tests(t)
	for _, doc := range []string{guarantees, "docs/fencing.md", "docs/reading.md", "docs/fan-out.md", "docs/multi-stream.md", "docs/dynamodb-streams.md", operations} {
		named := testName.FindAllStringSubmatch(document(t, doc), -1)
		if len(named) == 0 {
			t.Errorf("%s names no tests", doc)
		}
		for _, n := range named {
			if !exist[n[1]] {
				t.Errorf("%s names %s, which does not exist", doc, n[1])
			}
		}
		for _, n := range caseNames.FindAllStringSubmatch(document(t, doc), -1) {
			for name := range strings.SplitSeq(n[1], ", ") {
				if !strings.Contains(code, `"`+name+`"`) {
					t.Errorf("%s names the case %q, which does not exist", doc, name)
				}
			}
		}
	}
}

func TestGuarantees_nameATestForEachPromise(t *testing.T) {
	t.Parallel()
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprint("S", i+1))
	}
	for i := range 5 {
		want = append(want, fmt.Sprint("L", i+1))
	}
	rows := map[string][]string{}
	for _, row := range table(section(t, document(t, guarantees), "## What is promised")) {
		rows[row[0]] = row
	}
	for _, id := range want {
		row := rows[id]
		if len(row) != 4 || !testName.MatchString(row[3]) || strings.TrimSpace(row[2]) == "" {
			t.Errorf("promise %s has row %q, want the promise, what it needs and its tests", id, row)
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d promises, want %d", len(rows), len(want))
	}
}

// Every race of the Java KCL's history has its row, once, with the test that drives it or one sentence why it cannot happen.
func TestGuarantees_haveARowForEachRace(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"R25b": true}
	for i := 1; i <= 40; i++ {
		if i <= 26 || i >= 30 {
			want[fmt.Sprint("R", i)] = true
		}
	}
	for i := 1; i <= 15; i++ {
		want[fmt.Sprint("H", i)] = true
	}
	seen := map[string]bool{}
	withTest := 0
	for _, row := range table(section(t, document(t, guarantees), "## Races")) {
		id := row[0]
		switch {
		case !want[id]:
			t.Errorf("row %q is of no race", id)
		case seen[id]:
			t.Errorf("race %s has two rows", id)
		case len(row) != 4 || row[1] == "" || row[2] == "":
			t.Errorf("race %s has row %q, want what it is, why it cannot hurt, and what shows it", id, row)
		case testName.MatchString(row[3]):
			withTest++
		case !strings.HasPrefix(row[3], "– ") || len(strings.Fields(row[3])) < 5 || !strings.HasPrefix(row[2], "does not apply: "):
			t.Errorf("race %s names neither a test nor why there is none: %q", id, row[3])
		}
		seen[id] = true
	}
	for id := range want {
		if !seen[id] {
			t.Errorf("race %s has no row", id)
		}
	}
	t.Logf("races %d, of which %d name tests", len(seen), withTest)
}
