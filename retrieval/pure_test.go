package retrieval

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

func TestPace_waitsAsLongAsTheShardIsQuiet(t *testing.T) {
	t.Parallel()
	const idle, most = 200 * time.Millisecond, time.Second
	type reading struct {
		records int
		full    bool
		behind  int64
	}
	for name, c := range map[string]struct {
		before  []reading
		refused bool
		opening bool
		last    reading
		want    time.Duration // lower bound; the upper one is an eighth more
	}{
		"full page":              {last: reading{10_000, true, 0}, want: 0},
		"far behind":             {last: reading{1, false, 5000}, want: 0},
		"at the tip":             {last: reading{1, false, 0}, want: idle},
		"a little behind":        {last: reading{1, false, 20}, want: idle},
		"far behind in a gap":    {last: reading{0, false, 5000}, want: idle},
		"refused before":         {refused: true, last: reading{10_000, true, 5000}, want: idle + refusedMore},
		"first empty":            {last: reading{}, want: idle},
		"just opened, empty":     {opening: true, last: reading{}, want: idle / 4},
		"opened, second empty":   {opening: true, before: make([]reading, 1), last: reading{}, want: idle},
		"just opened, a record":  {opening: true, last: reading{1, false, 0}, want: idle},
		"second empty":           {before: make([]reading, 1), last: reading{}, want: 300 * time.Millisecond},
		"third empty":            {before: make([]reading, 2), last: reading{}, want: 450 * time.Millisecond},
		"many empty":             {before: make([]reading, 50), last: reading{}, want: most},
		"a record after silence": {before: make([]reading, 50), last: reading{1, false, 0}, want: idle},
		"silence after a record": {before: append(make([]reading, 50), reading{1, false, 0}), last: reading{}, want: idle},
	} {
		p := pace{idle: idle, most: most, far: 1000, opening: c.opening}
		if c.refused {
			p.refused()
		}
		for _, r := range c.before {
			p.after(r.records, 0, r.full, r.behind)
		}
		got := p.after(c.last.records, 0, c.last.full, c.last.behind)
		if got < c.want || got > c.want+c.want/8 {
			t.Errorf("%s: %v, want %v and at most an eighth more", name, got, c.want)
		}
	}
	p := pace{idle: idle, most: most, far: 1000}
	p.refused()
	if got := p.after(500, 5<<20, true, 5000); got < 2500*time.Millisecond {
		t.Errorf("the read after a page of 5 MiB comes after %v: the service would refuse it", got)
	}
	reads := 1
	for ; p.after(10_000, 0, true, 5000) != 0; reads++ {
		if reads > 100 {
			t.Fatal("one refusal is not forgotten")
		}
	}
	if reads < 50 {
		t.Errorf("a read follows at once %d reads after one was refused", reads)
	}
	for range 1000 {
		p.refused()
	}
	if got := p.after(1, 0, false, 0); got > mostCareful+mostCareful/8 {
		t.Errorf("a shard that is always refused is left alone for %v", got)
	}
}

func TestPlace_dropsWhatTheCheckpointCoversAndNothingElse(t *testing.T) {
	t.Parallel()
	page := func(numbers ...string) (out []processor.Record) {
		for _, n := range numbers {
			out = append(out, processor.Record{SequenceNumber: n})
		}
		return out
	}
	for name, c := range map[string]struct {
		from  checkpoint.ExtendedSequenceNumber
		pages [][]processor.Record
		want  int
		last  string
	}{
		"from a record":     {from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "99"}, pages: [][]processor.Record{page("99", "100", "101")}, want: 2, last: "101"},
		"numbers, not text": {from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "0099"}, pages: [][]processor.Record{page("9", "99", "100")}, want: 1, last: "100"},
		"nothing new":       {from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "99"}, pages: [][]processor.Record{page("98", "99"), nil}, want: 0},
		"over two pages":    {from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "99"}, pages: [][]processor.Record{page("98"), page("99"), page("100")}, want: 1, last: "100"},
		"trimmed meanwhile": {from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "99"}, pages: [][]processor.Record{page("500")}, want: 1, last: "500"},
		"from the horizon":  {from: checkpoint.TrimHorizon, pages: [][]processor.Record{page("1", "2")}, want: 2, last: "2"},
	} {
		p := place{from: c.from}
		got := 0
		for _, records := range c.pages {
			got += len(p.advance(records, func(page []processor.Record) []processor.Record { return page }))
		}
		if got != c.want || p.last != c.last {
			t.Errorf("%s: %d records, last %q, want %d, %q", name, got, p.last, c.want, c.last)
		}
	}
}

