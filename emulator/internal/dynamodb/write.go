package dynamodb

import (
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

func join(s []string) string { return strings.Join(s, ", ") }

// write is a decoded PutItem, UpdateItem or DeleteItem, or a part of a transaction or batch.
type write struct {
	op        string // PutItem, UpdateItem, DeleteItem, ConditionCheck
	table     string
	item      fields // the item to put, else the key
	condition *bound
	expected  *legacyFilter
	update    *bound
	updates   []attributeUpdate

	returns   string // ReturnValues
	onFailure string // ReturnValuesOnConditionCheckFailure
	capacity  string // ReturnConsumedCapacity
}

// readWrite decodes the parameters that single writes and parts of transactions have in common.
func (d *DynamoDB) readWrite(p *params, op string) *write {
	w := &write{op: op, table: p.table()}
	itemParam := "Key"
	if op == "PutItem" {
		itemParam = "Item"
	}
	if w.item = p.item(itemParam); w.item == nil {
		p.fail(invalid("The parameter '%s' is required but was not present in the request", itemParam))
	}
	b := d.newBinder(p)
	if op == "UpdateItem" {
		w.update = b.expression(p, "UpdateExpression")
	}
	w.condition = b.expression(p, "ConditionExpression")
	w.onFailure = p.enum("ReturnValuesOnConditionCheckFailure", "NONE", "ALL_OLD")
	if err := b.done(); err != nil {
		p.fail(err)
	}
	return w
}

// single makes the operation of one write by itself.
func single(op string, returns ...string) operation {
	return func(d *DynamoDB, p *params) (action, *wire.Error) {
		p.eitherKind([]string{"Expected", "ConditionalOperator", "AttributeUpdates"}, []string{"ConditionExpression", "UpdateExpression"})
		w := d.readWrite(p, op)
		w.expected = p.legacyFilter("Expected")
		p.joined(w.expected)
		if op == "UpdateItem" {
			w.updates = p.attributeUpdates()
		}
		w.returns = p.enum("ReturnValues", "NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")
		if !slices.Contains(returns, w.returns) {
			p.fail(invalid("ReturnValues can only be %s", strings.Join(returns, " or ")))
		}
		w.capacity = capacityWanted(p)
		p.enum("ReturnItemCollectionMetrics", "NONE", "SIZE") // only tables with local indexes have any
		return func(c *call) (output, *wire.Error) { return d.write(c, w) }, p.done()
	}
}

func (d *DynamoDB) putItem(p *params) (action, *wire.Error) {
	return single("PutItem", "ALL_OLD", "NONE")(d, p)
}

func (d *DynamoDB) deleteItem(p *params) (action, *wire.Error) {
	return single("DeleteItem", "ALL_OLD", "NONE")(d, p)
}

func (d *DynamoDB) updateItem(p *params) (action, *wire.Error) {
	return single("UpdateItem", "ALL_OLD", "NONE", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW")(d, p)
}

// write carries one write out.
func (d *DynamoDB) write(c *call, w *write) (output, *wire.Error) {
	t, err := d.usable(w.table, c.now)
	if err != nil {
		return nil, err
	}
	ch, err := w.plan(t)
	if err != nil && err.Code != conditionFailed {
		return nil, err
	}
	price := t.price(ch)
	if throttled := d.charge(c, t, price, true); throttled != nil {
		return nil, throttled
	}
	if err != nil {
		return nil, err
	}
	d.commit(c, w.table, t, ch)
	out := output{}
	if attrs := w.returned(ch); len(attrs) > 0 {
		out["Attributes"] = attrs
	}
	if used, ok := consumed(t, price, w.capacity); ok {
		out["ConsumedCapacity"] = used
	}
	return out, nil
}

const conditionFailed = "ConditionalCheckFailedException"

// plan checks the write against the table and works out its change; it changes nothing. If the condition fails, the change is
// none at all, at the item's place, and the error holds the item if the client wants it.
func (w *write) plan(t *table) (change, *wire.Error) {
	if err := w.check(t); err != nil {
		return change{}, err
	}
	c := change{position: t.keys.position(w.item)}
	c.old = t.rows.get(c.position)
	if !w.holds(c.old.item()) {
		c.new = c.old
		err := wire.Errorf(conditionFailed, "The conditional request failed")
		if w.onFailure == "ALL_OLD" && c.old != nil {
			err.Fields = map[string]any{"Item": c.old.attrs}
		}
		return c, err
	}
	switch w.op {
	case "ConditionCheck":
		c.new = c.old
		return c, nil
	case "DeleteItem":
		return c, nil
	case "PutItem":
		c.new = newRow(w.item)
	default:
		next, err := w.updated(c.old)
		if err == nil {
			err = t.fits(next, "Item size to update has exceeded the maximum allowed size")
		}
		if err != nil {
			return change{}, err
		}
		c.new = newRow(next)
	}
	return c, nil
}

// fits refuses an item that is too large, or that cannot stand in one of the indexes.
func (t *table) fits(item fields, tooLarge string) *wire.Error {
	if item.size() > maxItem {
		return invalid("%s", tooLarge)
	}
	for _, x := range t.indexes {
		if err := x.checkItem(item); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a key of the wrong form, and updates of the key.
func (w *write) check(t *table) *wire.Error {
	if w.op == "PutItem" {
		if err := t.keys.keyIn(w.item); err != nil {
			return err
		}
		return t.fits(w.item, "Item size has exceeded the maximum allowed size")
	}
	if err := t.keys.keyOf(w.item); err != nil {
		return err
	}
	for _, name := range t.keys.names() {
		touches := slices.ContainsFunc(w.updates, func(u attributeUpdate) bool { return u.attribute == name })
		if w.update != nil {
			touches = slices.ContainsFunc(w.update.update.targets(w.update), func(p path) bool { return p[0].name == name })
		}
		if touches {
			return invalid("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return nil
}

func (w *write) holds(item fields) bool {
	return (w.condition == nil || w.condition.holds(item)) && w.expected.holds(item)
}

// updated is the item after an UpdateItem, which makes one if there is none.
func (w *write) updated(old *row) (fields, *wire.Error) {
	item := old.item()
	if old == nil {
		item = w.item
	}
	if w.update != nil {
		return w.update.update.apply(w.update, item)
	}
	return applyUpdates(item, w.updates)
}

// price is what a change costs.
func (t *table) price(c change) cost {
	k := cost{write: writeUnits(max(c.old.bytes(), c.new.bytes()))}
	if c.old != c.new {
		for _, x := range t.indexes {
			k.addIndex(x, x.writeUnits(t, c))
		}
	}
	return k
}

// returned is what ReturnValues asks for.
func (w *write) returned(c change) fields {
	switch w.returns {
	case "ALL_OLD":
		return c.old.item()
	case "ALL_NEW":
		return c.new.item()
	case "UPDATED_OLD":
		return w.touched(c.old.item())
	case "UPDATED_NEW":
		return w.touched(c.new.item())
	}
	return nil
}

// touched is the part of an item that the update names.
func (w *write) touched(item fields) fields {
	if w.update != nil {
		return project(item, w.update.update.targets(w.update))
	}
	var names []string
	for _, u := range w.updates {
		names = append(names, u.attribute)
	}
	return item.only(names...)
}
