package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds that more than one line names.
const (
	minFailoverTime = 500 * time.Millisecond
	maxFailoverTime = 10 * time.Minute
	minInterval     = 50 * time.Millisecond
	minByteBudget   = 10 << 20 // the largest answer to one GetRecords
	day             = 24 * time.Hour
)

// Validate returns nil, or every fault at once, joined with errors.Join: one line each, naming the field, its value and what
// is allowed. Zero fields that have a default are right. It reads neither a clock nor the network: whether the stream and the
// table exist shows when the worker runs.
func (c Config) Validate() error {
	return c.validate(func(f *faults) { c.checkStreams(f, false) })
}

// ValidateTracked is [Config.Validate] for a worker whose streams a StreamTracker names: the configuration must name none.
func (c Config) ValidateTracked() error {
	return c.validate(func(f *faults) { c.checkStreams(f, true) })
}

// ValidateTableStream is [Config.Validate] for a worker that reads the stream of a DynamoDB table: StreamARN must name it.
func (c Config) ValidateTableStream() error { return c.validate(c.checkTableStream) }

// validate checks everything; streams checks what to read.
func (c Config) validate(streams func(*faults)) error {
	var f faults
	f.tableName("ApplicationName", c.ApplicationName)
	streams(&f)
	c.FormerStreams.check(&f)
	f.text("WorkerID", c.WorkerID, 1, 2048)
	c.LeaseManagement.check(&f)

	whenSet(&f, "Cleanup.Interval", c.Cleanup.Interval, time.Second, day)
	whenSet(&f, "Cleanup.GarbageInterval", c.Cleanup.GarbageInterval, time.Second, day)
	whenSet(&f, "Cleanup.KeepFinished", c.Cleanup.KeepFinished, time.Second, day)
	whenSet(&f, "Coordinator.ParentShardPollInterval", c.Coordinator.ParentShardPollInterval, 50*time.Millisecond, 10*time.Minute)

	l, done := c.Lifecycle, c.Complete()
	whenSet(&f, "Lifecycle.ShutdownGrace", l.ShutdownGrace, time.Millisecond, day)
	whenSet(&f, "Lifecycle.TaskBackoff", l.TaskBackoff, time.Millisecond, time.Hour)
	if whenSet(&f, "Lifecycle.MaxTaskBackoff", l.MaxTaskBackoff, time.Millisecond, time.Hour) {
		f.notBelow("Lifecycle.MaxTaskBackoff", done.Lifecycle.MaxTaskBackoff, "TaskBackoff", done.Lifecycle.TaskBackoff)
	}
	whenSet(&f, "Lifecycle.LogWarningForTaskAfter", l.LogWarningForTaskAfter, time.Millisecond, day)

	r := c.Retrieval
	switch r.Mode {
	case "", Polling:
	case FanOut:
		if len(done.Retrieval.FanOut.ConsumerName) > 128 && r.FanOut.ConsumerName == "" && r.FanOut.ConsumerARN == "" {
			f.add("Retrieval.FanOut.ConsumerName", "empty", "a name, since ApplicationName has more than 128 characters")
		}
	default:
		f.add("Retrieval.Mode", strconv.Quote(string(r.Mode)), fmt.Sprintf("%q or %q", Polling, FanOut))
	}
	r.FanOut.check(&f, c.StreamName, c.StreamARN)
	whenSet(&f, "Retrieval.MaxRecords", r.MaxRecords, 1, 10_000)
	whenSet(&f, "Retrieval.IdleTime", r.IdleTime, 200*time.Millisecond, 4*time.Minute)
	if whenSet(&f, "Retrieval.MaxIdleTime", r.MaxIdleTime, 200*time.Millisecond, 4*time.Minute) {
		f.notBelow("Retrieval.MaxIdleTime", done.Retrieval.MaxIdleTime, "IdleTime", done.Retrieval.IdleTime)
	}
	whenSet(&f, "Retrieval.BehindLatestThreshold", r.BehindLatestThreshold, time.Millisecond, day)
	switch r.OnTrimmed {
	case "", ContinueReading, FailRun:
	default:
		f.add("Retrieval.OnTrimmed", strconv.Quote(string(r.OnTrimmed)), fmt.Sprintf("%q or %q", ContinueReading, FailRun))
	}
	if r.ByteBudget != 0 && r.ByteBudget < minByteBudget {
		f.add("Retrieval.ByteBudget", strconv.FormatInt(r.ByteBudget, 10),
			fmt.Sprintf("at least %d, one GetRecords answer of 10 MiB", minByteBudget))
	}
	whenSet(&f, "Retrieval.MaxPendingBatches", r.MaxPendingBatches, 1, 100)
	whenSet(&f, "Retrieval.RequestTimeout", r.RequestTimeout, 100*time.Millisecond, 5*time.Minute)
	return f.join()
}

