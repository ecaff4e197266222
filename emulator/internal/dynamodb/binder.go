package dynamodb

import (
	"slices"
	"strings"
	"sync"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// maxPrograms bounds the cache of parsed expressions. A client sends few texts, so it is simply emptied when full.
const maxPrograms = 2000

// programs caches parsed expressions by parameter and text.
type programs struct {
	mu sync.Mutex
	by map[programKey]*program
}

type programKey struct{ of, text string }

func (c *programs) parse(of, text string) (*program, *wire.Error) {
	key := programKey{of, text}
	c.mu.Lock()
	p := c.by[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	key.text = strings.Clone(text) // so as not to keep the request that it came in
	text = key.text
	var err *wire.Error
	switch of {
	case "UpdateExpression":
		p, err = parseUpdate(of, text)
	case "ProjectionExpression":
		p, err = parseProjection(of, text)
	default:
		p, err = parseCondition(of, text)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxPrograms {
		c.by = map[programKey]*program{}
	}
	c.by[key] = p
	return p, nil
}

// bound is a program with one request's names and values filled in.
type bound struct {
	*program
	paths  []path
	values []value
}

// binder fills in the placeholders of all expressions of one request, and knows which were used.
type binder struct {
	cache                 *programs
	names                 map[string]string
	values                fields
	usedNames, usedValues []string
	expressions           []string // the parameters that came
	err                   *wire.Error
}

// newBinder reads ExpressionAttributeNames and ExpressionAttributeValues.
func (d *DynamoDB) newBinder(p *params) *binder {
	b := &binder{cache: &d.programs}
	if p.has("ExpressionAttributeNames") {
		b.names = p.stringMap("ExpressionAttributeNames")
		if len(b.names) == 0 {
			b.fail(invalid("ExpressionAttributeNames must not be empty"))
		}
		for name := range b.names {
			if !placeholder(name, '#') {
				b.fail(invalid(`ExpressionAttributeNames contains invalid key: Syntax error; key: "%s"`, name))
			}
		}
	}
	if p.has("ExpressionAttributeValues") {
		b.values = p.item("ExpressionAttributeValues")
		if p.err == nil && len(b.values) == 0 {
			b.fail(invalid("ExpressionAttributeValues must not be empty"))
		}
		for _, v := range b.values {
			if !placeholder(v.name, ':') {
				b.fail(invalid(`ExpressionAttributeValues contains invalid key: Syntax error; key: "%s"`, v.name))
			}
		}
	}
	return b
}

func placeholder(s string, first byte) bool {
	if len(s) < 2 || s[0] != first {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !isLetter(s[i]) && !isDigit(s[i]) {
			return false
		}
	}
	return true
}

func (b *binder) fail(err *wire.Error) {
	if b.err == nil {
		b.err = err
	}
}

// expression parses and binds the parameter of that name; nil if it did not come, or is faulty.
func (b *binder) expression(p *params, of string) *bound {
	text := p.str(of)
	if !p.has(of) || p.err != nil || b.err != nil {
		return nil
	}
	b.expressions = append(b.expressions, of)
	prog, err := b.cache.parse(of, text)
	if err != nil {
		b.fail(err)
		return nil
	}
	e := &bound{program: prog, paths: prog.paths, values: make([]value, len(prog.values))}
	if !prog.plain {
		e.paths = b.resolve(of, prog.paths)
	}
	for i, name := range prog.values {
		if e.values[i] = b.values.get(name); !e.values[i].exists() {
			b.fail(invalid("Invalid %s: An expression attribute value used in expression is not defined; attribute value: %s", of, name))
		}
		if !slices.Contains(b.usedValues, name) {
			b.usedValues = append(b.usedValues, name)
		}
	}
	if b.err == nil {
		b.fail(e.check())
	}
	if b.err != nil {
		return nil
	}
	return e
}

func (b *binder) resolve(of string, written []path) []path {
	paths := make([]path, len(written))
	for i, p := range written {
		paths[i] = p
		for j, s := range p {
			if !strings.HasPrefix(s.name, "#") {
				continue
			}
			real, ok := b.names[s.name]
			if !ok {
				b.fail(invalid("Invalid %s: An expression attribute name used in the document path is not defined; attribute name: %s", of, s.name))
			}
			if !slices.Contains(b.usedNames, s.name) {
				b.usedNames = append(b.usedNames, s.name)
			}
			if &paths[i][0] == &p[0] { // still the program's own
				paths[i] = slices.Clone(p)
			}
			paths[i][j].name = strings.Clone(real) // it may stay with the item
		}
	}
	return paths
}

// done returns the first fault, or refuses names and values that no expression used.
func (b *binder) done() *wire.Error {
	if b.err != nil {
		return b.err
	}
	if len(b.usedNames) < len(b.names) {
		if len(b.expressions) == 0 {
			return invalid("ExpressionAttributeNames can only be specified when using expressions")
		}
		var unused []string
		for name := range b.names {
			if !slices.Contains(b.usedNames, name) {
				unused = append(unused, name)
			}
		}
		slices.Sort(unused)
		return invalid("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
	if len(b.usedValues) < len(b.values) {
		if len(b.expressions) == 0 {
			return invalid("ExpressionAttributeValues can only be specified when using expressions")
		}
		var unused []string
		for _, v := range b.values {
			if !slices.Contains(b.usedValues, v.name) {
				unused = append(unused, v.name)
			}
		}
		return invalid("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
	return nil
}

// check refuses what can be seen to be wrong before any item is looked at.
func (e *bound) check() *wire.Error {
	switch {
	case e.projection:
		return disjoint(e.of, e.paths)
	case e.update != nil:
		return e.update.check(e)
	}
	return e.condition.check(e)
}
