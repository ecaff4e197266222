package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const document = "docs/compatibility.md"

// The generated part of the document stands between these lines.
const (
	begin = "<!-- made by integration/matrix: make compatibility -->\n"
	end   = "<!-- end of what is made -->\n"
)

// leaseFeatures says what the features of leasetest are.
var leaseFeatures = map[string]string{
	"OldItemOnFailure":    "a failed condition returns the item when asked",
	"ComparesPaths":       "a condition compares two attributes, one of them inside a map",
	"ConsumedCapacity":    "a Scan says what it cost",
	"ConsistentCapacity":  "a consistent Scan says that it cost twice as much",
	"PointInTimeRecovery": "point-in-time recovery of a table",
	"DeletionProtection":  "deletion protection of a table",
	"Tags":                "tags set by CreateTable",
	"Transactions":        "TransactWriteItems",
}

// without says how the library does without a feature. Of what is not listed it makes no use.
var without = map[string]string{
	"OldItemOnFailure":            "the row is read, consistently, after a failed condition",
	"ConsumedCapacity":            "where nothing is said it is estimated from the size of the rows; where it is wrong it is believed, and the table is read more often",
	"ConsistentCapacity":          "what the server says is believed: a look seems to cost half",
	"PointInTimeRecovery":         "asked for (it is off by default): the start fails and says which setting to change",
	"DeletionProtection":          "asked for (it is off by default): the table is not protected",
	"Tags":                        "asked for: the table has none",
	"a page holds at most 10 MiB": "a page may be larger than the budget of prefetched bytes by as much",
	"a broken iterator is InvalidArgumentException":                                 "the library sends only iterators that it was given",
	"the end of a split shard names both children":                                  "the children are found by ListShards",
	"the end of both merged shards names the child with two parents":                "the child is found by ListShards",
	"the page with the last record of a closed shard has no NextShardIterator":      "one more read finds the end",
	"ListShards comes in pages":                                                     "all shards come in one page",
	"StreamARN serves in the place of StreamName":                                   "configure StreamName",
	"MillisBehindLatest tells how old the next record is":                           "the lag that is reported is the server's: do not alarm on it there",
	"AT_TIMESTAMP in the future is refused":                                         "the library asks for no time in the future",
	"a split gives two children behind their parent":                                "streams cannot be resharded there",
	"a merge gives one child behind both parents":                                   "streams cannot be resharded there",
	"a closed shard is read to its end":                                             "what the parent holds is lost: do not reshard there",
	"a consumer is registered, listed and deregistered":                             "fan-out cannot be used; polling can",
	"a subscription gives old and new records and resumes where it was":             "fan-out cannot be used; polling can",
	"a subscription ends with its shard and names the children":                     "fan-out cannot be used over a reshard; polling can",
	"a second subscription is refused within five seconds":                          "both go on: a worker that lost its lease may read for longer, its checkpoints are refused",
	"a subscription of a consumer that does not exist is ResourceNotFoundException": "the error comes as another",
	"ListShards filtered AT_LATEST":                                                 "all shards come: more is read, nothing else changes",
	"ListShards filtered AT_TRIM_HORIZON":                                           "all shards come: more is read, nothing else changes",
}

