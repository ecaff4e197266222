package leases

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/shardlease/shardlease/config"
)

// Get reads one row, consistently. found is false if there is none; a row that is no lease is an error.
// (KCL: getLease, which reads without consistency)
func (t *Table) Get(ctx context.Context, key string) (l Lease, found bool, err error) {
	op := operation{what: "read lease", key: key, action: "GetItem", limit: t.attempt, rank: rankMove}
	row, err := t.read(ctx, op, key)
	if err != nil || row == nil {
		return Lease{}, false, err
	}
	if entity, _ := entityOf(row); entity != entityLease {
		return Lease{}, false, fmt.Errorf("%s: the row is no lease: its entityType is %q", op, entity)
	}
	if l, err = t.decoder().decode(row); err != nil {
		return Lease{}, false, fmt.Errorf("%s: %w", op, err)
	}
	return l, true, nil
}

// read returns the row of a key, consistently; nil if there is none.
func (t *Table) read(ctx context.Context, op operation, key string) (row item, err error) {
	in := &dynamodb.GetItemInput{TableName: &t.cfg.TableName, Key: item{attrKey: str(key)}, ConsistentRead: aws.Bool(true)}
	err = t.call(ctx, op, func(ctx context.Context) error {
		out, err := t.api.GetItem(ctx, in, noRetries)
		if err == nil {
			row = out.Item
		}
		return err
	})
	if len(row) == 0 {
		row = nil
	}
	return row, err
}

// Listing is one look at the whole table.
type Listing struct {
	Leases    []Lease // in no order
	Rows      int     // all that were read
	Foreign   int     // of other entityTypes: KCL 3.5 keeps its own rows in this table
	Broken    int     // leases that cannot be read; each was warned about once
	OtherKeys int     // leases with keys of the other form, left out; see [Table.LeaveOtherKeysOut]
	Pages     int     // requests
	ReadUnits float64 // capacity; an estimate where the server does not say
}

// List reads the table, as LeaseManagement.ConsistentReads says, in as many segments at once as ScanSegments says or, if that
// is 0, as the size of the table as last read asks for. Rows that are no leases are left out; one that cannot be read as
// what it should be never fails the listing, and is reported once, through Hooks.LeaseSkipped. One whose key has the form of the
// other kind of worker fails it with a *[MixedKeysError], until [Table.LeaveOtherKeysOut] was called.
// Rows that others write meanwhile are seen before or after. The error is a *[KCL3ModeError] if a row says that the table's
// workers do not take leases by themselves any more. (KCL: listLeases, listLeasesParallely)
func (t *Table) List(ctx context.Context) (Listing, error) {
	of := int(t.segments.Load())
	if t.cfg.ScanSegments > 0 {
		of = t.cfg.ScanSegments
	}
	of = max(1, of)
	all := make([]int, of)
	for i := range all {
		all[i] = i
	}
	sum, names, bytes, err := t.list(ctx, all, of)
	if err != nil {
		return Listing{}, err
	}
	t.names.Store(&names)
	t.segments.Store(int32(segmentsFor(bytes)))
	t.rows.Store(int32(min(sum.Rows, math.MaxInt32)))
	return sum, nil
}

// ListScope is List for a part of the table.
func (t *Table) ListScope(ctx context.Context, s Scope) (Listing, error) {
	if s.Whole() {
		return t.List(ctx)
	}
	sum, _, _, err := t.list(ctx, s.Segments, s.Of)
	return sum, err
}

// list reads some segments of so many, all at once. names are the strings that it met, bytes is what it read.
func (t *Table) list(ctx context.Context, numbers []int, of int) (sum Listing, names map[string]string, bytes float64, err error) {
	parts := make([]segment, len(numbers))
	// As many rows as the table had when it was last read whole are likely. The first part has room for the others' rows.
	likely := int(t.rows.Load()) / of
	room := likely * len(numbers)
	g, gctx := errgroup.WithContext(ctx)
	for i, number := range numbers {
		parts[i] = segment{table: t, known: *t.names.Load(), names: map[string]string{}}
		parts[i].Leases = make([]Lease, 0, room+room/16)
		room = likely
		g.Go(func() error { return parts[i].read(gctx, number, of) })
	}
	if err := g.Wait(); err != nil {
		return Listing{}, nil, 0, err
	}
	names = map[string]string{}
	other := ""
	for i := range parts {
		p := &parts[i]
		if i == 0 {
			sum.Leases = p.Leases
		} else {
			sum.Leases = append(sum.Leases, p.Leases...)
		}
		sum.Rows += p.Rows
		sum.Foreign += p.Foreign
		if p.mode != "" {
			return Listing{}, nil, 0, &KCL3ModeError{Table: t.cfg.TableName, Version: p.mode}
		}
		sum.Broken += p.Broken
		sum.OtherKeys += p.OtherKeys
		other = cmp.Or(other, p.other)
		sum.Pages += p.Pages
		sum.ReadUnits += p.ReadUnits
		bytes += p.bytes
		maps.Copy(names, p.names)
	}
	if err := t.otherKeys(sum.OtherKeys, other); err != nil {
		return Listing{}, nil, 0, err
	}
	return sum, names, bytes, nil
}

