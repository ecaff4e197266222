package doctest

import (
	"regexp"
	"strings"
	"testing"
)

// problems are those of users of such libraries in the areas that are built so far.
const problems = `
lease-taking B001 B002 B003 B004 B006 B007 B009 B010 B012 B014 B016
renewal B017 B018 B019 B020 B022 B023 B025
zombie/fencing B026 B027 B028 B029 B031
shard-sync B032 B033 B034 B035 B036 B037 B038 B040 B043
split/merge B045 B046 B047 B048 B049 B050 B051 B052 B054
cleanup B055 B056 B058 B059
checkpoint B061 B062 B063 B066 B067 B068 B070 B071 B072 B073 B140
startup B090 B091 B092 B093 B095 B143
shutdown B097 B098 B099 B101 B103 B104
aggregation B125 B126 B127
multi-stream B121 B124
security/IAM B130`

const (
	record  = "docs/track-record.md"
	notYet  = "enhanced fan-out is not there yet"
	because = "cannot happen because "
)

var (
	commitHash = regexp.MustCompile(`^[0-9a-f]{7,12}$`)
	whereMet   = regexp.MustCompile(`^(\S+ B\d{3}), (\S.*)$`)
)

// Each of the problems has its row, once, with a test that exists, or with why it cannot happen and a test that shows that.
func TestTrackRecord_hasARowForEachProblemOfUsers(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(problems)) {
		words := strings.Fields(line)
		for _, id := range words[1:] {
			want[words[0]+" "+id] = true
		}
	}
	exist, _ := tests(t)
	seen := map[string]bool{}
	for _, row := range table(section(t, document(t, record), "## What users of such libraries met")) {
		if len(row) != 4 || row[0] == "" {
			t.Errorf("row %q, want symptom, where users met it, test, first commit that passes", row)
			continue
		}
		met := whereMet.FindStringSubmatch(row[1])
		if met == nil || !want[met[1]] || seen[met[1]] {
			t.Errorf("row %q is of no problem of this list, or of one that has a row", row[1])
			continue
		}
		seen[met[1]] = true
		names := testName.FindAllStringSubmatch(row[2], -1)
		for _, n := range names {
			if !exist[n[1]] {
				t.Errorf("%s names %s, which does not exist", met[1], n[1])
			}
		}
		switch {
		case row[2] == notYet && row[3] == "–":
		case len(names) == 0:
			t.Errorf("%s names no test: %q", met[1], row[2])
		case !strings.HasPrefix(row[2], "`Test") && !strings.HasPrefix(row[2], because):
			t.Errorf("%s has %q, want tests, or %q … and tests", met[1], row[2], because)
		case !commitHash.MatchString(row[3]):
			t.Errorf("%s passes first at %q, want a commit", met[1], row[3])
		}
	}
	for id := range want {
		if !seen[id] {
			t.Errorf("%s has no row", id)
		}
	}
	t.Logf("problems %d", len(seen))
}

// The rows of bugs found here name tests that exist, and commits.
func TestTrackRecord_namesTestsThatExist(t *testing.T) {
	t.Parallel()
	exist, _ := tests(t)
	text, _, _ := strings.Cut(document(t, record), "\n## ")
	for _, row := range table(text) {
		// A command may hold an escaped bar.
		if len(row) < 5 || !commitHash.MatchString(row[len(row)-1]) {
			t.Errorf("row %q, want symptom, found by, test, command, last commit that failed", row)
			continue
		}
		names := testName.FindAllStringSubmatch(row[2], -1)
		for _, n := range names {
			if !exist[n[1]] {
				t.Errorf("%s names %s, which does not exist", record, n[1])
			}
		}
		if len(names) == 0 {
			t.Errorf("row %q names no test", row)
		}
	}
}
