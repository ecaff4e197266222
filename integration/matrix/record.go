package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// record is what was seen of one server. It is kept in the repository, one file a server.
type record struct {
	Server  string            `json:"server"`
	Version string            `json:"version,omitempty"` // none of the emulator, which is of the same commit
	Suites  map[string]*suite `json:"suites"`            // by suite
}

// suite is what was seen of one suite. What changes from run to run, or with each new case, is not compared: cases, seconds and figures.
type suite struct {
	With    string   `json:"with,omitempty"`    // the server of the other service
	Has     []string `json:"has,omitempty"`     // features that work
	Lacks   []string `json:"lacks,omitempty"`   // features that were tried and do not
	Failed  []string `json:"failed,omitempty"`  // cases that fail
	Cases   int      `json:"cases"`             // that passed
	Figures string   `json:"figures,omitempty"` // of a fleet
	Seconds int      `json:"seconds"`
	Said    []string `json:"said,omitempty"` // by the cases that fail
}

const resultsDir = "results"

// readRecords reads all records in a folder.
func readRecords(dir string) (map[string]record, error) {
	all := map[string]record{}
	for name := range servers {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", name, err)
		}
		all[name] = r
	}
	return all, nil
}

func (r record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Server+".json"), append(text, '\n'), 0o644)
}

// recordsOf sorts outcomes by server. What was not run is taken from the old records.
func recordsOf(outcomes []outcome, old map[string]record) map[string]record {
	all := map[string]record{}
	for _, o := range outcomes {
		for _, r := range o.job.on {
			x, there := all[r.name]
			if !there {
				x = record{Server: r.name, Version: r.version, Suites: maps.Clone(old[r.name].Suites)}
				if x.Suites == nil {
					x.Suites = map[string]*suite{}
				}
			}
			s := o.suite
			if s.With != "" && s.With == r.name {
				s.With = o.job.on[0].name
			}
			x.Suites[o.job.suite] = &s
			all[r.name] = x
		}
	}
	return all
}

// differences tells how a server differs from its record in what was run.
func differences(was, is record) (all []string) {
	say := func(format string, args ...any) { all = append(all, is.Server+": "+fmt.Sprintf(format, args...)) }
	if was.Server == "" {
		say("nothing is recorded of it")
		return all
	}
	if was.Version != is.Version {
		say("version %s, recorded is %s", is.Version, was.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Suites)) {
		before, after := was.Suites[name], is.Suites[name]
		if before == nil {
			say("nothing is recorded of its suite %s", name)
			continue
		}
		if unfit := servers[is.Server].unfit; unfit != "" {
			// Which others fail beside the one that counts is chance.
			if !slices.ContainsFunc(after.Failed, func(c string) bool { return strings.HasSuffix(c, unfit) }) {
				say("%s does not fail, for which it is held to be unfit", unfit)
			}
			continue
		}
		for what, lists := range map[string][2][]string{"has": {before.Has, after.Has}, "lacks": {before.Lacks, after.Lacks}, "fails": {before.Failed, after.Failed}} {
			for _, x := range lists[1] {
				if !slices.Contains(lists[0], x) {
					say("%s: it %s %q, which is not recorded", name, what, x)
				}
			}
			for _, x := range lists[0] {
				if !slices.Contains(lists[1], x) {
					say("%s: it is recorded that it %s %q", name, what, x)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// rounded is whole seconds.
func rounded(d time.Duration) int { return int(d.Round(time.Second) / time.Second) }