// segmentsFor is how many segments read a table of so many bytes. 4 MB are some 15 pages of about 10 ms; that many
// one after the other keep a look short beside the shortest FailoverTime, while a small table costs no extra requests.
// (KCL: a segment for each 0.2 GiB, where a look takes seconds; at most 32, as here)
func segmentsFor(bytes float64) int {
	const perSegment, most = 4 << 20, 32
	return min(most, 1+int(bytes/perSegment))
}

// pageRows is how many rows a page has at most. One of 1 MB has some 2,000, which the SDK makes 5 MB and more of.
const pageRows = 500

// segment is one part of a listing.
type segment struct {
	Listing
	table *Table
	bytes float64
	known map[string]string // strings of the last listing; shared, not written
	names map[string]string // strings of this segment
	mode  string            // of KCL 3.x, if a row says that the table is in it
	other string            // the first key of another form
}

// intern returns one copy of equal strings, the last listing's if it had it.
func (s *segment) intern(v string) string {
	if have, ok := s.names[v]; ok {
		return have
	}
	if have, ok := s.known[v]; ok {
		v = have
	}
	s.names[v] = v
	return v
}

func (s *segment) read(ctx context.Context, number, total int) error {
	t := s.table
	op := operation{what: "list leases of table", on: s.table.cfg.TableName, action: "Scan", limit: t.page, rank: rankLook}
	in := &dynamodb.ScanInput{
		TableName: &t.cfg.TableName, ConsistentRead: aws.Bool(t.cfg.ConsistentReads),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal, Limit: aws.Int32(pageRows),
	}
	if total > 1 {
		in.Segment, in.TotalSegments = aws.Int32(int32(number)), aws.Int32(int32(total))
	}
	d := decoder{intern: s.intern}
	for {
		var out *dynamodb.ScanOutput
		err := t.call(ctx, op, func(ctx context.Context) (err error) {
			out, err = t.api.Scan(ctx, in, noRetries)
			return err
		})
		if err != nil {
			return err
		}
		s.account(out)
		for _, row := range out.Items {
			s.add(d, row)
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// account adds up what a page cost and how large it was.
func (s *segment) account(out *dynamodb.ScanOutput) {
	s.Pages++
	s.Rows += len(out.Items)
	// One unit reads 4 KiB consistently or 8 KiB eventually.
	perUnit := 8192.0
	if s.table.cfg.ConsistentReads {
		perUnit = 4096
	}
	if c := out.ConsumedCapacity; c != nil && c.CapacityUnits != nil {
		s.ReadUnits += *c.CapacityUnits
		s.bytes += *c.CapacityUnits * perUnit
		return
	}
	size := 0
	for _, row := range out.Items {
		size += sizeOf(row)
	}
	s.bytes += float64(size)
	s.ReadUnits += max(1, float64((size+4095)/4096)) * 4096 / perUnit
}

// add decodes a row into the listing, or accounts for it otherwise.
func (s *segment) add(d decoder, row item) {
	entity, known := entityLease, true
	if _, ok := row[attrEntityType]; ok {
		entity, known = entityOf(row)
	}
	if entity != entityLease {
		s.Foreign++
		s.mode = cmp.Or(kcl3ModeIn(row), s.mode)
		if !known {
			s.table.warn(keyOf(row), fmt.Errorf("row %q: entityType is %s, which this version does not know", keyOf(row), entity))
		}
		return
	}
	l, err := d.decode(row)
	if err != nil {
		s.Broken++
		s.table.warn(keyOf(row), err)
		return
	}
	if !s.table.keys.has(l) {
		s.OtherKeys++
		s.other = cmp.Or(s.other, l.Key)
		return
	}
	s.Leases = append(s.Leases, l)
}

// warn reports a row that was left out, once per key.
func (t *Table) warn(key string, err error) {
	t.mu.Lock()
	_, before := t.skipped[key]
	t.skipped[key] = struct{}{}
	t.mu.Unlock()
	if before {
		return
	}
	if f := t.hooks.LeaseSkipped; f != nil {
		f(config.LeaseEvent{Worker: t.worker, LeaseKey: key, Err: err})
	}
}

// decoder reads single rows; it shares strings with the last listing.
func (t *Table) decoder() decoder {
	known := *t.names.Load()
	return decoder{intern: func(v string) string {
		if have, ok := known[v]; ok {
			return have
		}
		return v
	}}
}

// sizeOf is about what DynamoDB counts for an item.
func sizeOf(row item) int {
	n := 0
	for name, v := range row {
		n += len(name) + sizeOfValue(v)
	}
	return n
}

func sizeOfValue(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 1
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberSS:
		n := 0
		for _, s := range v.Value {
			n += len(s)
		}
		return n
	case *types.AttributeValueMemberM:
		return 3 + sizeOf(v.Value)
	case *types.AttributeValueMemberL:
		n := 3
		for _, e := range v.Value {
			n += 1 + sizeOfValue(e)
		}
		return n
	}
	return 1
}
