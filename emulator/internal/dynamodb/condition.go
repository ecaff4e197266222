package dynamodb

import (
	"slices"
	"strconv"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// holds evaluates the condition of a bound program on an item; an item that does not exist has no fields.
func (e *bound) holds(item fields) bool { return e.condition.holds(e, item) }

func (n *node) holds(e *bound, item fields) bool {
	switch n.op {
	case "AND":
		return n.kids[0].holds(e, item) && n.kids[1].holds(e, item)
	case "OR":
		return n.kids[0].holds(e, item) || n.kids[1].holds(e, item)
	case "NOT":
		return !n.kids[0].holds(e, item)
	}
	v := n.args[0].in(e, item)
	switch n.op {
	case "attribute_exists":
		return v.exists()
	case "attribute_not_exists":
		return !v.exists()
	case "IN":
		return v.exists() && slices.ContainsFunc(n.args[1:], func(o operand) bool { return v.equal(o.in(e, item)) })
	}
	w := n.args[1].in(e, item)
	switch n.op {
	case "BETWEEN":
		return compares(">=", v, w) && compares("<=", v, n.args[2].in(e, item))
	case "attribute_type":
		return v.exists() && string(v.kind) == w.text
	case "begins_with":
		return v.beginsWith(w)
	case "contains":
		return v.exists() && v.contains(w)
	}
	return compares(n.op, v, w)
}

// compares applies a comparator. Something that does not exist differs from everything and is not less or greater.
func compares(op string, v, w value) bool {
	switch op {
	case "=":
		return v.exists() && v.equal(w)
	case "<>":
		return !v.exists() || !v.equal(w)
	}
	c, ok := v.compare(w)
	switch op {
	case "<":
		return ok && c < 0
	case "<=":
		return ok && c <= 0
	case ">":
		return ok && c > 0
	case ">=":
		return ok && c >= 0
	}
	return false
}

// in is an operand's value for an item, or none.
func (o operand) in(e *bound, item fields) value {
	switch o.kind {
	case operandPath:
		return e.paths[o.ref].in(item)
	case operandValue:
		return e.values[o.ref]
	case operandCall: // size is the only one in a condition
		if n, ok := o.args[0].in(e, item).count(); ok {
			return numberValue(strconv.Itoa(n))
		}
	}
	return value{}
}

// check refuses operands that can never fit their operator.
func (n *node) check(e *bound) *wire.Error {
	for _, k := range n.kids {
		if err := k.check(e); err != nil {
			return err
		}
	}
	if len(n.args) > 1 {
		for _, other := range n.args[1:] {
			if a, b := n.args[0], other; a.kind == operandPath && b.kind == operandPath && slices.Equal(e.paths[a.ref], e.paths[b.ref]) {
				return invalid("Invalid %s: The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %v",
					e.of, n.op, e.paths[a.ref])
			}
		}
	}
	switch n.op {
	case "<", "<=", ">", ">=", "BETWEEN":
		for _, o := range n.args {
			if k := o.literal(e).kind; k != "" && !k.ordered() {
				return e.operandType("operator", n.op, k)
			}
		}
		if n.op == "BETWEEN" {
			return e.bounds(n.args[1].literal(e), n.args[2].literal(e))
		}
	case "begins_with":
		for _, o := range n.args {
			if k := o.literal(e).kind; k != "" && k != kindS && k != kindB {
				return e.operandType("operator or function", n.op, k)
			}
		}
	case "attribute_type":
		v := n.args[1].literal(e)
		if v.kind != kindS {
			return e.operandType("operator or function", n.op, v.kind)
		}
		if _, ok := longNames[kind(v.text)]; !ok {
			return invalid("Invalid %s: Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", e.of, v.text)
		}
	}
	return nil
}

// literal is an operand's value if it came with the request.
func (o operand) literal(e *bound) value {
	if o.kind == operandValue {
		return e.values[o.ref]
	}
	return value{}
}

func (e *bound) operandType(what, op string, k kind) *wire.Error {
	return invalid("Invalid %s: Incorrect operand type for operator or function; %s: %s, operand type: %s", e.of, what, op, k)
}

func (e *bound) bounds(low, high value) *wire.Error {
	if !low.exists() || !high.exists() {
		return nil
	}
	c, ok := low.compare(high)
	switch {
	case !ok:
		return invalid("Invalid %s: The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s",
			e.of, low.appendJSON(nil), high.appendJSON(nil))
	case c > 0:
		return invalid("Invalid %s: The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s",
			e.of, low.appendJSON(nil), high.appendJSON(nil))
	}
	return nil
}
