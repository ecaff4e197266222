package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/config"
)

// ids are the identifiers of streams by number.
func ids(numbers ...int) (all []string) {
	for _, n := range numbers {
		all = append(all, fmt.Sprintf("%012d:multiStreamTest-%d:%d", n*111111111111, n, n*12345))
	}
	return all
}

func from(first, last int) (all []string) {
	for n := first; n <= last; n++ {
		all = append(all, ids(n)...)
	}
	return all
}

func in(all []string) func(string) bool {
	return func(id string) bool { return slices.Contains(all, id) }
}

// The cases of KCL's scheduler: streams that have leases, those that are tracked now, and what becomes of the others.
func TestFormerStreams_goAsInKCL(t *testing.T) {
	t.Parallel()
	auto := func(wait time.Duration) config.FormerStreamsConfig {
		return config.FormerStreamsConfig{Deletion: config.DeleteAfterWait, Wait: wait}
	}
	listed := func(wait time.Duration) config.FormerStreamsConfig {
		return config.FormerStreamsConfig{Deletion: config.DeleteListed, Wait: wait}
	}
	keep := config.FormerStreamsConfig{Deletion: config.KeepLeases}
	for _, c := range []struct {
		name                              string
		leases, tracked, listing, deleted []string
		policy                            config.FormerStreamsConfig
		waiting, due                      []string
	}{
		{"M1", from(1, 4), from(3, 4), nil, nil, auto(time.Hour), from(1, 2), nil},
		{"M2", from(1, 4), from(3, 4), nil, nil, keep, from(1, 2), nil},
		{"M3", from(1, 4), from(3, 4), nil, nil, listed(time.Hour), from(1, 2), nil},
		{"M3 without a wait", from(1, 4), from(3, 4), nil, nil, listed(0), from(1, 2), nil},
		{"M4", from(1, 4), from(3, 4), from(1, 2), nil, listed(time.Hour), from(1, 2), nil},
		{"M5", from(1, 4), from(3, 4), nil, nil, auto(0), from(1, 2), from(1, 2)},
		{"M6", from(1, 4), from(3, 4), from(1, 2), nil, listed(0), from(1, 2), from(1, 2)},
		{"M6 of one", from(1, 4), from(3, 4), ids(2), nil, listed(0), from(1, 2), ids(2)},
		{"M7", from(1, 4), from(3, 6), nil, nil, auto(0), from(1, 2), from(1, 2)},
		{"M8", from(1, 4), from(3, 6), from(1, 2), nil, listed(time.Hour), from(1, 2), nil},
		{"M9", from(1, 4), from(3, 6), nil, nil, keep, from(1, 2), nil},
		{"M10", from(1, 4), from(3, 6), nil, nil, listed(time.Hour), from(1, 2), nil},
		{"M11", from(1, 5), from(1, 3), nil, nil, auto(24 * time.Hour), from(4, 5), nil},
		{"M12", from(1, 5), from(1, 3), nil, ids(5), auto(24 * time.Hour), from(4, 5), ids(5)},
		{"M13", from(1, 5), from(1, 5), nil, ids(3), auto(24 * time.Hour), nil, nil},
		{"M14", from(1, 4), from(1, 4), nil, nil, auto(0), nil, nil},
		{"M15", from(1, 4), from(1, 6), nil, nil, auto(0), nil, nil},
		{"M16", nil, nil, nil, nil, auto(0), nil, nil},
		{"M17", from(1, 5), nil, nil, nil, auto(time.Hour), from(1, 5), nil},
		{"a deleted stream is kept if all are", from(1, 2), nil, nil, ids(1), keep, from(1, 2), nil},
		{"a deleted stream is kept if it is not listed", from(1, 2), nil, ids(2), ids(1), listed(time.Hour), from(1, 2), nil},
		{"a tracked one stays though it is listed", from(1, 2), ids(1), from(1, 2), from(1, 2), listed(0), ids(2), ids(2)},
	} {
		got := formerStreams{}.look(time.Unix(0, 0), c.policy, c.listing, c.leases, in(c.tracked), in(c.deleted))
		if d := cmp.Diff(c.waiting, slices.Sorted(maps.Keys(got.Since))); d != "" {
			t.Errorf("%s: former streams (-want +got)\n%s", c.name, d)
		}
		if d := cmp.Diff(c.due, got.Due); d != "" {
			t.Errorf("%s: to be deleted (-want +got)\n%s", c.name, d)
		}
	}
}

