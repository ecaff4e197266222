package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func recorded(t *testing.T) map[string]record {
	t.Helper()
	records, err := readRecords(resultsDir)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestCompatibility_theDocumentSaysWhatIsRecorded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", document))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := renew(string(text), recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fresh, string(text)); diff != "" {
		t.Errorf("%s is stale; make compatibility makes it anew (-want +got):\n%s", document, diff)
	}
}

func TestCompatibility_everyServerIsRecordedWithEverySuiteThatItHas(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(servers)), slices.Sorted(slices.Values(columns))); diff != "" {
		t.Errorf("servers and columns differ:\n%s", diff)
	}
	records := recorded(t)
	for name, s := range servers {
		r := records[name]
		for suite, has := range map[string]bool{leasesSuite: s.dynamodb, streamSuite: s.kinesis, fleetSuite: s.unfit == ""} {
			switch recorded := r.Suites[suite] != nil; {
			case recorded && !has:
				t.Errorf("%s: suite %s is recorded, and it has none", name, suite)
			case has && !recorded:
				t.Errorf("%s: suite %s is not recorded", name, suite)
			}
		}
	}
}

// A feature that was renamed must not leave its explanation behind.
func TestCompatibility_explainsOnlyFeaturesThatThereAre(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for _, r := range recorded(t) {
		for _, s := range r.Suites {
			for _, f := range slices.Concat(s.Has, s.Lacks) {
				there[f] = true
			}
		}
	}
	for _, texts := range []map[string]string{leaseFeatures, without} {
		for f := range texts {
			if !there[f] {
				t.Errorf("%q is explained, but no suite knows it", f)
			}
		}
	}
}

func TestDifferences_areToldBothWays(t *testing.T) {
	t.Parallel()
	was := record{Server: "dynalite", Version: "1", Suites: map[string]*suite{leasesSuite: {Has: []string{"A", "B"}, Lacks: []string{"C"}, Cases: 7, Seconds: 3}}}
	for name, c := range map[string]struct {
		is   record
		want []string
	}{
		"nothing but figures": {is: record{Server: "dynalite", Version: "1", Suites: map[string]*suite{leasesSuite: {Has: []string{"A", "B"}, Lacks: []string{"C"}, Cases: 9}}}},
		"another version":     {is: record{Server: "dynalite", Version: "2"}, want: []string{"dynalite: version 2, recorded is 1"}},
		"a feature that is gone": {
			is: record{Server: "dynalite", Version: "1", Suites: map[string]*suite{leasesSuite: {Has: []string{"A"}, Lacks: []string{"B", "C"}}}},
			want: []string{
				`dynalite: leases: it is recorded that it has "B"`, `dynalite: leases: it lacks "B", which is not recorded`,
			},
		},
		"a case that fails": {
			is:   record{Server: "dynalite", Version: "1", Suites: map[string]*suite{leasesSuite: {Has: []string{"A", "B"}, Lacks: []string{"C"}, Failed: []string{"x"}}}},
			want: []string{`dynalite: leases: it fails "x", which is not recorded`},
		},
		"a suite of its own": {
			is:   record{Server: "dynalite", Version: "1", Suites: map[string]*suite{fleetSuite: {}}},
			want: []string{"dynalite: nothing is recorded of its suite fleet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, differences(was, c.is)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	unfit := record{Server: "moto", Version: "1", Suites: map[string]*suite{leasesSuite: {Failed: []string{"reads"}}}}
	if got := differences(unfit, unfit); len(got) != 1 {
		t.Errorf("an unfit server that passes: %q, want one line", got)
	}
}

func TestEvents_countCasesAndNameFailures(t *testing.T) {
	t.Parallel()
	var got events
	for _, e := range []event{
		{Action: "attr", Test: "TestX/a_b", Key: "lacks", Value: "Tags"},
		{Action: "output", Test: "TestX/a_b", Output: "=== RUN   TestX/a_b\n"},
		{Action: "output", Test: "TestX/a_b", Output: "    x.go:1: wrong\n"},
		{Action: "fail", Test: "TestX/a_b"},
		{Action: "pass", Test: "TestX/c/d"},
		{Action: "pass", Test: "TestX/c/e"},
		{Action: "pass", Test: "TestX/c"},
		{Action: "fail", Test: "TestX"},
		{Action: "fail"},
	} {
		got.add(e)
	}
	want := suite{Lacks: []string{"Tags"}, Failed: []string{"a b"}, Cases: 2, Said: []string{"x.go:1: wrong"}}
	if diff := cmp.Diff(want, got.suite(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
