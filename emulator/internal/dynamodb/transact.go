package dynamodb

import (
	"crypto/sha256"
	"maps"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Sizes of transactions, and how long the service remembers a ClientRequestToken.
const (
	maxActions    = 100
	maxTransBytes = 4 << 20
	tokenLife     = 10 * time.Minute
)

// usedToken is a ClientRequestToken that has led to a success.
type usedToken struct {
	at     time.Time
	digest [sha256.Size]byte // of the request
}

// actions are the members of an element of TransactItems, with the call that does the same.
var actions = map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheck"}

func (d *DynamoDB) transactWriteItems(p *params) (action, *wire.Error) {
	var writes []*write
	p.structures("TransactItems", func(q *params) {
		n := 0
		for name, op := range actions {
			r := q.sub(name)
			if r == nil {
				continue
			}
			n++
			writes = append(writes, d.readWrite(r, op))
			switch {
			case op == "UpdateItem" && !r.has("UpdateExpression"):
				r.fail(invalid("The parameter 'UpdateExpression' is required but was not present in the request"))
			case op == "ConditionCheck" && !r.has("ConditionExpression"):
				r.fail(invalid("The parameter 'ConditionExpression' is required but was not present in the request"))
			}
			q.adopt(r)
		}
		if n != 1 && q.err == nil {
			q.fail(invalid("TransactItems can only contain one of Check, Put, Update or Delete"))
		}
	})
	capacity := capacityWanted(p)
	p.enum("ReturnItemCollectionMetrics", "NONE", "SIZE")
	token := p.str("ClientRequestToken")
	if p.has("ClientRequestToken") && (token == "" || len(token) > 36) {
		p.fail(invalid("1 validation error detected: Value '%s' at 'clientRequestToken' failed to satisfy constraint: Member must have length between 1 and 36", token))
	}
	checkActions(p, len(writes))
	var digest [sha256.Size]byte
	if token != "" {
		digest = sha256.Sum256(p.members.appendJSON(nil)) // members are in order, whatever order they came in
	}
	return func(c *call) (output, *wire.Error) {
		if used, ok := d.tokens[token]; ok && c.now.Sub(used.at) < tokenLife {
			if used.digest != digest {
				return nil, wire.Errorf("IdempotentParameterMismatchException", "The request uses the same client token as a previous, but non-identical request. Do not reuse a client token with different requests, unless the requests are identical")
			}
			return output{}, nil
		}
		out, err := d.transact(c, writes, capacity)
		if err == nil && token != "" {
			maps.DeleteFunc(d.tokens, func(_ string, u usedToken) bool { return c.now.Sub(u.at) >= tokenLife })
			d.tokens[strings.Clone(token)] = usedToken{c.now, digest}
		}
		return out, err
	}, p.done()
}

func checkActions(p *params, n int) {
	if p.err == nil && (n == 0 || n > maxActions) {
		p.fail(invalid("1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have length between 1 and %d; it has %d", maxActions, n))
	}
}

// reason is one entry of CancellationReasons.
func reason(code, message string) output {
	if message == "" {
		return output{"Code": code}
	}
	return output{"Code": code, "Message": message}
}

// canceled is the error of a transaction with at least one reason other than None.
func canceled(reasons []output) *wire.Error {
	codes := make([]string, len(reasons))
	for i, r := range reasons {
		codes[i], _ = r["Code"].(string)
	}
	err := wire.Errorf("TransactionCanceledException", "Transaction cancelled, please refer cancellation reasons for specific reasons [%s]", strings.Join(codes, ", "))
	// The service writes this error's message with a capital letter, unlike all others.
	err.Fields = map[string]any{"CancellationReasons": reasons, "Message": err.Message}
	return err
}

// transact carries out all of the writes or none. They concern different items, so each is planned on the tables as they are.
func (d *DynamoDB) transact(c *call, writes []*write, wanted string) (output, *wire.Error) {
	var changes []change
	reasons := make([]output, len(writes))
	seen := map[string]bool{}
	used := map[string]cost{}
	failed, size := false, 0
	for i, w := range writes {
		t, err := d.usable(w.table, c.now)
		if err != nil {
			return nil, err
		}
		ch, err := w.plan(t)
		reasons[i] = reason("None", "")
		switch {
		case err == nil:
		case err.Code == conditionFailed:
			reasons[i] = reason("ConditionalCheckFailed", err.Message)
			maps.Copy(reasons[i], err.Fields)
			failed = true
		default:
			reasons[i] = reason("ValidationError", err.Message)
			failed = true
			changes = append(changes, change{})
			continue
		}
		place := w.table + "\x00" + ch.position
		if seen[place] {
			return nil, invalid("Transaction request cannot include multiple operations on one item")
		}
		seen[place] = true
		size += ch.new.bytes()
		changes = append(changes, ch)
		sum := used[w.table]
		sum.add(t.price(ch).times(2)) // transactions prepare and commit
		used[w.table] = sum
	}
	if size > maxTransBytes {
		return nil, invalid("Collection size limit exceeded: the items of a transaction have %d bytes, more than %d", size, maxTransBytes)
	}
	for name, price := range used {
		if err := d.charge(c, d.tables[name], price, true); err != nil {
			for i, w := range writes {
				if w.table == name {
					reasons[i] = reason("ProvisionedThroughputExceeded", err.Message)
				}
			}
			return nil, canceled(reasons)
		}
	}
	if failed {
		return nil, canceled(reasons)
	}
	for i, w := range writes {
		if w.op != "ConditionCheck" {
			d.commit(c, w.table, d.tables[w.table], changes[i])
		}
	}
	return d.withCapacities(output{}, used, wanted), nil
}

func (d *DynamoDB) transactGetItems(p *params) (action, *wire.Error) {
	var gets []get
	p.structures("TransactItems", func(q *params) {
		r := q.sub("Get")
		if r == nil {
			q.fail(invalid("%s: Get is required", q.of))
			return
		}
		gets = append(gets, d.readGet(r))
		q.adopt(r)
	})
	capacity := capacityWanted(p)
	checkActions(p, len(gets))
	return func(c *call) (output, *wire.Error) {
		used := map[string]cost{}
		responses := []output{}
		seen := map[string]bool{}
		for _, g := range gets {
			g.consistent = true
			t, err := d.usable(g.table, c.now)
			if err != nil {
				return nil, err
			}
			r, price, err := g.row(t)
			if err != nil {
				return nil, err
			}
			place := g.table + "\x00" + t.keys.position(g.key)
			if seen[place] {
				return nil, invalid("Transaction request cannot include multiple operations on one item")
			}
			seen[place] = true
			sum := used[g.table]
			sum.add(price.times(2))
			used[g.table] = sum
			one := output{}
			if r != nil {
				one["Item"] = g.projection.of(r.attrs)
			}
			responses = append(responses, one)
		}
		for name, price := range used {
			if err := d.charge(c, d.tables[name], price, false); err != nil {
				return nil, err
			}
		}
		return d.withCapacities(output{"Responses": responses}, used, capacity), nil
	}, p.done()
}