// checkStream checks a stream's name and ARN, of which one must be there.
func checkStream(f *faults, path, name, arn string) {
	if arn == "" || name != "" {
		f.name(path+"StreamName", name, 1, 128)
	}
	if arn == "" {
		return
	}
	parsed, err := parseARN(arn)
	switch {
	case err != nil:
		f.add(path+"StreamARN", strconv.Quote(arn), err.Error())
	case name != "" && name != parsed.name:
		f.add(path+"StreamName", strconv.Quote(name), fmt.Sprintf("%q as in StreamARN, or no name", parsed.name))
	}
}

func checkPosition(f *faults, path string, p InitialPosition) {
	if t, ok := p.Timestamp(); ok && t.Before(time.Unix(0, 0)) {
		f.add(path, p.String(), "a time from 1970-01-01T00:00:00Z on")
	}
}

func (m LeaseManagementConfig) check(f *faults) {
	const p = "LeaseManagement."
	if m.TableName != "" {
		f.tableName(p+"TableName", m.TableName)
	}
	f.failover(m)
	for _, n := range []struct {
		name  string
		value int
	}{
		{"MaxLeasesForWorker", m.MaxLeasesForWorker},
		{"MaxLeasesToStealAtOneTime", m.MaxLeasesToStealAtOneTime},
	} {
		if n.value < 0 {
			f.add(p+n.name, strconv.Itoa(n.value), "0 (no limit) or more")
		}
	}
	whenSet(f, p+"ReadBudget", m.ReadBudget, 1, 100_000)
	if names := AssignmentStrategies(); m.AssignmentStrategy != "" && !slices.Contains(names, m.AssignmentStrategy) {
		f.add(p+"AssignmentStrategy", strconv.Quote(m.AssignmentStrategy), "one of "+strings.Join(names, ", "))
	}
	whenSet(f, p+"ShardSyncInterval", m.ShardSyncInterval, time.Second, day)
	whenSet(f, p+"ShardSyncConfidence", m.ShardSyncConfidence, 1, 100)
	whenSet(f, p+"GracefulHandoffTimeout", m.GracefulHandoffTimeout, 100*time.Millisecond, time.Hour)
	whenSet(f, p+"CheckpointInterval", m.CheckpointInterval, minInterval, maxFailoverTime)
	whenSet(f, p+"MaxLeaseRenewalThreads", m.MaxLeaseRenewalThreads, 1, 1000)
	whenSet(f, p+"RequestTimeout", m.RequestTimeout, minInterval, 5*time.Minute)
	whenSet(f, p+"ScanSegments", m.ScanSegments, 1, 1000)
	f.text(p+"Zone", m.Zone, 0, 128)

	switch m.BillingMode {
	case "", OnDemand, Provisioned:
	default:
		f.add(p+"BillingMode", strconv.Quote(string(m.BillingMode)), fmt.Sprintf("%q or %q", OnDemand, Provisioned))
	}
	f.capacity(p+"ReadCapacity", m.ReadCapacity, m.BillingMode)
	f.capacity(p+"WriteCapacity", m.WriteCapacity, m.BillingMode)
	f.tags(p+"Tags", m.Tags)
}