// Whatever comes and goes, a stream is deleted only after it was missing in every look of a whole Wait, or when the service
// has deleted it, and never while it is wanted.
func TestFormerStreams_waitAnewAfterAStreamCameBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := config.FormerStreamsConfig{Deletion: config.DeleteAfterWait, Wait: time.Duration(rapid.IntRange(1, 5).Draw(t, "wait")) * time.Minute}
		all := from(1, 3)
		missing := map[string]time.Duration{} // for how long, in a row
		var f formerStreams
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			var wanted, deleted []string
			for _, id := range all {
				if rapid.Bool().Draw(t, "wanted") {
					wanted = append(wanted, id)
				}
				if rapid.IntRange(0, 9).Draw(t, "deleted") == 0 {
					deleted = append(deleted, id)
				}
			}
			f = f.look(now, policy, nil, all, in(wanted), in(deleted))
			for _, id := range all {
				d, before := missing[id]
				switch {
				case in(wanted)(id):
					delete(missing, id)
				case !before:
					d, missing[id] = 0, 0
				}
				want := !in(wanted)(id) && (d >= policy.Wait || in(deleted)(id))
				if got := slices.Contains(f.Due, id); got != want {
					t.Errorf("after %v: %s is due: %t, want %t; missing for %v", now.Sub(time.Unix(0, 0)), id, got, want, d)
				}
			}
			now = now.Add(time.Minute)
			for id := range missing {
				missing[id] += time.Minute
			}
		}
	})
}

func TestMerge_keepsWhatIsKnownAndTellsWhatChanged(t *testing.T) {
	t.Parallel()
	cfg := func(name string) config.StreamConfig { return config.StreamConfig{StreamName: name} }
	names := func(all []wanted) (out []string) {
		for _, w := range all {
			out = append(out, w.id.StreamName+":"+strconv.FormatInt(w.id.CreationEpoch, 10))
		}
		return out
	}
	first, removed := merge(nil, []config.StreamConfig{cfg("a"), cfg("b"), cfg("a")})
	if d := cmp.Diff([][]string{{"a:0", "b:0"}, nil}, [][]string{names(first), names(removed)}); d != "" {
		t.Errorf("first answer (-want +got)\n%s", d)
	}
	first[0].id = config.StreamIdentifier{AccountID: "1", StreamName: "a", CreationEpoch: 7} // looked up
	first[0].whole, first[0].added, first[0].blamed = true, true, "x"                        // and told
	late := cfg("a")
	late.InitialPosition = config.Latest()
	next, removed := merge(first, []config.StreamConfig{late, cfg("c"), {StreamName: "a b"}})
	if d := cmp.Diff([][]string{{"a:7", "c:0", "a b:0"}, {"b:0"}}, [][]string{names(next), names(removed)}); d != "" {
		t.Errorf("second answer (-want +got)\n%s", d)
	}
	if !next[0].added || next[0].blamed != "x" || next[2].added {
		t.Errorf("second answer: what was told is not kept: %+v", next)
	}
	if !next[0].whole || next[0].cfg != late || next[0].fault != nil || next[2].fault == nil {
		t.Errorf("second answer: %+v", next)
	}
	epoch := cfg("a")
	epoch.CreationEpoch = 9
	next, removed = merge(next, []config.StreamConfig{epoch})
	if d := cmp.Diff([][]string{{"a:9"}, {"a:7", "c:0", "a b:0"}}, [][]string{names(next), names(removed)}); d != "" {
		t.Errorf("third answer (-want +got)\n%s", d)
	}
}

