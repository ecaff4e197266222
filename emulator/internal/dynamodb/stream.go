package dynamodb

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// What the service does where the options of DynamoDB say nothing.
const (
	streamShardLife   = 4 * time.Hour
	streamRetention   = 24 * time.Hour
	streamIteratorTTL = 15 * time.Minute
)

// stream is what happened to the items of one table while its stream was enabled. Nothing runs in the background: settle does
// what the time that has passed would have done.
type stream struct {
	table           *table
	arn, label      string
	view            string
	created         time.Time
	enabledAt       time.Time // ENABLING before
	off, disabledAt time.Time // if set: no records from off on, DISABLING before disabledAt
	life, retention time.Duration

	shards []*streamShard // by birth
	count  uint64         // of sequence numbers, which shards draw from at birth and at their end, too
	born   int            // shards, ever
}

// streamShard takes the records of the items whose hash keys hash into [lo, hi], which nobody is told.
type streamShard struct {
	stream         *stream
	id, parent     string
	lo, hi         uint64
	start, end     uint64 // counts; end is 0 while the shard is open
	born, closedAt time.Time

	records []*streamRecord
	trimmed uint64 // the count of the last record that was trimmed
}

// streamRecord is one change of one item. It never changes.
type streamRecord struct {
	count              uint64
	at                 time.Time
	name               string // INSERT, MODIFY, REMOVE
	keys               fields
	newImage, oldImage *row // nil if there is none, or the view leaves it out
	size               int
}

// sequenceNumber is what clients see of a count. 25 digits, as the service's have 21 to 40, and gaps between them.
func sequenceNumber(count uint64) string { return fmt.Sprintf("1%019d00007", count) }

// countOf is the inverse of sequenceNumber.
func countOf(number string) (uint64, bool) {
	if len(number) != 25 || number[0] != '1' || number[20:] != "00007" {
		return 0, false
	}
	n, err := strconv.ParseUint(number[1:20], 10, 64)
	return n, err == nil
}

// enableStream begins a stream of a table.
func (d *DynamoDB) enableStream(now time.Time, t *table, view string) {
	s := &stream{
		table: t, view: view, created: now, enabledAt: now.Add(max(0, d.TableDelay)),
		life: cmp.Or(d.StreamShardLife, streamShardLife), retention: cmp.Or(d.StreamRetention, streamRetention),
	}
	// A label is a time to the millisecond, and two streams of a table never share one.
	for at := now.UTC(); ; at = at.Add(time.Millisecond) {
		s.label = at.Format("2006-01-02T15:04:05.000")
		s.arn = t.arn + "/stream/" + s.label
		if d.streamOf(s.arn) == nil {
			break
		}
	}
	n := uint64(max(d.StreamShards, 1))
	width := math.MaxUint64/n + 1
	if n == 1 {
		width = 0
	}
	for i := range n {
		hi := (i+1)*width - 1
		if i == n-1 {
			hi = math.MaxUint64
		}
		s.open(now, "", i*width, hi)
	}
	d.streams = append(d.streams, s)
	t.stream = s
}

// enabled reports whether there is a stream that takes records.
func (s *stream) enabled() bool { return s != nil && s.off.IsZero() }

func (s *stream) disable(now time.Time, delay time.Duration) {
	s.settle(now)
	s.off, s.disabledAt = now, now.Add(max(0, delay))
	for _, x := range s.shards {
		x.close(now)
	}
}

func (s *stream) status(now time.Time) string {
	switch {
	case now.Before(s.enabledAt):
		return "ENABLING"
	case s.off.IsZero():
		return "ENABLED"
	case now.Before(s.disabledAt):
		return "DISABLING"
	}
	return "DISABLED"
}

func (s *stream) next() uint64 {
	s.count++
	return s.count
}

