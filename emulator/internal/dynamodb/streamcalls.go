package dynamodb

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// streamOperations are those of DynamoDB Streams, a service with a target of its own on the same endpoint.
var streamOperations = map[string]operation{
	"ListStreams":      (*DynamoDB).listStreams,
	"DescribeStream":   (*DynamoDB).describeStream,
	"GetShardIterator": (*DynamoDB).getShardIterator,
	"GetRecords":       (*DynamoDB).getRecords,
}

// What one answer of GetRecords holds at most.
const (
	maxStreamRecords = 1000
	maxStreamBytes   = 1 << 20
)

// required reads a string that must be there.
func (p *params) required(name string) string {
	v := p.str(name)
	if v == "" {
		p.fail(invalid("1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", lowerFirst(name)))
	}
	return v
}

// streamSpecification reads StreamSpecification; given is false if it is absent.
func streamSpecification(p *params) (view string, enabled, given bool) {
	q := p.sub("StreamSpecification")
	if q == nil {
		return "", false, false
	}
	enabled, given = q.flag("StreamEnabled")
	if !given {
		q.fail(invalid("1 validation error detected: Value null at 'streamSpecification.streamEnabled' failed to satisfy constraint: Member must not be null"))
	}
	if q.has("StreamViewType") {
		view = q.enum("StreamViewType", "KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
	}
	switch {
	case enabled && view == "":
		q.fail(invalid("One or more parameter values were invalid: StreamViewType must be specified when StreamEnabled is true"))
	case !enabled && view != "":
		q.fail(invalid("One or more parameter values were invalid: StreamViewType must not be specified when StreamEnabled is false"))
	}
	p.adopt(q)
	return view, enabled, true
}

func (d *DynamoDB) listStreams(p *params) (action, *wire.Error) {
	name, after := "", p.str("ExclusiveStartStreamArn")
	if p.has("TableName") {
		name = p.table()
	}
	limit, given := p.integer("Limit", 1, 100)
	if !given {
		limit = 100
	}
	return func(c *call) (output, *wire.Error) {
		d.settleStreams(c.now)
		all := slices.SortedFunc(slices.Values(d.streams), func(a, b *stream) int { return cmp.Compare(a.arn, b.arn) })
		streams := []output{}
		out := output{}
		for _, s := range all {
			if name != "" && s.table.name != name || s.arn <= after {
				continue
			}
			if len(streams) == limit {
				out["LastEvaluatedStreamArn"] = streams[limit-1]["StreamArn"]
				break
			}
			streams = append(streams, output{"StreamArn": s.arn, "StreamLabel": s.label, "TableName": s.table.name})
		}
		out["Streams"] = streams
		return out, nil
	}, p.done()
}

// known finds a stream for a call.
func (d *DynamoDB) known(arn string, now time.Time) (*stream, *wire.Error) {
	d.settleStreams(now)
	if s := d.streamOf(arn); s != nil {
		return s, nil
	}
	return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found: Stream: %s not found", arn)
}

func (s *stream) shard(id string) (*streamShard, *wire.Error) {
	for _, x := range s.shards {
		if x.id == id {
			return x, nil
		}
	}
	return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found: Shard does not exist: %s of stream %s", id, s.arn)
}

func (d *DynamoDB) describeStream(p *params) (action, *wire.Error) {
	arn, after := p.required("StreamArn"), p.str("ExclusiveStartShardId")
	limit, given := p.integer("Limit", 1, 100)
	if !given {
		limit = 100
	}
	parent := ""
	if q := p.sub("ShardFilter"); q != nil {
		q.enum("Type", "CHILD_SHARDS")
		parent = q.required("ShardId")
		p.adopt(q)
	}
	return func(c *call) (output, *wire.Error) {
		if d.Limits && !d.describes.admit(c.now) {
			return nil, wire.Errorf("ThrottlingException", "Rate exceeded: DescribeStream may be called %d times a second", describeStreamRate)
		}
		s, err := d.known(arn, c.now)
		if err != nil {
			return nil, err
		}
		description := output{
			"StreamArn": s.arn, "StreamLabel": s.label, "StreamStatus": s.status(c.now), "StreamViewType": s.view,
			"CreationRequestDateTime": epoch(s.created), "TableName": s.table.name, "KeySchema": s.table.keys.describe(),
		}
		shards := []output{}
		for _, x := range slices.SortedFunc(slices.Values(s.shards), func(a, b *streamShard) int { return cmp.Compare(a.id, b.id) }) {
			if x.id <= after || parent != "" && x.parent != parent {
				continue
			}
			if len(shards) == limit {
				description["LastEvaluatedShardId"] = shards[limit-1]["ShardId"]
				break
			}
			shards = append(shards, x.describe())
		}
		description["Shards"] = shards
		return output{"StreamDescription": description}, nil
	}, p.done()
}

func (x *streamShard) describe() output {
	numbers := output{"StartingSequenceNumber": sequenceNumber(x.start)}
	if x.closed() {
		numbers["EndingSequenceNumber"] = sequenceNumber(x.end)
	}
	out := output{"ShardId": x.id, "SequenceNumberRange": numbers}
	if x.parent != "" {
		out["ParentShardId"] = x.parent
	}
	return out
}

// describeStreamRate is how often an account may call DescribeStream in a second.
const describeStreamRate = 10

// perSecond counts calls of the second that has begun.
type perSecond struct {
	second int64
	calls  int
}

func (p *perSecond) admit(now time.Time) bool {
	if s := now.Unix(); s != p.second {
		*p = perSecond{second: s}
	}
	p.calls++
	return p.calls <= describeStreamRate
}

func trimmedAccess(x *streamShard) *wire.Error {
	return wire.Errorf("TrimmedDataAccessException", "The operation attempted to read past the oldest stream record in a shard: %s", x.id)
}

func (d *DynamoDB) getShardIterator(p *params) (action, *wire.Error) {
	arn, id := p.required("StreamArn"), p.required("ShardId")
	p.required("ShardIteratorType")
	kind := p.enum("ShardIteratorType", "TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")
	number := p.str("SequenceNumber")
	numbered := kind == "AT_SEQUENCE_NUMBER" || kind == "AFTER_SEQUENCE_NUMBER"
	switch {
	case numbered && number == "":
		p.fail(invalid("One or more parameter values were invalid: SequenceNumber must be specified with ShardIteratorType %s", kind))
	case !numbered && number != "":
		p.fail(invalid("One or more parameter values were invalid: SequenceNumber must not be specified with ShardIteratorType %s", kind))
	}
	return func(c *call) (output, *wire.Error) {
		s, err := d.known(arn, c.now)
		if err != nil {
			return nil, err
		}
		x, err := s.shard(id)
		if err != nil {
			return nil, err
		}
		from := s.count + 1
		switch {
		case kind == "TRIM_HORIZON":
			from = max(x.start, x.trimmed+1)
		case numbered:
			n, ok := countOf(number)
			if !ok || n < x.start || n > s.count || x.closed() && n > x.end {
				return nil, invalid("Invalid SequenceNumber: %s is not one of shard %s", number, id)
			}
			if n <= x.trimmed {
				return nil, trimmedAccess(x)
			}
			if from = n; kind == "AFTER_SEQUENCE_NUMBER" {
				from++
			}
		}
		return output{"ShardIterator": streamIterator(x, from, c.now)}, nil
	}, p.done()
}

// streamIterator is an iterator as clients see it, with a checksum, so that garbage is not taken for one.
func streamIterator(x *streamShard, from uint64, now time.Time) string {
	text := fmt.Sprintf("%s %d %d", x.id, from, now.UnixMilli())
	sum := crc32.ChecksumIEEE([]byte(x.stream.arn + text))
	return x.stream.arn + "|1|" + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s %d", text, sum))
}

func parseStreamIterator(s string) (arn, id string, from uint64, issued time.Time, ok bool) {
	arn, encoded, cut := strings.Cut(s, "|1|")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !cut {
		return "", "", 0, time.Time{}, false
	}
	var (
		millis int64
		sum    uint32
	)
	if n, err := fmt.Sscanf(string(raw), "%s %d %d %d", &id, &from, &millis, &sum); n != 4 || err != nil {
		return "", "", 0, time.Time{}, false
	}
	ok = crc32.ChecksumIEEE(fmt.Appendf(nil, "%s%s %d %d", arn, id, from, millis)) == sum
	return arn, id, from, time.UnixMilli(millis), ok
}

func (d *DynamoDB) getRecords(p *params) (action, *wire.Error) {
	given := p.required("ShardIterator")
	limit, limited := p.integer("Limit", 1, maxStreamRecords)
	if !limited {
		limit = maxStreamRecords
	}
	return func(c *call) (output, *wire.Error) {
		arn, id, from, issued, ok := parseStreamIterator(given)
		if !ok {
			return nil, invalid("Invalid ShardIterator")
		}
		if ttl := cmp.Or(d.StreamIteratorTTL, streamIteratorTTL); c.now.Sub(issued) > ttl {
			return nil, wire.Errorf("ExpiredIteratorException", "Iterator expired. The iterator was created at time %s while right now it is %s, more than %s later.",
				issued.UTC().Format(time.RFC3339Nano), c.now.UTC().Format(time.RFC3339Nano), ttl)
		}
		s, err := d.known(arn, c.now)
		if err != nil {
			return nil, err
		}
		x, err := s.shard(id)
		if err != nil {
			return nil, err
		}
		if from <= x.trimmed {
			return nil, trimmedAccess(x)
		}
		records := []output{}
		i, _ := slices.BinarySearchFunc(x.records, from, func(r *streamRecord, n uint64) int { return cmp.Compare(r.count, n) })
		for size := 0; i < len(x.records) && len(records) < limit; i++ {
			r := x.records[i]
			if size += r.size; size > maxStreamBytes && len(records) > 0 {
				break
			}
			records = append(records, r.describe(s))
			from = r.count + 1
		}
		out := output{"Records": records}
		if !x.closed() || i < len(x.records) {
			out["NextShardIterator"] = streamIterator(x, from, c.now)
		}
		return out, nil
	}, p.done()
}
