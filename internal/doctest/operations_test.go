package doctest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/fleettest"
)

const operations = "docs/operations.md"

// loudLevels are the methods of a *slog.Logger whose messages somebody should look at, and where the message stands.
var loudLevels = map[string]int{"Warn": 0, "Error": 0, "WarnContext": 1, "ErrorContext": 1}

func literal(args []ast.Expr, at int) (string, bool) {
	if at >= len(args) {
		return "", false
	}
	lit, ok := args[at].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// loud returns the constant messages that a function logs as a warning or an error. A method that is kept in a variable
// (at = log.Warn) counts for every call of that variable.
func loud(body *ast.BlockStmt) (messages []string) {
	kept := map[string]int{}
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, right := range a.Rhs {
			sel, isMethod := right.(*ast.SelectorExpr)
			left, isName := a.Lhs[min(i, len(a.Lhs)-1)].(*ast.Ident)
			if !isMethod || !isName {
				continue
			}
			if at, is := loudLevels[sel.Sel.Name]; is {
				kept[left.Name] = at
			}
		}
		return true
	})
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		var at int
		var is bool
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			at, is = loudLevels[f.Sel.Name]
		case *ast.Ident:
			at, is = kept[f.Name]
		}
		if m, isText := literal(call.Args, at); is && isText {
			messages = append(messages, m)
		}
		return true
	})
	return messages
}

func TestWarningsAndErrors_areAllExplained(t *testing.T) {
	t.Parallel()
	var coded []string
	for _, s := range productSources(t) {
		s.functions(func(_ string, body *ast.BlockStmt) { coded = append(coded, loud(body)...) })
	}
	same(t, operations+", Warnings and errors in the log", firstCells(t, operations, "## Warnings and errors in the log"), coded)
}

// whats are the constant words for what will be tried again: fields of events, and what the functions are given that make
// them.
func whats(s source) (found []string) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			named, _ := n.Type.(*ast.Ident)
			event, _ := n.Type.(*ast.SelectorExpr)
			for _, e := range n.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				key, _ := kv.Key.(*ast.Ident)
				ofEvent := key != nil && key.Name == "What" && event != nil && event.Sel.Name == "RetryEvent"
				ofOperation := key != nil && key.Name == "what" && named != nil && named.Name == "operation"
				if !ofEvent && !ofOperation {
					continue
				}
				if what, ok := literal([]ast.Expr{kv.Value}, 0); ok {
					found = append(found, what)
				}
			}
			// The steps of a start: {"prepare the lease table", c.o.Table.Ensure}.
			if what, ok := literal(n.Elts, 0); ok && len(n.Elts) == 2 && s.path == "coordinator/leasecoordinator.go" {
				found = append(found, what)
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch sel.Sel.Name {
			case "retry", "retried", "failed", "untilDone":
				for at := range min(2, len(n.Args)) {
					if what, ok := literal(n.Args, at); ok {
						found = append(found, what)
						break
					}
				}
			}
		}
		return true
	})
	return found
}

func TestRetries_areAllExplained(t *testing.T) {
	t.Parallel()
	var coded []string
	for _, s := range productSources(t) {
		coded = append(coded, whats(s)...)
	}
	same(t, operations+", What is tried again", firstCells(t, operations, "## What is tried again"), coded)
}

func TestHooks_areAllMentioned(t *testing.T) {
	t.Parallel()
	var coded []string
	for _, s := range productSources(t) {
		if s.path != "config/hooks.go" {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Hooks" {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range fields.Fields.List {
					coded = append(coded, f.Names[0].Name)
				}
			}
			return false
		})
	}
	same(t, operations+", Hooks to export", firstCells(t, operations, "## Hooks to export"), coded)
}

// action is how IAM calls an operation.
func action(service emulator.Service, operation string) string {
	return string(service) + ":" + operation
}

