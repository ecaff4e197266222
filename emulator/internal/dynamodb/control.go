package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

func inUse(format string, args ...any) *wire.Error {
	return wire.Errorf("ResourceInUseException", format, args...)
}

func (d *DynamoDB) createTable(p *params) (action, *wire.Error) {
	t := &table{name: p.table(), kinds: definitions(p), keys: schemaOf(p), lag: max(0, d.IndexLag)}
	t.onDemand = p.enum("BillingMode", "PROVISIONED", "PAY_PER_REQUEST") == "PAY_PER_REQUEST"
	capacity, provisioned := given(p)
	t.throughput = capacity
	t.protected, _ = p.flag("DeletionProtectionEnabled")
	t.tags = readTags(p)
	view, streamed, _ := streamSpecification(p)
	if err := checkName("tableName", t.name); err != nil {
		p.fail(err)
	}
	if p.err == nil {
		if err := capacityOf("table", t.onDemand, provisioned); err != nil {
			p.fail(err)
		} else if err := t.keys.resolve(t.kinds); err != nil {
			p.fail(err)
		}
	}
	p.structures("GlobalSecondaryIndexes", func(q *params) {
		x := indexOf(q)
		capacity, provisioned := given(q)
		x.throughput = capacity
		if q.err != nil || p.err != nil {
			return
		}
		if err := capacityOf("global secondary index: "+x.name, t.onDemand, provisioned); err != nil {
			q.fail(err)
		} else if err := t.add(x); err != nil {
			q.fail(err)
		}
	})
	if p.err == nil {
		if err := t.checkUsed(); err != nil {
			p.fail(err)
		}
	}
	return func(c *call) (output, *wire.Error) {
		if old := d.find(t.name, c.now); old != nil {
			return nil, inUse("Table already exists: %s", t.name)
		}
		t.created, t.activeAt = c.now, c.now.Add(max(0, d.TableDelay))
		t.arn, t.id = d.arn(t.name), fmt.Sprintf("00000000-0000-4000-8000-%012x", hashOf(fmt.Sprint(t.name, c.now.UnixNano()))>>16)
		for _, x := range t.indexes {
			x.readyAt = t.activeAt
		}
		d.tables[t.name] = t
		if streamed {
			d.enableStream(c.now, t, view)
		}
		return output{"TableDescription": t.describe(c.now)}, nil
	}, p.done()
}

func (d *DynamoDB) describeTable(p *params) (action, *wire.Error) {
	name := p.table()
	return func(c *call) (output, *wire.Error) {
		t, err := d.described(name, c.now)
		if err != nil {
			return nil, err
		}
		return output{"Table": t.describe(c.now)}, nil
	}, p.done()
}

// idle refuses a change to a table that is not ACTIVE.
func (t *table) idle(now time.Time) *wire.Error {
	const still = "Attempt to change a resource which is still in use: Table is being "
	switch t.status(now) {
	case "CREATING":
		return inUse(still+"created: %s", t.name)
	case "UPDATING":
		return inUse(still+"updated: %s", t.name)
	case "DELETING":
		return inUse(still+"deleted: %s", t.name)
	}
	return nil
}

