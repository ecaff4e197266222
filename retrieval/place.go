package retrieval

import (
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/processor"
)

// place is where a source stands in its shard. An iterator can be made from it at any time, so that one that expired, or
// was lost with a reply, costs nothing: neither a record twice nor a record less.
type place struct {
	from checkpoint.ExtendedSequenceNumber
	// at is the time that LATEST and AT_TIMESTAMP mean, zero if that is not known. Where nobody wrote it down, LATEST
	// gets it with its first iterator: a second LATEST would leave out what came since the first.
	at time.Time
	// last is the last record that was read, if it comes after from. Until then from stands, because a record may hold
	// several user records of which from names one: a reader that began after that record would lose the rest.
	last string
	// found: the record that from names was seen, or one after it. From then on records come in one piece.
	found bool
}

// iterator asks for an iterator at the place.
func (p *place) iterator(in *kinesis.GetShardIteratorInput) {
	switch {
	case p.last != "":
		in.ShardIteratorType = types.ShardIteratorTypeAfterSequenceNumber
		in.StartingSequenceNumber = &p.last
	case p.from == checkpoint.TrimHorizon:
		in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
	case p.from == checkpoint.Latest && p.at.IsZero():
		in.ShardIteratorType = types.ShardIteratorTypeLatest
	case p.from == checkpoint.AtTimestamp && p.at.IsZero(): // of a Java worker, which does not write the time down
		in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
	case p.from == checkpoint.Latest, p.from == checkpoint.AtTimestamp:
		in.ShardIteratorType = types.ShardIteratorTypeAtTimestamp
		in.Timestamp = &p.at
	default:
		in.ShardIteratorType = types.ShardIteratorTypeAtSequenceNumber
		in.StartingSequenceNumber = &p.from.SequenceNumber
	}
}

// read is the number of the last record that was read, by us or before us; empty if none was.
func (p *place) read() string {
	if p.last == "" && !p.from.IsSentinel() {
		return p.from.SequenceNumber
	}
	return p.last
}

// advance moves the place over a page of Kinesis records and returns the new records that expand makes of it: those that the
// checkpoint covers come again when a shard is opened, because it is opened at the checkpoint, not after it. The record that
// the checkpoint names is expanded too, since some of its user records may be new.
func (p *place) advance(page []processor.Record, expand func([]processor.Record) []processor.Record) []processor.Record {
	if p.last != "" || p.from.IsSentinel() {
		if len(page) > 0 {
			p.last = page[len(page)-1].SequenceNumber
		}
		return expand(page)
	}
	named := checkpoint.ExtendedSequenceNumber{SequenceNumber: p.from.SequenceNumber}
	page = after(page, func(at checkpoint.ExtendedSequenceNumber) bool { return at.Compare(named) < 0 })
	if len(page) == 0 {
		return nil
	}
	last := page[len(page)-1]
	news := after(expand(page), func(at checkpoint.ExtendedSequenceNumber) bool { return at.Compare(p.from) <= 0 })
	if len(news) > 0 || last.Position().Compare(named) > 0 { // else nothing was seen beyond the checkpoint
		p.last = last.SequenceNumber
	}
	return news
}

// after returns records without those at its beginning that are old.
func after(records []processor.Record, old func(checkpoint.ExtendedSequenceNumber) bool) []processor.Record {
	for len(records) > 0 && old(records[0].Position()) {
		records = records[1:]
	}
	return records
}

// lacks takes a page, before advance does, and reports whether it shows that the record is not there any more that from names: one
// that comes after it is the first. It says so once.
func (p *place) lacks(page []processor.Record) bool {
	if p.found || p.last != "" || p.from.IsSentinel() || len(page) == 0 {
		return false
	}
	p.found = true
	return page[0].Position().Compare(checkpoint.ExtendedSequenceNumber{SequenceNumber: p.from.SequenceNumber}) > 0
}

// unseen reports whether not even the record has come that from names, at which reading began.
func (p *place) unseen() bool { return !p.found && p.last == "" && !p.from.IsSentinel() }

// recheck makes the next iterator begin at the last record that was read and not after it, so that lacks can tell whether it is still
// there. All that is in that record was handed over, or was with another reader's.
func (p *place) recheck() {
	if p.last != "" {
		p.from, p.last = checkpoint.ExtendedSequenceNumber{SequenceNumber: p.last, SubSequenceNumber: math.MaxInt64}, ""
	}
	p.found = false
}

// position is where reading is to go on, for people.
func (p *place) position() string {
	switch {
	case p.last != "":
		return p.last
	case p.from.SubSequenceNumber == math.MaxInt64:
		return p.from.SequenceNumber
	}
	return p.from.String()
}

// opened takes note of an iterator that was made for in when the service's clock showed now. That clock has no fractions,
// and the clocks of its hosts differ a little; so LATEST may later mean a second before.
func (p *place) opened(in *kinesis.GetShardIteratorInput, now time.Time) {
	if in.ShardIteratorType == types.ShardIteratorTypeLatest {
		p.at = now.Add(-time.Second)
	}
}