// A fleet that does everything: creates its table, splits, merges, stops, dies.
func TestPermissions_areThoseThatWorkersUse(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	used := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 2)
		f.Server.Observe(func(e emulator.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Client != "test" {
				used[action(e.Service, e.Operation)] = true
			}
		})
		all := func(c *config.Config) {
			c.LeaseManagement.PointInTimeRecovery = true
			c.LeaseManagement.Tags = map[string]string{"team": "orders"}
			c.Cleanup.Interval = time.Second
		}
		a, b := f.Start("a", all), f.Start("b", all)
		f.Put(50, 5)
		f.WaitDelivered(10 * time.Second)
		stream, left, right := fleettest.Stream, "shardId-000000000000", "shardId-000000000001"
		if _, err := f.Kinesis.MergeShards(t.Context(), &kinesis.MergeShardsInput{StreamName: &stream, ShardToMerge: &left, AdjacentShardToMerge: &right}); err != nil {
			t.Fatal(err)
		}
		f.Put(50, 5)
		time.Sleep(10 * time.Second)
		f.Put(50, 5)
		time.Sleep(time.Minute)
		b.Kill()
		time.Sleep(30 * time.Second)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		f.Check()
	})
	documented := map[string]bool{}
	for _, row := range table(section(t, document(t, operations), "## Permissions")) {
		for _, a := range quoted(row[0]) {
			documented[a] = true
			if len(row) > 2 && strings.HasPrefix(row[2], "always") && !used[a] {
				t.Errorf("%s calls %s always needed, and no worker used it", operations, a)
			}
		}
	}
	for a := range used {
		if !documented[a] {
			t.Errorf("workers use %s, which %s does not name", a, operations)
		}
	}
}

func TestPermissions_areMissedAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, row := range table(section(t, document(t, operations), "## Permissions")) {
		names := quoted(row[0])
		if len(names) != 1 || len(row) < 4 {
			continue
		}
		service, operation, _ := strings.Cut(names[0], ":")
		if !slices.Contains([]string{"kinesis", "dynamodb"}, service) || strings.Contains(row[2], "only if") && operation != "CreateTable" {
			continue
		}
		t.Run(names[0], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 2)
				f.Put(10, 2)
				f.Server.Inject(emulator.Rule{
					Client: "w", Operation: operation, Effect: emulator.Fail(400, "AccessDeniedException", "not authorized"),
				})
				w := f.Start("w")
				ended := make(chan error, 1)
				go func() { ended <- w.Wait() }()
				said := "ends"
				select {
				case err := <-ended:
					if err == nil || !strings.Contains(err.Error(), operation) {
						t.Errorf("Run ended with %v, want an error that names %s", err, operation)
					}
				case <-time.After(20 * time.Second):
					said = "works"
					switch {
					case len(w.Assignments()) == 0:
						said = "holds nothing"
					case f.Audit.Distinct() == 0:
						said = "reads nothing"
					}
				}
				if !strings.HasPrefix(row[3], said) {
					t.Errorf("without %s at start the worker %q, the table says %q", names[0], said, row[3])
				}
			})
		})
	}
}

// The figures of the example: 60 leases, 3 workers, nothing to read.
func TestCapacity_isAsTheExampleSays(t *testing.T) {
	t.Parallel()
	const minutes = 2
	measured := map[string]float64{}
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 60)
		for _, id := range []string{"a", "b", "c"} {
			f.Start(id, func(c *config.Config) { // reads of the stream are of no interest, and cost this test its time
				c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = time.Minute, time.Minute
			})
		}
		time.Sleep(time.Minute)
		f.Server.ResetCounts()
		time.Sleep(minutes * time.Minute)
		counts := f.Server.Counts()
		of := func(operation string) emulator.Count {
			return counts.Of(emulator.CountKey{Service: emulator.DynamoDB, Operation: operation})
		}
		measured["renewals"] = of("UpdateItem").WriteUnits
		measured["looks"] = of("Scan").ReadUnits
	})
	for _, row := range table(section(t, document(t, operations), "## Capacity")) {
		units, known := measured[row[0]]
		if !known {
			continue
		}
		delete(measured, row[0])
		figure, _, _ := strings.Cut(row[2], " ")
		said, err := strconv.ParseFloat(figure, 64)
		if second := units / (minutes * 60); err != nil || second < 0.8*said || second > 1.2*said {
			t.Errorf("%s cost %.2f units a second, the table says %q", row[0], second, row[2])
		}
	}
	for name := range measured {
		t.Errorf("%s has no figure for %s", operations, name)
	}
}