// A record of three user records, of which the checkpoint may name any, the last one and none beyond it.
func TestPlace_ofACheckpointInsideARecordIsBehindItOnceTheRestWasRead(t *testing.T) {
	t.Parallel()
	three := func(page []processor.Record) (out []processor.Record) {
		for _, r := range page {
			for r.SubSequenceNumber = range 3 {
				out = append(out, r)
			}
		}
		return out
	}
	for sub, want := range map[int64]struct {
		first, second []string
		last          string
	}{
		0: {[]string{"99/1", "99/2"}, []string{"100", "100/1", "100/2"}, "99"},
		1: {[]string{"99/2"}, []string{"100", "100/1", "100/2"}, "99"},
		2: {nil, []string{"100", "100/1", "100/2"}, ""},
		7: {nil, []string{"100", "100/1", "100/2"}, ""},
	} {
		p := place{from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "99", SubSequenceNumber: sub}}
		positions := func(numbers ...string) (out []string) {
			var page []processor.Record
			for _, n := range numbers {
				page = append(page, processor.Record{SequenceNumber: n})
			}
			for _, r := range p.advance(page, three) {
				out = append(out, r.Position().String())
			}
			return out
		}
		if diff := cmp.Diff(want.first, positions("98", "99")); diff != "" || p.last != want.last {
			t.Errorf("99/%d: last %q, want %q; of the first page (-want +got):\n%s", sub, p.last, want.last, diff)
		}
		if diff := cmp.Diff(want.second, positions("100")); diff != "" || p.last != "100" {
			t.Errorf("99/%d: last %q, want 100; of the second page (-want +got):\n%s", sub, p.last, diff)
		}
	}
	p := place{from: checkpoint.ExtendedSequenceNumber{SequenceNumber: "99", SubSequenceNumber: 2}}
	none := func([]processor.Record) []processor.Record { return nil }
	if got := p.advance([]processor.Record{{SequenceNumber: "99"}, {SequenceNumber: "100"}}, none); len(got) != 0 || p.last != "100" {
		t.Errorf("a page of other shards' records: %d records, last %q, want 0 and 100", len(got), p.last)
	}
}

func TestFaultOf_tellsWhatToDoAboutAnError(t *testing.T) {
	t.Parallel()
	op := func(err error) error {
		return &smithy.OperationError{ServiceID: "Kinesis", OperationName: "GetRecords", Err: err}
	}
	api := func(code string) error { return op(&smithy.GenericAPIError{Code: code}) }
	for _, c := range []struct {
		err  error
		want fault
	}{
		{api("ProvisionedThroughputExceededException"), throttled},
		{api("KMSThrottlingException"), throttled},
		{api("LimitExceededException"), throttled},
		{api("ExpiredIteratorException"), badIterator},
		{api("ExpiredNextTokenException"), badToken},
		{api("ResourceNotFoundException"), notFound},
		{api("ResourceInUseException"), inUse},
		{api("AccessDeniedException"), denied},
		{api("UnrecognizedClientException"), denied},
		{api("ExpiredTokenException"), transient},
		{api("InvalidSignatureException"), skewed},
		{api("KMSDisabledException"), refused},
		{api("SomethingNew"), refused},
		{op(&smithy.GenericAPIError{Code: "InternalFailure", Fault: smithy.FaultServer}), transient},
		{op(&smithy.DeserializationError{Err: io.ErrUnexpectedEOF}), transient},
		{op(context.DeadlineExceeded), transient},
		{op(errors.New("an AWS region is required")), refused},
		{errors.New("no error of the SDK"), transient},
	} {
		if got := faultOf(c.err); got != c.want {
			t.Errorf("faultOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}
