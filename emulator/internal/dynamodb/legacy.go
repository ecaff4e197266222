package dynamodb

import (
	"maps"
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// The conditional and update parameters from before expressions. Java's KCL sends them.

// legacyTest is one attribute's part of Expected, ScanFilter, QueryFilter or KeyConditions.
type legacyTest struct {
	attribute string
	op        string // EQ, NE, …, NULL, NOT_NULL
	args      []value
}

// legacyFilter is all parts, joined by ConditionalOperator.
type legacyFilter struct {
	tests []legacyTest
	or    bool
}

// holds tells whether the item fulfils the filter. A nil filter is fulfilled.
func (f *legacyFilter) holds(item fields) bool {
	if f == nil || len(f.tests) == 0 {
		return true
	}
	for _, t := range f.tests {
		if t.holds(item) == f.or {
			return f.or
		}
	}
	return !f.or
}

func (t legacyTest) holds(item fields) bool {
	v := item.get(t.attribute)
	switch t.op {
	case "NULL":
		return !v.exists()
	case "NOT_NULL":
		return v.exists()
	case "EQ":
		return compares("=", v, t.args[0])
	case "NE":
		return compares("<>", v, t.args[0])
	case "LT":
		return compares("<", v, t.args[0])
	case "LE":
		return compares("<=", v, t.args[0])
	case "GT":
		return compares(">", v, t.args[0])
	case "GE":
		return compares(">=", v, t.args[0])
	case "BETWEEN":
		return compares(">=", v, t.args[0]) && compares("<=", v, t.args[1])
	case "IN":
		return v.exists() && slices.ContainsFunc(t.args, v.equal)
	case "BEGINS_WITH":
		return v.beginsWith(t.args[0])
	case "CONTAINS":
		return v.exists() && v.contains(t.args[0])
	}
	return !v.contains(t.args[0]) // NOT_CONTAINS: true of what is not there
}

// comparators are the legacy operators with how many arguments they take; -1 is one or more.
var comparators = map[string]int{
	"EQ": 1, "NE": 1, "LT": 1, "LE": 1, "GT": 1, "GE": 1, "BETWEEN": 2, "IN": -1,
	"BEGINS_WITH": 1, "CONTAINS": 1, "NOT_CONTAINS": 1, "NULL": 0, "NOT_NULL": 0,
}

// legacyFilter reads Expected, ScanFilter, QueryFilter or KeyConditions; nil if it did not come.
func (p *params) legacyFilter(name string) *legacyFilter {
	if !p.has(name) {
		p.get(name)
		return nil
	}
	f := &legacyFilter{}
	for _, m := range p.object(name) {
		attribute := strings.Clone(m.name)
		q := newParams(p.of+"."+name+"."+attribute, m.value)
		if q.err == nil {
			f.tests = append(f.tests, q.legacyTest(attribute, name == "Expected"))
		}
		p.adopt(q)
	}
	return f
}

func (p *params) legacyTest(attribute string, expected bool) legacyTest {
	t := legacyTest{attribute: attribute, op: p.str("ComparisonOperator")}
	for _, e := range p.list("AttributeValueList") {
		v, err := parseValue(e, 0)
		if err != nil {
			p.fail(err)
		}
		t.args = append(t.args, v)
	}
	if expected {
		p.expectation(&t)
	}
	if p.err != nil {
		return t
	}
	want, known := comparators[t.op]
	switch {
	case t.op == "":
		p.fail(invalid("One or more parameter values were invalid: ComparisonOperator is required for Attribute: %s", attribute))
	case !known:
		p.fail(invalid("1 validation error detected: Value '%s' at 'comparisonOperator' failed to satisfy constraint: Member must satisfy enum value set: [%s]", t.op, join(slices.Sorted(maps.Keys(comparators)))))
	case want >= 0 && len(t.args) != want, want < 0 && len(t.args) == 0:
		p.fail(invalid("One or more parameter values were invalid: Invalid number of argument(s) for the %s ComparisonOperator", t.op))
	default:
		p.checkArguments(t)
	}
	return t
}

// expectation reads the older members of Expected, Value and Exists, as tests.
func (p *params) expectation(t *legacyTest) {
	exists, saysExists := p.flag("Exists")
	in := p.get("Value")
	if in != nil {
		v, err := parseValue(in, 0)
		if err != nil {
			p.fail(err)
		}
		if t.args != nil {
			p.fail(invalid("One or more parameter values were invalid: Value and AttributeValueList cannot be used together for Attribute: %s", t.attribute))
		}
		t.args = []value{v}
	}
	switch {
	case p.err != nil:
	case t.op != "" && saysExists:
		p.fail(invalid("One or more parameter values were invalid: Exists and ComparisonOperator cannot be used together for Attribute: %s", t.attribute))
	case t.op != "":
	case p.has("AttributeValueList"):
		p.fail(invalid("One or more parameter values were invalid: AttributeValueList can only be used with a ComparisonOperator for Attribute: %s", t.attribute))
	case saysExists && !exists && in != nil:
		p.fail(invalid("One or more parameter values were invalid: Value cannot be used when Exists is false for Attribute: %s", t.attribute))
	case saysExists && !exists:
		t.op = "NULL"
	case in != nil:
		t.op = "EQ"
	case saysExists:
		p.fail(invalid("One or more parameter values were invalid: Value must be provided when Exists is true for Attribute: %s", t.attribute))
	default:
		p.fail(invalid("One or more parameter values were invalid: Value must be provided when Exists is null for Attribute: %s", t.attribute))
	}
}

// checkArguments refuses arguments whose kind the operator cannot work on.
func (p *params) checkArguments(t legacyTest) {
	for i, v := range t.args {
		ok := true
		switch t.op {
		case "LT", "LE", "GT", "GE", "BETWEEN":
			ok = v.kind.ordered()
		case "BEGINS_WITH":
			ok = v.kind == kindS || v.kind == kindB
		case "CONTAINS", "NOT_CONTAINS", "IN":
			ok = v.kind.ordered()
		}
		if !ok {
			p.fail(invalid("One or more parameter values were invalid: ComparisonOperator %s is not valid for %s AttributeValue type", t.op, v.kind))
			return
		}
		if i > 0 && v.kind != t.args[0].kind {
			p.fail(invalid("One or more parameter values were invalid: AttributeValues inside AttributeValueList must be of same type"))
			return
		}
	}
	if t.op == "BETWEEN" {
		if c, _ := t.args[0].compare(t.args[1]); c > 0 {
			p.fail(invalid("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"))
		}
	}
}

// joined reads ConditionalOperator for the filter.
func (p *params) joined(f *legacyFilter) {
	or := p.enum("ConditionalOperator", "AND", "OR") == "OR"
	switch {
	case !p.has("ConditionalOperator"):
	case f == nil:
		p.fail(invalid("One or more parameter values were invalid: ConditionalOperator cannot be used without Filter or Expected"))
	case len(f.tests) < 2:
		p.fail(invalid("One or more parameter values were invalid: ConditionalOperator can only be used when Filter or Expected has two or more elements"))
	default:
		f.or = or
	}
}

// attributeUpdate is one of AttributeUpdates.
type attributeUpdate struct {
	attribute string
	action    string // PUT, ADD, DELETE
	value     value  // none for a DELETE of the whole attribute
}

func (p *params) attributeUpdates() []attributeUpdate {
	var updates []attributeUpdate
	for _, m := range p.object("AttributeUpdates") {
		name := strings.Clone(m.name) // it stays with the item
		q := newParams(p.of+".AttributeUpdates."+name, m.value)
		if q.err == nil {
			updates = append(updates, q.attributeUpdate(name))
		}
		p.adopt(q)
	}
	return updates
}

func (p *params) attributeUpdate(name string) attributeUpdate {
	u := attributeUpdate{attribute: name, action: p.enum("Action", "PUT", "ADD", "DELETE")}
	if in := p.get("Value"); in != nil {
		var err *wire.Error
		if u.value, err = parseValue(in, 0); err != nil {
			p.fail(err)
		}
	}
	k := u.value.kind
	switch {
	case p.err != nil:
	case k == "" && u.action != "DELETE":
		p.fail(invalid("One or more parameter values were invalid: Only DELETE action is allowed when no attribute value is specified"))
	case u.action == "ADD" && k != kindN && !k.isSet(), u.action == "DELETE" && k != "" && !k.isSet():
		p.fail(invalid("One or more parameter values were invalid: %s action is not supported for the type %s", u.action, k))
	}
	return u
}

// applyUpdates returns the item after AttributeUpdates.
func applyUpdates(item fields, updates []attributeUpdate) (fields, *wire.Error) {
	for _, u := range updates {
		old := item.get(u.attribute)
		if u.action != "PUT" && u.value.exists() && old.exists() && old.kind != u.value.kind {
			return nil, invalid("Type mismatch for attribute to update")
		}
		at := path{{name: u.attribute}}
		var err *wire.Error
		switch {
		case u.action == "ADD":
			item, err = addTo(item, at, u.value)
		case u.action == "DELETE" && u.value.exists():
			item, err = deleteFrom(item, at, u.value)
		case u.action == "DELETE":
			item = item.without(u.attribute)
		default:
			item = item.with(u.attribute, u.value)
		}
		if err != nil {
			return nil, err
		}
	}
	return item, nil
}

// eitherKind refuses requests that mix expressions with the parameters they replaced.
func (p *params) eitherKind(old, new []string) {
	var haveOld, haveNew []string
	for _, name := range old {
		if p.has(name) {
			haveOld = append(haveOld, name)
		}
	}
	for _, name := range new {
		if p.has(name) {
			haveNew = append(haveNew, name)
		}
	}
	if haveOld != nil && haveNew != nil {
		p.fail(invalid("Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {%s} Expression parameters: {%s}",
			join(haveOld), join(haveNew)))
	}
}
