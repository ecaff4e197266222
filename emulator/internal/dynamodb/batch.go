package dynamodb

import (
	"maps"
	"slices"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Sizes of batches.
const (
	maxBatchWrites = 25
	maxBatchGets   = 100
	maxBatchBytes  = 16 << 20
)

const duplicateKeys = "Provided list of item keys contains duplicates"

// batchedWrite is one request of a BatchWriteItem, as decoded and as sent.
type batchedWrite struct {
	*write
	sent any
}

func (d *DynamoDB) batchWriteItem(p *params) (action, *wire.Error) {
	members := p.object("RequestItems")
	capacity := capacityWanted(p)
	p.enum("ReturnItemCollectionMetrics", "NONE", "SIZE")
	var writes []batchedWrite
	for _, m := range members {
		requests, ok := m.value.([]any)
		if !ok {
			p.fail(wrongType(m.value, "List"))
		}
		for _, sent := range requests {
			q := newParams(p.of+".RequestItems."+m.name, sent)
			if q.err == nil {
				writes = append(writes, batchedWrite{readBatched(q, tableOf(m.name)), sent})
			}
			p.adopt(q)
		}
	}
	if n := len(writes); p.err == nil && n == 0 {
		p.fail(invalid("The batch write request list for a table cannot be null or empty"))
	} else if n > maxBatchWrites {
		p.fail(invalid("Too many items requested for the BatchWriteItem call"))
	}
	return func(c *call) (output, *wire.Error) { return d.batchWrite(c, writes, capacity) }, p.done()
}

func readBatched(q *params, table string) *write {
	w := &write{op: "PutItem", table: table, onFailure: "NONE"}
	put, del := q.sub("PutRequest"), q.sub("DeleteRequest")
	switch {
	case (put == nil) == (del == nil):
		q.fail(invalid("%s: a write request holds either a PutRequest or a DeleteRequest", q.of))
		return w
	case put != nil:
		w.item = put.item("Item")
		q.adopt(put)
	default:
		w.op = "DeleteItem"
		w.item = del.item("Key")
		q.adopt(del)
	}
	if w.item == nil {
		q.fail(invalid("The parameter 'Item' or 'Key' is required but was not present in the request"))
	}
	return w
}

// batchWrite checks all of the requests before it carries out any; each of them then stands for itself.
func (d *DynamoDB) batchWrite(c *call, writes []batchedWrite, wanted string) (output, *wire.Error) {
	seen := map[string]bool{}
	changes := make([]change, len(writes))
	for i, w := range writes {
		t, err := d.usable(w.table, c.now)
		if err != nil {
			return nil, err
		}
		if changes[i], err = w.plan(t); err != nil {
			return nil, err
		}
		place := w.table + "\x00" + changes[i].position
		if seen[place] {
			return nil, invalid(duplicateKeys)
		}
		seen[place] = true
	}
	used := map[string]cost{}
	unprocessed := output{}
	var last *wire.Error
	for i, w := range writes {
		t := d.tables[w.table]
		price := t.price(changes[i])
		if err := d.charge(c, t, price, true); err != nil {
			left, _ := unprocessed[w.table].([]any)
			unprocessed[w.table], last = append(left, w.sent), err
			continue
		}
		d.commit(c, w.table, t, changes[i])
		sum := used[w.table]
		sum.add(price)
		used[w.table] = sum
	}
	if len(used) == 0 {
		return nil, last
	}
	return d.withCapacities(output{"UnprocessedItems": unprocessed}, used, wanted), nil
}

// withCapacities adds the capacity used, table by table.
func (d *DynamoDB) withCapacities(out output, used map[string]cost, wanted string) output {
	var list []output
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if o, ok := consumed(d.tables[name], used[name], wanted); ok {
			list = append(list, o)
		}
	}
	if list != nil {
		out["ConsumedCapacity"] = list
	}
	return out
}

// batchedGets is what a BatchGetItem asks of one table.
type batchedGets struct {
	get
	name string   // the table as the client wrote it
	keys []fields // as decoded
	sent []any    // the keys as sent
	all  object
}

func (d *DynamoDB) batchGetItem(p *params) (action, *wire.Error) {
	members := p.object("RequestItems")
	capacity := capacityWanted(p)
	var tables []batchedGets
	n := 0
	for _, m := range members {
		q := newParams(p.of+".RequestItems."+m.name, m.value)
		if q.err == nil {
			g := d.readBatchedGets(q, m.name)
			n += len(g.keys)
			tables = append(tables, g)
		}
		p.adopt(q)
	}
	if p.err == nil && n == 0 {
		p.fail(invalid("1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: Member must have length greater than or equal to 1"))
	} else if n > maxBatchGets {
		p.fail(invalid("Too many items requested for the BatchGetItem call"))
	}
	return func(c *call) (output, *wire.Error) { return d.batchGet(c, tables, capacity) }, p.done()
}

func (d *DynamoDB) readBatchedGets(q *params, name string) batchedGets {
	q.eitherKind([]string{"AttributesToGet"}, []string{"ProjectionExpression"})
	b := d.newBinder(q)
	g := batchedGets{get: get{table: tableOf(name), projection: b.projection(q)}, name: name, all: q.members}
	g.consistent, _ = q.flag("ConsistentRead")
	g.sent = q.list("Keys")
	for _, k := range g.sent {
		key, err := parseFields(k, 0)
		if err != nil {
			q.fail(err)
		}
		g.keys = append(g.keys, key)
	}
	if err := b.done(); err != nil {
		q.fail(err)
	}
	return g
}

func (d *DynamoDB) batchGet(c *call, tables []batchedGets, wanted string) (output, *wire.Error) {
	used := map[string]cost{}
	responses, unprocessed := output{}, output{}
	size := 0
	var last *wire.Error
	for _, g := range tables {
		t, err := d.usable(g.table, c.now)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		items := []fields{}
		var left []any
		for i, key := range g.keys {
			one := g.get
			one.key = key
			r, price, err := one.row(t)
			if err != nil {
				return nil, err
			}
			if at := t.keys.position(key); seen[at] {
				return nil, invalid(duplicateKeys)
			} else {
				seen[at] = true
			}
			if size+r.bytes() > maxBatchBytes {
				left = append(left, g.sent[i])
				continue
			}
			if err := d.charge(c, t, price, false); err != nil {
				left, last = append(left, g.sent[i]), err
				continue
			}
			size += r.bytes()
			sum := used[g.table]
			sum.add(price)
			used[g.table] = sum
			if r != nil {
				items = append(items, g.projection.of(r.attrs))
			}
		}
		responses[g.name] = items
		if left != nil {
			unprocessed[g.name] = g.all.with("Keys", left)
		}
	}
	if len(used) == 0 && last != nil {
		return nil, last
	}
	return d.withCapacities(output{"Responses": responses, "UnprocessedKeys": unprocessed}, used, wanted), nil
}