// open adds a shard. Its id begins with the time of its birth, as the service's do.
func (s *stream) open(now time.Time, parent string, lo, hi uint64) *streamShard {
	s.born++
	x := &streamShard{
		stream: s, parent: parent, lo: lo, hi: hi, start: s.next(), born: now,
		id: fmt.Sprintf("shardId-%020d-%08x", now.UnixMilli(), crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %d", s.arn, s.born))),
	}
	s.shards = append(s.shards, x)
	return x
}

func (x *streamShard) closed() bool { return x.end != 0 }

func (x *streamShard) close(now time.Time) {
	if !x.closed() {
		x.end, x.closedAt = x.stream.next(), now
	}
}

// split closes a shard and opens one or two that follow it.
func (x *streamShard) split(now time.Time, children int) (born []*streamShard) {
	x.close(now)
	if children < 2 || x.lo == x.hi {
		return []*streamShard{x.stream.open(now, x.id, x.lo, x.hi)}
	}
	middle := x.lo + (x.hi-x.lo)/2
	return []*streamShard{x.stream.open(now, x.id, x.lo, middle), x.stream.open(now, x.id, middle+1, x.hi)}
}

// settle lets the shards roll that are old enough, and forgets what is older than the retention.
func (s *stream) settle(now time.Time) {
	for _, x := range slices.Clone(s.shards) {
		for !x.closed() && !now.Before(x.born.Add(s.life)) {
			x = x.split(x.born.Add(s.life), 1)[0]
		}
	}
	horizon := now.Add(-s.retention)
	s.shards = slices.DeleteFunc(s.shards, func(x *streamShard) bool { return x.closed() && !x.closedAt.After(horizon) })
	for _, x := range s.shards {
		x.trim(horizon)
	}
}

func (x *streamShard) trim(horizon time.Time) {
	n := sort.Search(len(x.records), func(i int) bool { return x.records[i].at.After(horizon) })
	if n > 0 {
		x.trimmed, x.records = x.records[n-1].count, slices.Clone(x.records[n:])
	}
}

// note adds what a write did, if it did anything, and says where.
func (s *stream) note(now time.Time, c change) (shard, number string) {
	if !s.off.IsZero() || same(c.old, c.new) {
		return "", ""
	}
	s.settle(now)
	item := c.new.item()
	r := &streamRecord{at: now, name: "MODIFY"}
	switch {
	case c.old == nil:
		r.name = "INSERT"
	case c.new == nil:
		r.name, item = "REMOVE", c.old.item()
	}
	keys := s.table.keys
	r.keys = item.only(keys.names()...)
	if s.view == "NEW_IMAGE" || s.view == "NEW_AND_OLD_IMAGES" {
		r.newImage = c.new
	}
	if s.view == "OLD_IMAGE" || s.view == "NEW_AND_OLD_IMAGES" {
		r.oldImage = c.old
	}
	r.size = r.keys.size() + r.newImage.bytes() + r.oldImage.bytes()
	h := hashOf(item.get(keys.hash).text)
	for _, x := range s.shards {
		if !x.closed() && x.lo <= h && h <= x.hi {
			if n := len(x.records); n > 0 && x.records[n-1].at.After(r.at) {
				r.at = x.records[n-1].at // times never fall, so that they can be searched
			}
			r.count = s.next()
			x.records = append(x.records, r)
			return x.id, sequenceNumber(r.count)
		}
	}
	return "", "" // there is always one: the open shards hold all hashes
}

// same reports whether a write left the item as it was.
func same(a, b *row) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil || a.size != b.size:
		return false
	}
	return string(a.attrs.appendJSON(nil)) == string(b.attrs.appendJSON(nil))
}

func (r *streamRecord) describe(s *stream) output {
	data := output{
		"ApproximateCreationDateTime": int(r.at.Unix()), "Keys": r.keys, "SequenceNumber": sequenceNumber(r.count),
		"SizeBytes": r.size, "StreamViewType": s.view,
	}
	if r.newImage != nil {
		data["NewImage"] = r.newImage.attrs
	}
	if r.oldImage != nil {
		data["OldImage"] = r.oldImage.attrs
	}
	return output{
		"eventID": fmt.Sprintf("%016x%016x", hashOf(s.arn), r.count), "eventName": r.name, "eventVersion": "1.1",
		"eventSource": "aws:dynamodb", "awsRegion": strings.Split(s.arn, ":")[3], "dynamodb": data,
	}
}

// streamOf returns the stream of that ARN, or nil.
func (d *DynamoDB) streamOf(arn string) *stream {
	i := slices.IndexFunc(d.streams, func(s *stream) bool { return s.arn == arn })
	if i < 0 {
		return nil
	}
	return d.streams[i]
}

// settleStreams forgets the streams that were disabled long enough ago.
func (d *DynamoDB) settleStreams(now time.Time) {
	d.streams = slices.DeleteFunc(d.streams, func(s *stream) bool {
		return !s.off.IsZero() && !now.Before(s.off.Add(s.retention))
	})
	for _, s := range d.streams {
		s.settle(now)
	}
}

// ReshardStream closes the shard of that id, or all open ones if id is empty, of the stream that the table has now, and lets as
// many children follow each. It returns the children's ids.
func (d *DynamoDB) ReshardStream(tableName, id string, children int) (ids []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.settleStreams(now)
	t := d.find(tableName, now)
	if t == nil || !t.stream.enabled() {
		return nil, wire.Errorf("ResourceNotFoundException", "table %q has no enabled stream", tableName)
	}
	for _, x := range slices.Clone(t.stream.shards) {
		if !x.closed() && (id == "" || x.id == id) {
			for _, child := range x.split(now, children) {
				ids = append(ids, child.id)
			}
		}
	}
	if len(ids) == 0 {
		return nil, wire.Errorf("ResourceNotFoundException", "the stream of table %q has no open shard %q", tableName, id)
	}
	return ids, nil
}
