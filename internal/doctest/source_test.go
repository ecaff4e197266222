package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// helpers are folders that a document may name as a whole: what is in them is not part of a user's program.
var helpers = []string{"cmd/", "emulator/", "formal/", "examples/", "integration/", "internal/"}

// products are the exceptions.
var products = []string{"internal/loop/", "internal/awshttp/", "internal/states/"}

func isProduct(file string) bool {
	under := func(folders []string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(file, f) })
	}
	return !under(helpers) || under(products)
}

// source is one file of the repository that is no test.
type source struct {
	path string // from the root, with slashes
	ast  *ast.File
}

var sources = sync.OnceValues(func() ([]source, error) {
	var all []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		all = append(all, source{filepath.ToSlash(rel), f})
		return err
	})
	return all, err
})

func allSources(t *testing.T) []source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func productSources(t *testing.T) []source {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(allSources(t)), func(s source) bool { return !isProduct(s.path) })
}

// declared are the names at the top level of a file.
func (s source) declared() map[string]bool {
	names := map[string]bool{}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	return names
}

// owner names the function or method: "follow", "LeaseRenewer.Run".
func owner(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// functions calls f for every function with a body.
func (s source) functions(f func(name string, body *ast.BlockStmt)) {
	for _, d := range s.ast.Decls {
		if fd, ok := d.(*ast.FuncDecl); ok && fd.Body != nil {
			f(owner(fd), fd.Body)
		}
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section is what follows a heading, up to the next one of its rank or higher.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut("\n"+text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	rank := strings.IndexByte(heading, ' ')
	var b strings.Builder
	for line := range strings.Lines(rest) {
		if hashes := len(line) - len(strings.TrimLeft(line, "#")); hashes > 0 && hashes <= rank && strings.HasPrefix(line[hashes:], " ") {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// table returns the rows of all tables in text, without their heads.
func table(text string) (rows [][]string) {
	head := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			head = true
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if strings.Trim(cells[0], "-: ") == "" && strings.Contains(cells[0], "-") {
			head = false
			continue
		}
		if head {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

var code = regexp.MustCompile("`([^`]+)`")

// quoted are the words in back-quotes.
func quoted(text string) (words []string) {
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// same fails unless a document and the source name the same things.
func same(t *testing.T, what string, documented, coded []string) {
	t.Helper()
	slices.Sort(coded)
	for _, name := range slices.Compact(coded) {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: %q is in the code and not in the document", what, name)
		}
	}
	for i, name := range documented {
		if !slices.Contains(coded, name) {
			t.Errorf("%s: %q is in the document and not in the code", what, name)
		}
		if slices.Contains(documented[:i], name) {
			t.Errorf("%s: %q is in the document twice", what, name)
		}
	}
}

// firstCells are the words in back-quotes in the first cells of all rows in a section.
func firstCells(t *testing.T, doc, heading string) (words []string) {
	t.Helper()
	for _, row := range table(section(t, document(t, doc), heading)) {
		words = append(words, quoted(row[0])...)
	}
	if len(words) == 0 {
		t.Fatalf("%s, %q: no table", doc, heading)
	}
	return words
}

var link = regexp.MustCompile(`\]\(([^)#\s]*)(?:#[^)]*)?\)`)

func TestDocuments_linkToWhatExists(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, more...)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "" || strings.Contains(m[1], "://") {
				continue
			}
			target := path.Join(filepath.ToSlash(filepath.Dir(name)), m[1])
			if _, err := os.Stat(filepath.FromSlash(target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}
