package awstest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardlease/shardlease/integration/awstest"
	"github.com/shardlease/shardlease/integration/containers"
)

// usersTest is the test that docs/testing.md shows.
func usersTest(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(doc), "```go\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		if strings.HasPrefix(code, "package orders_test") {
			return code
		}
	}
	t.Fatal("docs/testing.md shows no test of package orders_test")
	return ""
}

// TestUsersModule runs the test of docs/testing.md in a module of its own: on what is here, be that an engine or not, and
// with the engine left alone. `make containers` runs it both where an engine answers and where none does.
func TestUsersModule_testsItsConsumerOnWhateverIsThere(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the tests of another module; go test without -short does it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const ours = "github.com/shardlease/shardlease"
	mod = bytes.Replace(mod, []byte("module "+ours), []byte("module example.com/orders"), 1)
	mod = append(mod, "\nrequire "+ours+" v0.0.0\n\nreplace "+ours+" => "+root+"\n"...)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"go.mod": mod, "go.sum": sum, "orders_test.go": []byte(usersTest(t))} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "orders.test.exe")
	build := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-c", "-o", bin, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test of docs/testing.md: %v\n%s", err, out)
	}

	here := "shardlease's emulator (no container engine answers)"
	if containers.Engine(t.Context()) == nil {
		here = containers.LocalStackImage
	}
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"what is here":          {nil, here},
		"the engine left alone": {[]string{awstest.ContainersEnv + "=0", containers.RequireEnv + "=0"}, "shardlease's emulator (SHARDLEASE_CONTAINERS is 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test := exec.CommandContext(t.Context(), bin, "-test.v", "-test.timeout=10m")
			test.Dir = dir
			test.Env = append(os.Environ(), c.env...)
			out, err := test.CombinedOutput()
			if err != nil {
				t.Fatalf("the test of docs/testing.md: %v\n%s", err, out)
			}
			var used string
			for line := range strings.Lines(string(out)) {
				if _, after, ok := strings.Cut(line, "awstest: "); ok {
					used = strings.TrimSpace(after)
				}
			}
			t.Logf("ran on %s", used)
			if os.Getenv(awstest.KinesisEnv) == "" && os.Getenv("AWS_ENDPOINT_URL") == "" && !strings.HasPrefix(used, c.want) {
				t.Errorf("ran on %q, want %q", used, c.want)
			}
		})
	}
}