func (d *DynamoDB) deleteTable(p *params) (action, *wire.Error) {
	name := p.table()
	return func(c *call) (output, *wire.Error) {
		t, err := d.described(name, c.now)
		if err != nil {
			return nil, err
		}
		if err := t.idle(c.now); err != nil {
			return nil, err
		}
		if t.protected {
			return nil, invalid("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		}
		t.goneAt = c.now.Add(max(0, d.TableDelay))
		if t.stream.enabled() {
			t.stream.disable(c.now, d.TableDelay)
		}
		return output{"TableDescription": t.describe(c.now)}, nil
	}, p.done()
}

func (d *DynamoDB) listTables(p *params) (action, *wire.Error) {
	after := p.str("ExclusiveStartTableName")
	limit, given := p.integer("Limit", 1, 100)
	if !given {
		limit = 100
	}
	return func(c *call) (output, *wire.Error) {
		names := []string{}
		for _, name := range slices.Sorted(maps.Keys(d.tables)) {
			if name > after && d.find(name, c.now) != nil {
				names = append(names, name)
			}
		}
		out := output{"TableNames": names}
		if len(names) > limit {
			out["TableNames"] = names[:limit]
			out["LastEvaluatedTableName"] = names[limit-1]
		}
		return out, nil
	}, p.done()
}

// tableUpdate is a decoded UpdateTable.
type tableUpdate struct {
	kinds       map[string]kind
	billing     string // "" if not given
	capacity    throughput
	hasCapacity bool
	protect     bool
	hasProtect  bool
	view        string
	streamed    bool
	hasStream   bool
	create      *index
	hasIndexCap bool
	remove      string
	resize      map[string]throughput
}

func (d *DynamoDB) updateTable(p *params) (action, *wire.Error) {
	name := p.table()
	u := tableUpdate{kinds: definitions(p), resize: map[string]throughput{}}
	if u.billing = p.enum("BillingMode", "PROVISIONED", "PAY_PER_REQUEST"); !p.has("BillingMode") {
		u.billing = ""
	}
	u.capacity, u.hasCapacity = given(p)
	u.protect, u.hasProtect = p.flag("DeletionProtectionEnabled")
	u.view, u.streamed, u.hasStream = streamSpecification(p)
	p.structures("GlobalSecondaryIndexUpdates", u.readIndex)
	if u.billing == "" && !u.hasStream && !u.hasCapacity && !u.hasProtect && u.create == nil && u.remove == "" && len(u.resize) == 0 {
		p.fail(invalid("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required"))
	}
	return func(c *call) (output, *wire.Error) {
		t, err := d.described(name, c.now)
		if err != nil {
			return nil, err
		}
		t.dropIndexes(c.now)
		if err := t.idle(c.now); err != nil {
			return nil, err
		}
		for _, x := range t.indexes {
			if s := x.status(c.now); s != "ACTIVE" {
				return nil, inUse("Attempt to change a resource which is still in use: Index is being %sd: %s", map[string]string{"CREATING": "create", "DELETING": "delete"}[s], x.name)
			}
		}
		if err := d.change(c, t, u); err != nil {
			return nil, err
		}
		return output{"TableDescription": t.describe(c.now)}, nil
	}, p.done()
}

// readIndex reads one of GlobalSecondaryIndexUpdates.
func (u *tableUpdate) readIndex(q *params) {
	if u.create != nil || u.remove != "" {
		q.fail(wire.Errorf("LimitExceededException", "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"))
	}
	if r := q.sub("Create"); r != nil {
		u.create = indexOf(r)
		u.create.throughput, u.hasIndexCap = given(r)
		q.adopt(r)
	}
	if r := q.sub("Delete"); r != nil {
		u.remove = r.str("IndexName")
		q.adopt(r)
	}
	if r := q.sub("Update"); r != nil {
		index := r.str("IndexName")
		capacity, ok := given(r)
		if !ok {
			r.fail(invalid("%s: ProvisionedThroughput is required", r.of))
		}
		u.resize[index] = capacity
		q.adopt(r)
	}
}

// change carries out an UpdateTable on a table that may be changed; with an error it leaves the table as it was.
func (d *DynamoDB) change(c *call, t *table, u tableUpdate) *wire.Error {
	next := *t // what the table's description becomes
	next.kinds = maps.Clone(t.kinds)
	next.indexes = slices.Clone(t.indexes)
	maps.Copy(next.kinds, u.kinds)
	if u.billing != "" {
		next.onDemand = u.billing == "PAY_PER_REQUEST"
	}
	switch {
	case u.hasCapacity && next.onDemand:
		return capacityOf("table", true, true)
	case u.hasCapacity:
		next.throughput = u.capacity
	case next.onDemand:
		next.throughput = throughput{}
	case t.onDemand:
		return capacityOf("table", false, false)
	}
	if u.hasProtect {
		next.protected = u.protect
	}
	delay := max(0, d.TableDelay)
	indexDelay := d.IndexDelay
	if indexDelay <= 0 {
		indexDelay = delay
	}
	find := func(name string) int {
		return slices.IndexFunc(next.indexes, func(x *index) bool { return x.name == name })
	}
	for name := range u.resize {
		if find(name) < 0 {
			return wire.Errorf("ResourceNotFoundException", "Requested resource not found: Index: %s of table %s", name, t.name)
		}
		if next.onDemand {
			return capacityOf("index", true, true)
		}
	}
	if u.create != nil {
		if err := capacityOf("global secondary index: "+u.create.name, next.onDemand, u.hasIndexCap); err != nil {
			return err
		}
		if err := next.add(u.create); err != nil {
			return err
		}
	}
	if u.remove != "" && find(u.remove) < 0 {
		return wire.Errorf("ResourceNotFoundException", "Requested resource not found: Index: %s of table %s", u.remove, t.name)
	}
	if err := next.checkUsed(); err != nil {
		return err
	}
	switch on := t.stream.enabled(); {
	case u.hasStream && u.streamed && on:
		return invalid("Table already has an enabled stream: TableName: %s", t.name)
	case u.hasStream && !u.streamed && !on:
		return invalid("Table already has a disabled stream: TableName: %s", t.name)
	}

	if u.create != nil {
		u.create.readyAt = c.now.Add(indexDelay)
		// What older writes still owe the indexes is already in the rows that the new one is filled from.
		t.showUntil(c.now.Add(t.lag))
		next.pending = nil
		u.create.fill(t)
	}
	if u.remove != "" {
		next.indexes[find(u.remove)].goneAt = c.now.Add(indexDelay)
	}
	for name, capacity := range u.resize {
		next.indexes[find(name)].throughput = capacity
	}
	next.updatedAt = c.now.Add(delay)
	*t = next
	switch {
	case u.hasStream && u.streamed:
		d.enableStream(c.now, t, u.view)
	case u.hasStream:
		t.stream.disable(c.now, delay)
	}
	return nil
}

// adopt takes over the fault of a structure within this one.
func (p *params) adopt(q *params) {
	if err := q.done(); err != nil {
		p.fail(err)
	}
}

func epoch(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (k keySchema) describe() []output {
	out := []output{{"AttributeName": k.hash, "KeyType": "HASH"}}
	if k.sort != "" {
		out = append(out, output{"AttributeName": k.sort, "KeyType": "RANGE"})
	}
	return out
}

func (t throughput) describe() output {
	return output{"ReadCapacityUnits": t.read, "WriteCapacityUnits": t.write, "NumberOfDecreasesToday": 0}
}

// describe is a TableDescription. Counts are exact; the service's are some hours old.
func (t *table) describe(now time.Time) output {
	t.dropIndexes(now)
	defs := []output{}
	for _, name := range sortedNames(t.kinds) {
		defs = append(defs, output{"AttributeName": name, "AttributeType": string(t.kinds[name])})
	}
	mode := "PROVISIONED"
	if t.onDemand {
		mode = "PAY_PER_REQUEST"
	}
	out := output{
		"TableName": t.name, "TableArn": t.arn, "TableId": t.id, "TableStatus": t.status(now), "CreationDateTime": epoch(t.created),
		"KeySchema": t.keys.describe(), "AttributeDefinitions": defs, "BillingModeSummary": output{"BillingMode": mode},
		"ProvisionedThroughput": t.throughput.describe(), "DeletionProtectionEnabled": t.protected,
		"ItemCount": t.rows.count, "TableSizeBytes": t.bytes,
	}
	var indexes []output
	for _, x := range t.indexes {
		projection := output{"ProjectionType": x.projection}
		if x.extra != nil {
			projection["NonKeyAttributes"] = x.extra
		}
		described := output{
			"IndexName": x.name, "IndexArn": t.arn + "/index/" + x.name, "IndexStatus": x.status(now), "KeySchema": x.keys.describe(),
			"Projection": projection, "ProvisionedThroughput": x.throughput.describe(), "ItemCount": x.rows.count, "IndexSizeBytes": x.bytes,
		}
		if x.status(now) == "CREATING" && now.After(t.activeAt) {
			described["Backfilling"] = true
		}
		indexes = append(indexes, described)
	}
	if indexes != nil {
		out["GlobalSecondaryIndexes"] = indexes
	}
	if s := t.stream; s != nil {
		out["LatestStreamArn"], out["LatestStreamLabel"] = s.arn, s.label
		if s.enabled() {
			out["StreamSpecification"] = output{"StreamEnabled": true, "StreamViewType": s.view}
		}
	}
	return out
}