// tables renders what is recorded.
func tables(records map[string]record) string {
	var b strings.Builder
	var known []string
	for _, name := range columns {
		if _, there := records[name]; there {
			known = append(known, name)
		}
	}
	b.WriteString("### Suites\n\n| server | version | leases: cases | stream: cases | fleet: reshard, kill -9, rolling restart |\n| --- | --- | --- | --- | --- |\n")
	for _, name := range known {
		r := records[name]
		version := r.Version
		if version == "" {
			version = "this commit"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, version, cases(r, leasesSuite), cases(r, streamSuite), cases(r, fleetSuite))
	}
	b.WriteString("\nCases are those that passed when this was recorded; a case that fails is named. Of a server of one service, the fleet uses the other server that is named.\n")
	b.WriteString("\n### Lease table (DynamoDB)\n\n" + features(records, known, leasesSuite))
	b.WriteString("\n### Streams (Kinesis)\n\n" + features(records, known, streamSuite))
	b.WriteString("\n### What each server lacks\n\n")
	for _, name := range known {
		r := records[name]
		var lacks []string
		for _, s := range []string{leasesSuite, streamSuite} {
			if x := r.Suites[s]; x != nil {
				for _, f := range x.Lacks {
					lacks = append(lacks, title(f))
				}
			}
		}
		if unfit := servers[name].unfit; unfit != "" {
			lacks = append(lacks, "**unfit: of many workers that want a lease at the same moment several get it**")
		}
		if len(lacks) == 0 {
			lacks = []string{"nothing that we test"}
		}
		fmt.Fprintf(&b, "- **%s**: %s.\n", name, strings.Join(lacks, "; "))
	}
	for _, name := range known {
		if servers[name].unfit == "" {
			continue
		}
		fmt.Fprintf(&b, "\n### %s is unfit\n\nThe suite's own words:\n\n```\n", name)
		for _, line := range records[name].Suites[leasesSuite].Said {
			fmt.Fprintln(&b, line)
		}
		b.WriteString("```\n")
	}
	return b.String()
}

// cases is a cell of the first table.
func cases(r record, name string) string {
	s := r.Suites[name]
	switch {
	case s == nil:
		return "–"
	case name == leasesSuite && servers[r.Server].parts != "":
		return fmt.Sprintf("%d (a part of the cases)", s.Cases)
	case len(s.Failed) > 0:
		return fmt.Sprintf("%d; fails: %s", s.Cases, strings.Join(s.Failed, ", "))
	case name == fleetSuite && s.With != "":
		return s.Figures + ", with " + s.With
	case name == fleetSuite:
		return s.Figures
	}
	return strconv.Itoa(s.Cases)
}

// features is a table of one suite's features by server.
func features(records map[string]record, known []string, name string) string {
	rows := map[string]map[string]string{}
	var with []string
	for _, server := range known {
		s := records[server].Suites[name]
		if s == nil {
			continue
		}
		with = append(with, server)
		for mark, list := range map[string][]string{"yes": s.Has, "**no**": s.Lacks} {
			for _, f := range list {
				if rows[f] == nil {
					rows[f] = map[string]string{}
				}
				rows[f][server] = mark
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s | where it is missing |\n|%s\n", strings.Join(with, " | "), strings.Repeat(" --- |", len(with)+2))
	for _, f := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "| %s |", title(f))
		missing := false
		for _, server := range with {
			mark := rows[f][server]
			if mark == "" {
				mark = "not tried"
			}
			missing = missing || mark == "**no**"
			fmt.Fprintf(&b, " %s |", mark)
		}
		switch text, there := without[f]; {
		case !missing:
			b.WriteString(" |\n")
		case there:
			fmt.Fprintf(&b, " %s |\n", text)
		default:
			b.WriteString(" not used |\n")
		}
	}
	return b.String()
}

func title(feature string) string {
	if t, there := leaseFeatures[feature]; there {
		return t
	}
	return feature
}

// renew returns the document with its generated part made anew.
func renew(text string, records map[string]record) (string, error) {
	before, rest, found1 := strings.Cut(text, begin)
	_, after, found2 := strings.Cut(rest, end)
	if !found1 || !found2 {
		return "", fmt.Errorf("%s has no lines %q and %q", document, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + "\n" + tables(records) + "\n" + end + after, nil
}

// writeTables makes the document anew from the records.
func writeTables(root string) error {
	records, err := readRecords(filepath.Join(root, "integration", "matrix", resultsDir))
	if err != nil {
		return err
	}
	file := filepath.Join(root, document)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fresh, err := renew(string(text), records)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(fresh), 0o644)
}
