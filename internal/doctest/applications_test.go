package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var application = regexp.MustCompile(`config\.Default\("([^"]+)", ("[^"]*")\)`)

// An application's name is that of its lease table: of two programs that a reader tries one after the other, against one emulator, the second
// would find the leases of the first, of another stream.
func TestApplications_ofDocumentsAndExamplesShareNoLeaseTable(t *testing.T) {
	t.Parallel()
	files := []string{filepath.Join(root, "README.md"), filepath.Join(root, "example_dynamostreams_test.go")}
	for _, pattern := range []string{"docs/*.md", "examples/*/*.go"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	streams, said, found := map[string]string{}, map[string]string{}, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range application.FindAllStringSubmatch(string(text), -1) {
			found++
			if other, ok := streams[m[1]]; ok && other != m[2] {
				t.Errorf("application %q reads %s in %s, and %s in %s", m[1], m[2], file, other, said[m[1]])
			}
			streams[m[1]], said[m[1]] = m[2], file
		}
	}
	if found < 6 {
		t.Errorf("%d applications found, want those of README, of docs and of the examples", found)
	}
}