// failover checks FailoverTime and what is bounded by it. If FailoverTime is wrong itself, only the other bounds are looked at.
func (f *faults) failover(m LeaseManagementConfig) {
	const p = "LeaseManagement."
	known := whenSet(f, p+"FailoverTime", m.FailoverTime, minFailoverTime, maxFailoverTime)
	failover := cmp.Or(m.FailoverTime, defaultFailoverTime)
	for _, d := range []struct {
		name  string
		value time.Duration
		most  time.Duration
		said  string
	}{
		{"RenewInterval", m.RenewInterval, failover / 3, "FailoverTime/3"},
		{"LeaseTakerInterval", m.LeaseTakerInterval, 3 * failover, "3×FailoverTime"},
	} {
		switch {
		case d.value == 0:
		case d.value < minInterval:
			f.add(p+d.name, d.value.String(), "at least "+minInterval.String())
		case known && d.value > d.most:
			f.add(p+d.name, d.value.String(), fmt.Sprintf("at most %s = %s", d.said, shorten(d.most)))
		}
	}
}

// shorten rounds a bound down to something readable, which is allowed then, too.
func shorten(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Truncate(time.Millisecond)
	}
	return d.Truncate(10 * time.Millisecond)
}

// faults collects.
type faults []error

func (f *faults) join() error { return errors.Join(*f...) }

func (f *faults) add(path, value, want string) {
	*f = append(*f, fmt.Errorf("%s is %s, want %s", path, value, want))
}

// whenSet checks the bounds of a field whose zero value stands for its default, and reports whether they are kept.
func whenSet[T interface {
	~int | ~int64
	cmp.Ordered
}](f *faults, path string, v, least, most T) bool {
	if v != 0 && (v < least || v > most) {
		f.add(path, fmt.Sprint(v), fmt.Sprintf("%v to %v", least, most))
		return false
	}
	return true
}

func (f *faults) notBelow(path string, v time.Duration, other string, bound time.Duration) {
	if v < bound {
		f.add(path, v.String(), fmt.Sprintf("at least %s = %s", other, bound))
	}
}

func (f *faults) text(path, v string, least, most int) {
	switch {
	case len(v) < least:
		f.add(path, "empty", fmt.Sprintf("%d to %d bytes", least, most))
	case len(v) > most:
		f.add(path, fmt.Sprintf("%d bytes long", len(v)), fmt.Sprintf("at most %d", most))
	case !utf8.ValidString(v):
		f.add(path, strconv.Quote(v), "UTF-8")
	}
}

// tableName applies DynamoDB's rule, to which the application's name is subject too because it names tables.
func (f *faults) tableName(path, v string) { f.name(path, v, 3, 255) }

func (f *faults) name(path, v string, least, most int) {
	if len(v) < least || len(v) > most || !isName(v) {
		f.add(path, strconv.Quote(v), fmt.Sprintf("%d to %d characters of a-z, A-Z, 0-9, '_', '.', '-'", least, most))
	}
}

func isName(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
	})
}

func (f *faults) capacity(path string, v int64, mode BillingMode) {
	switch {
	case v < 0:
		f.add(path, strconv.FormatInt(v, 10), "1 or more, or 0 for the default")
	case v > 0 && mode != Provisioned:
		f.add(path, strconv.FormatInt(v, 10), fmt.Sprintf("0 unless BillingMode is %q", Provisioned))
	}
}

// tags applies DynamoDB's rules.
func (f *faults) tags(path string, tags map[string]string) {
	if len(tags) > 50 {
		f.add(path, fmt.Sprintf("%d tags", len(tags)), "at most 50")
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		v, at := tags[k], fmt.Sprintf("%s[%q]", path, k)
		switch n := utf8.RuneCountInString(k); {
		case n < 1 || n > 128:
			f.add(at, fmt.Sprintf("a key of %d characters", n), "1 to 128")
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			f.add(at, "a reserved key", `one that does not start with "aws:"`)
		case !isTagText(k):
			f.add(at, "a key with other characters", "letters, digits, spaces and _.:/=+-@")
		}
		switch n := utf8.RuneCountInString(v); {
		case n > 256:
			f.add(at, fmt.Sprintf("%d characters long", n), "at most 256")
		case !isTagText(v):
			f.add(at, strconv.Quote(v), "letters, digits, spaces and _.:/=+-@")
		}
	}
}

func isTagText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsSpace(r) && !strings.ContainsRune("_.:/=+-@", r)
	})
}