func TestMerge_ofTwoThatMayBeTheSameTheSecondHasAFault(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/a"
	byName, byARN := config.StreamConfig{StreamName: "a"}, config.StreamConfig{StreamARN: arn}
	latest := config.StreamConfig{StreamName: "a", InitialPosition: config.Latest()}
	abroad := config.StreamConfig{StreamARN: strings.Replace(arn, "eu-west-1", "us-east-1", 1)}
	other := config.StreamConfig{StreamARN: strings.Replace(arn, "123456789012", "210987654321", 1)}
	for name, c := range map[string]struct {
		named []config.StreamConfig
		want  []string // the fault of each; empty: none
	}{
		"by name and by ARN":   {[]config.StreamConfig{byName, byARN}, []string{"", `it is named "` + arn + `", want each stream once: "a" is or may be the same`}},
		"by ARN and by name":   {[]config.StreamConfig{byARN, byName}, []string{"", `it is named "a", want each stream once: "` + arn + `" is or may be the same`}},
		"in the very same way": {[]config.StreamConfig{byName, byName}, []string{""}},
		"at another position": {[]config.StreamConfig{byName, latest, byName, latest}, []string{
			"", `it is named "a" again, with another InitialPosition (LATEST after TRIM_HORIZON), want each stream once: the first counts`,
		}},
		"of two regions": {[]config.StreamConfig{byARN, abroad}, []string{
			"", `it is named "` + abroad.StreamARN + `", want each stream once: "` + arn + `" is or may be the same: the key of a lease has the account, ` +
				`the name and the CreationEpoch of a stream and no region, so that a CreationEpoch of its own for each of the two tells them apart`,
		}},
		"of two accounts":         {[]config.StreamConfig{byARN, other}, []string{"", ""}},
		"of two accounts, a name": {[]config.StreamConfig{byARN, other, byName}, []string{"", "", `it is named "a", want each stream once: "` + arn + `" is or may be the same`}},
		"behind a faulty one":     {[]config.StreamConfig{{StreamName: "a", AccountID: "1"}, byName}, []string{`AccountID is "1", want 12 digits`, ""}},
	} {
		now, _ := merge(nil, c.named)
		var got []string
		for _, w := range now {
			got = append(got, "")
			if w.fault != nil {
				got[len(got)-1] = w.fault.Error()
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: faults (-want +got)\n%s", name, d)
		}
	}
}

// The two are told apart in the next answer, too: what was told of the one is not told of the other.
func TestMerge_twoThatAreNamedAlikeKeepWhatWasToldOfThem(t *testing.T) {
	t.Parallel()
	at := func(p config.InitialPosition) config.StreamConfig {
		return config.StreamConfig{StreamName: "a", InitialPosition: p}
	}
	moving := func(ago time.Duration) config.StreamConfig {
		return at(config.AtTimestamp(time.Unix(10_000, 0).Add(-ago)))
	}
	for name, second := range map[string][2]config.StreamConfig{
		"a position": {at(config.Latest()), at(config.Latest())}, "one that moves with the time": {moving(time.Hour), moving(time.Minute)},
	} {
		before, _ := merge(nil, []config.StreamConfig{at(config.TrimHorizon()), second[0]})
		before[0].added, before[1].blamed = true, before[1].fault.Error()
		next, removed := merge(before, []config.StreamConfig{at(config.TrimHorizon()), second[1]})
		if len(next) != 2 || len(removed) != 0 || !next[0].added || next[0].blamed != "" || next[1].added || next[1].blamed != next[1].fault.Error() {
			t.Errorf("%s: %+v, removed %+v", name, next, removed)
		}
		next, removed = merge(before, []config.StreamConfig{second[1]})
		if len(next) != 1 || next[0].fault != nil || !next[0].added || len(removed) != 1 || removed[0].added {
			t.Errorf("%s, named alone: %+v, removed %+v, want the one stream to go on", name, next, removed)
		}
	}
}

// A tracker may compute the position anew for each answer: an hour ago, say. That is no other configuration: whatever works on
// the stream would be made anew each minute, and with it what its audits and its cleanup remember.
func TestMerge_aPositionThatMovesWithTheTimeIsTheSame(t *testing.T) {
	t.Parallel()
	cfg := func(p config.InitialPosition) []config.StreamConfig {
		return []config.StreamConfig{{StreamName: "a", InitialPosition: p}}
	}
	first := config.AtTimestamp(time.Unix(1000, 0))
	before, _ := merge(nil, cfg(first))
	next, _ := merge(before, cfg(config.AtTimestamp(time.Unix(1060, 0))))
	if got := next[0].cfg.InitialPosition; got != first {
		t.Errorf("position %v, want that of the first answer", got)
	}
	if next, _ = merge(next, cfg(config.Latest())); next[0].cfg.InitialPosition != config.Latest() {
		t.Errorf("position %v, want another kind of position to count", next[0].cfg.InitialPosition)
	}
	if next, _ = merge(before, cfg(config.AtTimestamp(time.Time{}))); next[0].fault == nil {
		t.Error("a faulty position is not found")
	}
}
