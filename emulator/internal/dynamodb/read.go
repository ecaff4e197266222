package dynamodb

import (
	"slices"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// projection is what a read gives of each item: nil paths are everything.
type projection struct{ paths []path }

// projection reads ProjectionExpression, or AttributesToGet.
func (b *binder) projection(p *params) projection {
	if e := b.expression(p, "ProjectionExpression"); e != nil {
		return projection{e.paths}
	}
	names := p.strings("AttributesToGet")
	paths := make([]path, 0, len(names))
	for _, n := range names {
		paths = append(paths, path{{name: n}})
	}
	switch sorted := slices.Sorted(slices.Values(names)); {
	case !p.has("AttributesToGet"):
		return projection{}
	case len(names) == 0:
		p.fail(invalid("1 validation error detected: Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have length greater than or equal to 1"))
	case len(slices.Compact(sorted)) < len(names):
		p.fail(invalid("One or more parameter values were invalid: Duplicate value in attribute name: %s", join(names)))
	}
	return projection{paths}
}

func (pr projection) of(item fields) fields {
	if pr.paths == nil {
		return item
	}
	return project(item, pr.paths)
}

// get is a decoded GetItem, or one key of a batch or transaction.
type get struct {
	table      string
	key        fields
	consistent bool
	projection projection
}

func (d *DynamoDB) readGet(p *params) get {
	b := d.newBinder(p)
	g := get{table: p.table(), key: p.item("Key"), projection: b.projection(p)}
	if g.key == nil {
		p.fail(invalid("The parameter 'Key' is required but was not present in the request"))
	}
	if err := b.done(); err != nil {
		p.fail(err)
	}
	return g
}

// row finds the item and its price.
func (g get) row(t *table) (*row, cost, *wire.Error) {
	if err := t.keys.keyOf(g.key); err != nil {
		return nil, cost{}, err
	}
	r := t.rows.get(t.keys.position(g.key))
	return r, cost{read: readUnits(r.bytes(), g.consistent)}, nil
}

func (d *DynamoDB) getItem(p *params) (action, *wire.Error) {
	p.eitherKind([]string{"AttributesToGet"}, []string{"ProjectionExpression"})
	g := d.readGet(p)
	g.consistent, _ = p.flag("ConsistentRead")
	capacity := capacityWanted(p)
	return func(c *call) (output, *wire.Error) {
		t, err := d.usable(g.table, c.now)
		if err != nil {
			return nil, err
		}
		r, price, err := g.row(t)
		if err == nil {
			err = d.charge(c, t, price, false)
		}
		if err != nil {
			return nil, err
		}
		out := output{}
		if r != nil {
			out["Item"] = g.projection.of(r.attrs)
		}
		if used, ok := consumed(t, price, capacity); ok {
			out["ConsumedCapacity"] = used
		}
		return out, nil
	}, p.done()
}

// search is what Query and Scan have in common.
type search struct {
	table, index string
	start        fields // ExclusiveStartKey
	limit        int    // 0 is none
	consistent   bool
	filter       *bound
	legacy       *legacyFilter
	projection   projection
	choose       string // Select
	capacity     string
}

// maxPage is how many bytes a page may hold.
const maxPage = 1 << 20

// readSearch decodes the common parameters. legacyName is ScanFilter or QueryFilter.
func (d *DynamoDB) readSearch(p *params, b *binder, legacyName string) *search {
	s := &search{table: p.table(), index: p.str("IndexName"), start: p.item("ExclusiveStartKey")}
	if p.has("IndexName") && s.index == "" {
		p.fail(checkName("indexName", ""))
	}
	s.limit, _ = p.integer("Limit", 1, 1<<31-1)
	s.consistent, _ = p.flag("ConsistentRead")
	s.projection = b.projection(p)
	s.filter = b.expression(p, "FilterExpression")
	s.legacy = p.legacyFilter(legacyName)
	p.joined(s.legacy)
	s.capacity = capacityWanted(p)
	s.choose = p.enum("Select", "", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT")
	switch {
	case s.choose == "SPECIFIC_ATTRIBUTES" && s.projection.paths == nil:
		p.fail(invalid("One or more parameter values were invalid: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"))
	case s.choose != "SPECIFIC_ATTRIBUTES" && s.choose != "" && s.projection.paths != nil:
		p.fail(invalid("One or more parameter values were invalid: Cannot specify the AttributesToGet or ProjectionExpression when choosing to get %s", s.choose))
	case s.choose == "ALL_PROJECTED_ATTRIBUTES" && s.index == "":
		p.fail(invalid("One or more parameter values were invalid: ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName"))
	}
	return s
}

// source is where a search reads: a table or one of its indexes.
type source struct {
	t    *table
	x    *index // nil for the table
	keys keySchema
	rows *ordered
}

func (d *DynamoDB) source(c *call, s *search) (source, *wire.Error) {
	t, err := d.usable(s.table, c.now)
	if err != nil {
		return source{}, err
	}
	if s.index == "" {
		return source{t, nil, t.keys, &t.rows}, nil
	}
	t.showUntil(c.now)
	x, err := t.index(s.index, c.now)
	if err != nil {
		return source{}, err
	}
	if s.consistent {
		return source{}, invalid("Consistent reads are not supported on global secondary indexes")
	}
	if s.choose == "ALL_ATTRIBUTES" && x.projection != "ALL" {
		return source{}, invalid("One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", x.name)
	}
	for _, p := range s.projection.paths {
		if !x.holds(t, p[0].name) {
			return source{}, invalid("One or more parameter values were invalid: Global secondary index %s does not project [%s]", x.name, p[0].name)
		}
	}
	return source{t, x, x.keys, &x.rows}, nil
}

// keyNames are the attributes of a LastEvaluatedKey.
func (f source) keyNames() []string {
	if f.x == nil {
		return f.keys.names()
	}
	names := slices.Concat(f.keys.names(), f.t.keys.names())
	slices.Sort(names)
	return slices.Compact(names)
}

// startPosition checks an ExclusiveStartKey and says where it stands; "" is before everything.
func (f source) startPosition(key fields) (string, *wire.Error) {
	if key == nil {
		return "", nil
	}
	ok := len(key) == len(f.keyNames())
	for _, name := range f.keyNames() {
		ok = ok && key.get(name).kind == f.t.kinds[name]
	}
	if !ok {
		return "", invalid("The provided starting key is invalid")
	}
	if err := f.t.keys.checkKey(key); err != nil {
		return "", err
	}
	position := f.t.keys.position(key)
	if f.x != nil {
		position = f.x.keys.position(key) + position
	}
	return position, nil
}

// page gathers what a search finds until it is full.
type page struct {
	search  *search
	from    source
	items   []fields
	count   int
	scanned int
	bytes   int
	last    *row // the last item looked at, if the page ended there
}

// take looks at one item and tells whether the page has room for another.
func (g *page) take(r *row) bool {
	item, size := r.attrs, r.size
	if x := g.from.x; x != nil && x.projection != "ALL" {
		item = x.projected(g.from.t, item)
		size = item.size()
	}
	g.scanned++
	g.bytes += size
	if g.search.legacy.holds(item) && (g.search.filter == nil || g.search.filter.holds(item)) {
		g.count++
		if g.search.choose != "COUNT" {
			g.items = append(g.items, g.search.projection.of(item))
		}
	}
	if g.scanned == g.search.limit || g.bytes >= maxPage {
		g.last = r
		return false
	}
	return true
}

// finish charges for the page and makes it an output.
func (d *DynamoDB) finish(c *call, g *page) (output, *wire.Error) {
	var price cost
	if units := readUnits(g.bytes, g.search.consistent); g.from.x != nil {
		price.addIndex(g.from.x, units)
	} else {
		price.read = units
	}
	if err := d.charge(c, g.from.t, price, false); err != nil {
		return nil, err
	}
	out := output{"Count": g.count, "ScannedCount": g.scanned}
	if g.search.choose != "COUNT" {
		if g.items == nil {
			g.items = []fields{}
		}
		out["Items"] = g.items
	}
	if g.last != nil {
		out["LastEvaluatedKey"] = g.last.attrs.only(g.from.keyNames()...)
	}
	if used, ok := consumed(g.from.t, price, g.search.capacity); ok {
		out["ConsumedCapacity"] = used
	}
	return out, nil
}

// maxSegments is how many segments a scan may have.
const maxSegments = 1000000

func (d *DynamoDB) scan(p *params) (action, *wire.Error) {
	p.eitherKind([]string{"AttributesToGet", "ScanFilter", "ConditionalOperator"}, []string{"FilterExpression", "ProjectionExpression"})
	b := d.newBinder(p)
	s := d.readSearch(p, b, "ScanFilter")
	segment, hasSegment := p.integer("Segment", 0, maxSegments-1)
	total, hasTotal := p.integer("TotalSegments", 1, maxSegments)
	switch {
	case hasTotal && !hasSegment:
		p.fail(invalid("The Segment parameter is required but was not present in the request when parameter TotalSegments is present"))
	case hasSegment && !hasTotal:
		p.fail(invalid("The TotalSegments parameter is required but was not present in the request when Segment parameter is present"))
	case hasSegment && segment >= total:
		p.fail(invalid("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", segment, total))
	}
	if err := b.done(); err != nil {
		p.fail(err)
	}
	return func(c *call) (output, *wire.Error) {
		from, err := d.source(c, s)
		if err != nil {
			return nil, err
		}
		start, err := from.startPosition(s.start)
		if err != nil {
			return nil, err
		}
		if hasTotal && start != "" && segmentOf(start, total) != segment {
			return nil, invalid("The provided starting key is outside the range of the segment")
		}
		g := &page{search: s, from: from}
		if hasTotal {
			start = max(start, segmentStart(segment, total))
		}
		from.rows.ascend(start, func(position string, r *row) bool {
			if hasTotal && segmentOf(position, total) != segment {
				return false
			}
			return g.take(r)
		})
		return d.finish(c, g)
	}, p.done()
}
