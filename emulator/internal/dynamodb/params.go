package dynamodb

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// invalid is the service's answer to a request that cannot be carried out as written.
func invalid(format string, args ...any) *wire.Error {
	return wire.Errorf("ValidationException", format, args...)
}

// serialization is the answer to a body that does not have the form of the operation's input.
func serialization(format string, args ...any) *wire.Error {
	return wire.Errorf("SerializationException", format, args...)
}

func wrongType(got any, want string) *wire.Error {
	name := "an object"
	switch got.(type) {
	case nil:
		name = "null"
	case string:
		name = "STRING_VALUE"
	case bool:
		name = "a boolean"
	case float64, int64, uint64:
		name = "NUMBER_VALUE"
	case []any:
		name = "a list"
	case []byte:
		name = "a byte string"
	}
	return serialization("%s cannot be converted to %s", name, want)
}

// params reads the members of one decoded structure. It remembers the first fault, and which members were asked for, so that
// done can refuse those that nobody reads: a parameter that is not honoured must not look as if it were.
type params struct {
	of      string // what the structure is, for messages: an operation, or a member of one
	members object
	asked   []string
	space   [20]string // of asked, for most structures
	err     *wire.Error
}

func newParams(of string, decoded any) *params {
	m, ok := decoded.(object)
	p := &params{of: of, members: m}
	p.asked = p.space[:0]
	if !ok {
		p.err = wrongType(decoded, of)
	}
	return p
}

func (p *params) fail(err *wire.Error) {
	if p.err == nil {
		p.err = err
	}
}

// done returns the first fault met, or names a member that is not known.
func (p *params) done() *wire.Error {
	if p.err != nil {
		return p.err
	}
	var unknown []string
	for _, m := range p.members {
		if m.value != nil && !slices.Contains(p.asked, m.name) {
			unknown = append(unknown, m.name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return invalid("%s: the emulator does not know the parameter %s", p.of, strings.Join(unknown, ", "))
}

func (p *params) get(name string) any {
	p.asked = append(p.asked, name)
	return p.members.get(name)
}

func (p *params) has(name string) bool { return p.members.get(name) != nil }

func (p *params) str(name string) string {
	switch v := p.get(name).(type) {
	case nil:
	case string:
		return v
	default:
		p.fail(wrongType(v, "String"))
	}
	return ""
}

// enum reads a string that must be one of allowed; absent, it is the first of them.
func (p *params) enum(name string, allowed ...string) string {
	v := p.str(name)
	if v == "" && !p.has(name) {
		return allowed[0]
	}
	if !slices.Contains(allowed, v) {
		p.fail(invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [%s]",
			v, lowerFirst(name), strings.Join(allowed, ", ")))
	}
	return v
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func (p *params) flag(name string) (v, given bool) {
	switch v := p.get(name).(type) {
	case nil:
	case bool:
		return v, true
	default:
		p.fail(wrongType(v, "Boolean"))
	}
	return false, false
}

// integer reads a whole number that must lie in [low, high].
func (p *params) integer(name string, low, high int) (n int, given bool) {
	var f float64
	switch v := p.get(name).(type) {
	case nil:
		return 0, false
	case float64:
		f = v
	case int64:
		f = float64(v)
	case uint64:
		f = float64(v)
	default:
		p.fail(wrongType(v, "Integer"))
		return 0, false
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		p.fail(serialization("%v at '%s' cannot be converted to Integer", f, name))
		return 0, false
	}
	n = int(f)
	switch {
	case n < low:
		p.fail(invalid("1 validation error detected: Value '%d' at '%s' failed to satisfy constraint: Member must have value greater than or equal to %d", n, lowerFirst(name), low))
	case n > high:
		p.fail(invalid("1 validation error detected: Value '%d' at '%s' failed to satisfy constraint: Member must have value less than or equal to %d", n, lowerFirst(name), high))
	}
	return n, true
}

// item reads a map of attribute values; nil if absent.
func (p *params) item(name string) fields {
	v := p.get(name)
	if v == nil {
		return nil
	}
	f, err := parseFields(v, 0)
	if err != nil {
		p.fail(err)
		return nil
	}
	if f == nil {
		f = fields{}
	}
	return f
}

func (p *params) list(name string) []any {
	switch v := p.get(name).(type) {
	case nil:
	case []any:
		return v
	default:
		p.fail(wrongType(v, "List"))
	}
	return nil
}

func (p *params) strings(name string) []string {
	l := p.list(name)
	if l == nil {
		return nil
	}
	out := make([]string, 0, len(l))
	for _, e := range l {
		s, ok := e.(string)
		if !ok {
			p.fail(wrongType(e, "String"))
		}
		out = append(out, s)
	}
	return out
}

func (p *params) stringMap(name string) map[string]string {
	out := map[string]string{}
	for _, m := range p.object(name) {
		s, ok := m.value.(string)
		if !ok {
			p.fail(wrongType(m.value, "String"))
		}
		out[m.name] = s
	}
	return out
}

// object reads a map of anything; nil if absent.
func (p *params) object(name string) object {
	switch v := p.get(name).(type) {
	case nil:
	case object:
		return v
	default:
		p.fail(wrongType(v, "Map"))
	}
	return nil
}

// sub reads a structure; nil if absent. Call done on it, and pass the fault on.
func (p *params) sub(name string) *params {
	v := p.get(name)
	if v == nil {
		return nil
	}
	q := newParams(p.of+"."+name, v)
	if q.err != nil {
		p.fail(q.err)
		return nil
	}
	return q
}

// structures reads a list of structures and calls read for each.
func (p *params) structures(name string, read func(q *params)) {
	for i, e := range p.list(name) {
		q := newParams(fmt.Sprintf("%s.%s[%d]", p.of, name, i), e)
		if q.err == nil {
			read(q)
		}
		if err := q.done(); err != nil {
			p.fail(err)
			return
		}
	}
}

// table reads TableName, which may also be the table's ARN.
func (p *params) table() string {
	const name = "TableName"
	v := p.str(name)
	if p.err == nil && v == "" {
		p.fail(invalid("The parameter '%s' is required but was not present in the request", name))
	}
	return tableOf(v)
}

// tableOf takes the table's name out of an ARN, and leaves a bare name as it is.
func tableOf(s string) string {
	if strings.HasPrefix(s, "arn:") {
		if _, rest, ok := strings.Cut(s, ":table/"); ok {
			rest, _, _ = strings.Cut(rest, "/")
			return rest
		}
	}
	return s
}
