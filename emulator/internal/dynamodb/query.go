package dynamodb

import (
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// keyCondition is what a Query asks of the key: the hash key's value, and perhaps a test of the sort key.
type keyCondition struct {
	hash value
	sort func(item fields) bool // nil for all
}

func (d *DynamoDB) query(p *params) (action, *wire.Error) {
	p.eitherKind([]string{"AttributesToGet", "QueryFilter", "ConditionalOperator", "KeyConditions"},
		[]string{"FilterExpression", "ProjectionExpression", "KeyConditionExpression"})
	b := d.newBinder(p)
	s := d.readSearch(p, b, "QueryFilter")
	forward, given := p.flag("ScanIndexForward")
	forward = forward || !given
	expression := b.expression(p, "KeyConditionExpression")
	legacy := p.legacyFilter("KeyConditions")
	if !p.has("KeyConditionExpression") && legacy == nil {
		p.fail(invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."))
	}
	if err := b.done(); err != nil {
		p.fail(err)
	}
	return func(c *call) (output, *wire.Error) {
		from, err := d.source(c, s)
		if err != nil {
			return nil, err
		}
		var k keyCondition
		if expression != nil {
			k, err = from.keys.ofExpression(expression)
		} else {
			k, err = from.keys.ofTests(legacy.tests)
		}
		if err == nil {
			err = s.filtersNoKey(from)
		}
		if err != nil {
			return nil, err
		}
		start, err := from.startPosition(s.start)
		if err != nil {
			return nil, err
		}
		prefix := partition(k.hash)
		if start != "" && !strings.HasPrefix(start, prefix) {
			return nil, invalid("The provided starting key is outside query boundaries based on provided conditions")
		}
		g := &page{search: s, from: from}
		visit := func(position string, r *row) bool {
			if !strings.HasPrefix(position, prefix) {
				return false
			}
			return k.sort != nil && !k.sort(r.attrs) || g.take(r)
		}
		switch {
		case forward:
			from.rows.ascend(max(start, prefix), visit)
		case start != "":
			from.rows.descend(start, visit)
		default:
			from.rows.descend(prefix[:len(prefix)-1]+"\x02", visit) // prefixes end in 0x01: this is just above all that begin so
		}
		return d.finish(c, g)
	}, p.done()
}

// keyTest is one comparison of a key condition, from an expression or not.
type keyTest struct {
	attribute string
	op        string // as in expressions
	args      []value
}

func (t keyTest) holds(item fields) bool {
	v := item.get(t.attribute)
	switch t.op {
	case "BETWEEN":
		return compares(">=", v, t.args[0]) && compares("<=", v, t.args[1])
	case "begins_with":
		return v.beginsWith(t.args[0])
	}
	return compares(t.op, v, t.args[0])
}

// ofExpression takes a KeyConditionExpression apart: a comparison, or two joined by AND.
func (k keySchema) ofExpression(e *bound) (keyCondition, *wire.Error) {
	parts := []*node{e.condition}
	if e.condition.op == "AND" {
		parts = e.condition.kids
	}
	var tests []keyTest
	for _, n := range parts {
		switch n.op {
		case "OR", "NOT", "<>", "IN", "attribute_exists", "attribute_not_exists", "attribute_type", "contains":
			return keyCondition{}, invalid("Invalid operator used in KeyConditionExpression: %s", n.op)
		case "AND":
			return keyCondition{}, invalid("Conditions can be of length 1 or 2 only")
		}
		t := keyTest{op: n.op}
		for i, o := range n.args {
			if (o.kind == operandPath) != (i == 0) || o.kind == operandCall {
				return keyCondition{}, invalid("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand, and values as the others", n.op)
			}
			if i > 0 {
				t.args = append(t.args, o.literal(e))
				continue
			}
			if p := e.paths[o.ref]; len(p) > 1 {
				return keyCondition{}, invalid("KeyConditionExpressions cannot have conditions on nested attributes")
			} else {
				t.attribute = p[0].name
			}
		}
		tests = append(tests, t)
	}
	return k.ofKeyTests(tests)
}

// legacyOps are the operators that KeyConditions may use, by their form in expressions.
var legacyOps = map[string]string{"EQ": "=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "BETWEEN": "BETWEEN", "BEGINS_WITH": "begins_with"}

func (k keySchema) ofTests(legacy []legacyTest) (keyCondition, *wire.Error) {
	var tests []keyTest
	for _, l := range legacy {
		op := legacyOps[l.op]
		if op == "" {
			return keyCondition{}, invalid("Attempted conditional constraint is not an indexable operation")
		}
		tests = append(tests, keyTest{l.attribute, op, l.args})
	}
	return k.ofKeyTests(tests)
}

func (k keySchema) ofKeyTests(tests []keyTest) (keyCondition, *wire.Error) {
	if len(tests) == 0 || len(tests) > 2 {
		return keyCondition{}, invalid("Conditions can be of length 1 or 2 only")
	}
	var out keyCondition
	for _, t := range tests {
		want := k.hashKind
		switch {
		case t.attribute == k.hash && t.op == "=":
			if out.hash.exists() {
				return keyCondition{}, invalid("KeyConditionExpressions must only contain one condition per key")
			}
			out.hash = t.args[0]
		case t.attribute == k.hash:
			return keyCondition{}, invalid("Query key condition not supported")
		case t.attribute == k.sort && k.sort != "":
			if out.sort != nil {
				return keyCondition{}, invalid("KeyConditionExpressions must only contain one condition per key")
			}
			want, out.sort = k.sortKind, t.holds
		default:
			missing := k.hash
			if len(tests) == 2 {
				missing = k.sort
			}
			return keyCondition{}, invalid("Query condition missed key schema element: %s", missing)
		}
		for _, v := range t.args {
			if v.kind != want {
				return keyCondition{}, invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
			}
			if v.text == "" {
				return keyCondition{}, invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: %s", t.attribute)
			}
		}
	}
	if !out.hash.exists() {
		return keyCondition{}, invalid("Query condition missed key schema element: %s", k.hash)
	}
	return out, nil
}

// filtersNoKey refuses filters on the key, which belong into the key condition.
func (s *search) filtersNoKey(from source) *wire.Error {
	for _, name := range from.keys.names() {
		if s.filter != nil {
			for _, p := range s.filter.paths {
				if p[0].name == name {
					return invalid("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
				}
			}
		}
		if s.legacy != nil {
			for _, t := range s.legacy.tests {
				if t.attribute == name {
					return invalid("QueryFilter can only contain non-primary key attributes: Primary key attribute: %s", name)
				}
			}
		}
	}
	return nil
}
