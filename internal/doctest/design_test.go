package doctest

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

const design = "docs/design.md"

func TestFileMap_namesEveryFileAndWhatItDeclares(t *testing.T) {
	t.Parallel()
	byPath := map[string]source{}
	for _, s := range allSources(t) {
		byPath[s.path] = s
	}
	mapped := map[string]bool{}
	for _, row := range table(section(t, document(t, design), "## File map")) {
		names := quoted(row[0])
		if len(names) != 1 {
			t.Errorf("row %q names %d files, want 1", row[0], len(names))
			continue
		}
		name := names[0]
		if mapped[name] {
			t.Errorf("%s is mapped twice", name)
		}
		mapped[name] = true
		if strings.HasSuffix(name, "/") {
			if isProduct(name + "x.go") {
				t.Errorf("folder %s is part of users' programs: map its files one by one", name)
			}
			if !slices.ContainsFunc(allSources(t), func(s source) bool { return path.Dir(s.path)+"/" == name }) {
				t.Errorf("folder %s has no Go files", name)
			}
			continue
		}
		s, there := byPath[name]
		if !there {
			t.Errorf("%s does not exist", name)
			continue
		}
		declared := s.declared()
		for _, id := range quoted(row[len(row)-1]) {
			if !declared[id] {
				t.Errorf("%s is said to declare %s, and does not", name, id)
			}
		}
	}
	for _, s := range allSources(t) {
		if !mapped[s.path] && (isProduct(s.path) || !mapped[path.Dir(s.path)+"/"]) {
			t.Errorf("%s is not in the file map", s.path)
		}
	}
}

func TestGoroutines_areAllInTheTable(t *testing.T) {
	t.Parallel()
	var coded []string
	for _, s := range productSources(t) {
		s.functions(func(name string, body *ast.BlockStmt) {
			starts := false
			ast.Inspect(body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					starts = true
				case *ast.CallExpr:
					if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
						starts = starts || sel.Sel.Name == "Go" || sel.Sel.Name == "AfterFunc"
					}
				}
				return true
			})
			if starts {
				coded = append(coded, s.path+" "+name)
			}
		})
	}
	same(t, design+", Goroutines", firstCells(t, design, "## Goroutines"), coded)
}

func TestLocks_areAllInTheTable(t *testing.T) {
	t.Parallel()
	var coded []string
	for _, s := range productSources(t) {
		isMutex := func(e ast.Expr) bool {
			sel, ok := e.(*ast.SelectorExpr)
			if !ok {
				return false
			}
			pkg, ok := sel.X.(*ast.Ident)
			return ok && pkg.Name == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex")
		}
		for _, d := range s.ast.Decls {
			in := ""
			switch d := d.(type) {
			case *ast.FuncDecl:
				in = owner(d)
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					in = "package"
				}
			}
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					in = n.Name.Name
				case *ast.Field:
					if isMutex(n.Type) {
						coded = append(coded, s.path+" "+in)
					}
				case *ast.ValueSpec:
					if isMutex(n.Type) {
						coded = append(coded, s.path+" "+in)
					}
				}
				return true
			})
		}
	}
	same(t, design+", Locks", firstCells(t, design, "## Locks"), coded)
}

// Errors that a caller may tell apart are the sentinels, named Err…, and the types named …Error.
func TestErrors_areAllInTheTable(t *testing.T) {
	t.Parallel()
	var coded []string
	for _, s := range productSources(t) {
		pkg := s.ast.Name.Name
		for _, d := range s.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() && strings.HasSuffix(spec.Name.Name, "Error") {
						coded = append(coded, pkg+"."+spec.Name.Name)
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if gen.Tok == token.VAR && strings.HasPrefix(n.Name, "Err") {
							coded = append(coded, pkg+"."+n.Name)
						}
					}
				}
			}
		}
	}
	same(t, design+", Errors", firstCells(t, design, "## Errors"), coded)
}
