package shardlease_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/emulator"
)

// TestRootPackage_bringsNoHeavyDependencies keeps a user's build small.
func TestRootPackage_bringsNoHeavyDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/aws/aws-sdk-go-v2/service/kinesis") {
		t.Fatalf("go list -deps tells nothing of Kinesis: %d packages", len(deps))
	}
	for _, dep := range deps {
		for _, heavy := range []string{
			"testcontainers", "opentelemetry", "alecthomas/kong", "aws-sdk-go-v2/config", "aws-sdk-go-v2/credentials",
			"service/sso", "service/sts", "service/dynamodbstreams", "shardlease/emulator", "/rapid", "porcupine",
		} {
			if strings.Contains(dep, heavy) {
				t.Errorf("importing shardlease brings in %s", dep)
			}
		}
	}
}

// readmeProgram is the program that the README shows.
func readmeProgram(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		if strings.HasPrefix(code, "package main") {
			return code
		}
	}
	t.Fatal("README.md shows no program")
	return ""
}

// TestReadmeProgram_runsOutsideOfThisModule builds the README's program in a module of its own and lets it read from an
// emulator until it is told to stop.
func TestReadmeProgram_runsOutsideOfThisModule(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs a program; go test without -short does it")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	const ours = "github.com/shardlease/shardlease"
	mod = bytes.Replace(mod, []byte("module "+ours), []byte("module example.com/outside"), 1)
	mod = append(mod, "\nrequire "+ours+" v0.0.0\n\nreplace "+ours+" => "+here+"\n"...)
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"go.mod": mod, "go.sum": sum, "main.go": []byte(readmeProgram(t))} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "outside.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", bin, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the README's program: %v\n%s", err, out)
	}

	srv := emulator.New()
	url, stop, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := srv.CreateStream("orders", 2); err != nil {
		t.Fatal(err)
	}
	stream, key := "orders", "customer-7"
	if _, err := kinesis.NewFromConfig(srv.AWSConfig()).PutRecords(t.Context(), &kinesis.PutRecordsInput{
		StreamName: &stream, Records: []types.PutRecordsRequestEntry{{PartitionKey: &key, Data: []byte("first")}, {PartitionKey: &key, Data: []byte("second")}},
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin)
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+url, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for in := bufio.NewScanner(stdout); in.Scan(); {
		if lines = append(lines, in.Text()); len(lines) == 2 {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v\n%s", err, stderr.String())
	}
	if want := []string{"customer-7 first", "customer-7 second"}; !slices.Equal(lines, want) {
		t.Errorf("the program printed %q, want %q\n%s", lines, want, stderr.String())
	}
}
