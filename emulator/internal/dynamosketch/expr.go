package dynamosketch

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// The expression language: conditions, updates and projections, parsed to closures.

type cond func(row) bool
type operand func(row) attr // nil where there is no value

type step struct {
	name string
	idx  int
	list bool
}
type path []step

type expr struct {
	names              map[string]string
	values             row
	usedNames, usedVal map[string]bool
	toks               []string
	pos                int
}

func newExpr(in *ddbReq) *expr {
	return &expr{names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues, usedNames: map[string]bool{}, usedVal: map[string]bool{}}
}

func (x *expr) unused() *ddbError {
	for n := range x.names {
		if !x.usedNames[n] {
			return invalidReq("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", n)
		}
	}
	for n := range x.values {
		if !x.usedVal[n] {
			return invalidReq("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", n)
		}
	}
	return nil
}

// bail carries a parse error up to the entry points.
type bail struct{ e *ddbError }

func (x *expr) fail(f string, a ...any) { panic(bail{invalidReq("Invalid expression: "+f, a...)}) }

func (x *expr) parse(s string, fn func()) (err *ddbError) {
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(bail)
			if !ok {
				panic(r)
			}
			err = b.e
		}
	}()
	x.toks, x.pos = x.lex(s), 0
	fn()
	if x.pos != len(x.toks) {
		x.fail("Syntax error; token: %q", x.toks[x.pos])
	}
	return nil
}

func word(c byte) bool {
	return c == '_' || c == '#' || c == ':' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (x *expr) lex(s string) (t []string) {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
		case word(c):
			j := i + 1
			for j < len(s) && word(s[j]) {
				j++
			}
			t = append(t, s[i:j])
			i = j
		case (c == '<' || c == '>') && i+1 < len(s) && (s[i+1] == '=' || c == '<' && s[i+1] == '>'):
			t = append(t, s[i:i+2])
			i += 2
		case strings.IndexByte("()[],.=<>+-", c) >= 0:
			t = append(t, s[i:i+1])
			i++
		default:
			x.fail("Syntax error; token: %q", s[i:i+1])
		}
	}
	return t
}

func (x *expr) peek() string {
	if x.pos < len(x.toks) {
		return x.toks[x.pos]
	}
	return ""
}
func (x *expr) next() string { t := x.peek(); x.pos++; return t }
func (x *expr) is(w string) bool {
	if strings.EqualFold(x.peek(), w) {
		x.pos++
		return true
	}
	return false
}
func (x *expr) want(w string) {
	if !x.is(w) {
		x.fail("Syntax error; token: %q, expected %q", x.peek(), w)
	}
}

// A few of the 573 reserved words; a product's fake would have them all.
var reserved = map[string]bool{"NAME": true, "STATUS": true, "TIMESTAMP": true, "COUNTER": true, "OWNER": true, "VALUE": true, "KEY": true, "HASH": true, "RANGE": true, "STREAM": true, "STATE": true, "TTL": true, "VERSION": false, "DATA": true, "DATE": true, "TYPE": true, "COUNT": true, "SIZE": true, "SET": true, "ADD": true, "REMOVE": false, "DELETE": true, "GROUP": true, "REGION": true, "ROLE": true, "SECTION": true, "SOURCE": true, "TOKEN": true, "UUID": true, "TIME": true, "START": true, "END": true, "LAST": true, "FIRST": true, "PARTITION": true, "PERCENT": true}

func (x *expr) pathName(t string) string {
	if t == "" || t[0] == ':' {
		x.fail("Syntax error; token: %q", t)
	}
	if t[0] == '#' {
		n, ok := x.names[t]
		if !ok {
			x.fail("An expression attribute name used in the document path is not defined; attribute name: %s", t)
		}
		x.usedNames[t] = true
		return n
	}
	if reserved[strings.ToUpper(t)] {
		x.fail("Attribute name is a reserved keyword; reserved keyword: %s", t)
	}
	return t
}

func (x *expr) path() path {
	p := path{{name: x.pathName(x.next())}}
	for {
		switch {
		case x.is("."):
			p = append(p, step{name: x.pathName(x.next())})
		case x.is("["):
			n, err := strconv.Atoi(x.next())
			if err != nil {
				x.fail("bad list index")
			}
			p = append(p, step{idx: n, list: true})
			x.want("]")
		default:
			return p
		}
	}
}

func (p path) get(r row) attr {
	v, _ := r[p[0].name].(attr)
	for _, s := range p[1:] {
		if v == nil {
			return nil
		}
		if s.list {
			l, _ := v["L"].([]any)
			if s.idx >= len(l) {
				return nil
			}
			v, _ = l[s.idx].(attr)
		} else {
			m, _ := v["M"].(map[string]any)
			v, _ = m[s.name].(attr)
		}
	}
	return v
}

func (x *expr) value(t string) attr {
	v, ok := x.values[t].(attr)
	if !ok {
		x.fail("An expression attribute value used in expression is not defined; attribute value: %s", t)
	}
	x.usedVal[t] = true
	return v
}

func (x *expr) operand() operand {
	t := x.peek()
	if t == "" {
		x.fail("The expression can not be empty")
	}
	if t[0] == ':' {
		v := x.value(x.next())
		return func(row) attr { return v }
	}
	if strings.EqualFold(t, "size") && x.pos+1 < len(x.toks) && x.toks[x.pos+1] == "(" {
		x.pos += 2
		p := x.path()
		x.want(")")
		return func(r row) attr {
			k, v := kind(p.get(r))
			n := -1
			switch k {
			case "S":
				n = len(v.(string))
			case "L", "SS", "NS", "BS":
				n = len(v.([]any))
			case "M":
				n = len(v.(map[string]any))
			}
			if n < 0 {
				return nil
			}
			return attr{"N": strconv.Itoa(n)}
		}
	}
	p := x.path()
	return func(r row) attr { return p.get(r) }
}

func (x *expr) condition(s string) (c cond, err *ddbError) {
	err = x.parse(s, func() { c = x.or() })
	return c, err
}

func (x *expr) or() cond {
	c := x.and()
	for x.is("OR") {
		a, b := c, x.and()
		c = func(r row) bool { return a(r) || b(r) }
	}
	return c
}

func (x *expr) and() cond {
	c := x.not()
	for x.is("AND") {
		a, b := c, x.not()
		c = func(r row) bool { return a(r) && b(r) }
	}
	return c
}

func (x *expr) not() cond {
	if x.is("NOT") {
		c := x.not()
		return func(r row) bool { return !c(r) }
	}
	if x.is("(") {
		c := x.or()
		x.want(")")
		return c
	}
	if x.pos+1 < len(x.toks) && x.toks[x.pos+1] == "(" && !strings.EqualFold(x.peek(), "size") {
		fn := x.next()
		x.want("(")
		p := x.path()
		var arg operand
		if x.is(",") {
			arg = x.operand()
		}
		x.want(")")
		switch fn {
		case "attribute_exists":
			return func(r row) bool { return p.get(r) != nil }
		case "attribute_not_exists":
			return func(r row) bool { return p.get(r) == nil }
		case "attribute_type":
			return func(r row) bool { k, _ := kind(p.get(r)); return k != "" && k == arg(r)["S"] }
		case "begins_with":
			return func(r row) bool { return begins(p.get(r), arg(r)) }
		case "contains":
			return func(r row) bool { v, a := p.get(r), arg(r); return v != nil && a != nil && contains(v, a) }
		}
		x.fail("Invalid function name; function: %s", fn)
	}
	a := x.operand()
	op := x.next()
	switch strings.ToUpper(op) {
	case "BETWEEN":
		lo := x.operand()
		x.want("AND")
		hi := x.operand()
		return func(r row) bool {
			v := a(r)
			return v != nil && compare(v, lo(r)) >= 0 && compare(hi(r), v) >= 0
		}
	case "IN":
		x.want("(")
		var in []operand
		for {
			in = append(in, x.operand())
			if !x.is(",") {
				break
			}
		}
		x.want(")")
		return func(r row) bool {
			v := a(r)
			for _, o := range in {
				if w := o(r); v != nil && w != nil && equal(v, w) {
					return true
				}
			}
			return false
		}
	case "=", "<>", "<", "<=", ">", ">=":
		b := x.operand()
		return func(r row) bool {
			v, w := a(r), b(r)
			if op == "<>" {
				return v == nil || w == nil || !equal(v, w)
			}
			if v == nil || w == nil {
				return false
			}
			if op == "=" {
				return equal(v, w)
			}
			c := compare(v, w)
			return c > -2 && (op[0] == '<' && c < 0 || op[0] == '>' && c > 0 || len(op) == 2 && c == 0)
		}
	}
	x.fail("Syntax error; token: %q", op)
	return nil
}

// update parses to functions that change a copy of the item, values being taken from the item before.
func (x *expr) update(s string, t *table) (fs []func(row) *ddbError, err *ddbError) {
	var sets []struct {
		p path
		v operand
	}
	var removes []path
	var adds []struct {
		p   path
		v   attr
		del bool
	}
	check := func(p path) path {
		if len(p) == 1 && (p[0].name == t.hash || p[0].name == t.rng) {
			panic(bail{invalidReq("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", p[0].name)})
		}
		return p
	}
	err = x.parse(s, func() {
		for x.peek() != "" {
			switch kw := strings.ToUpper(x.next()); kw {
			case "SET":
				for {
					p := check(x.path())
					x.want("=")
					v := x.setValue()
					sets = append(sets, struct {
						p path
						v operand
					}{p, v})
					if !x.is(",") {
						break
					}
				}
			case "REMOVE":
				for {
					removes = append(removes, check(x.path()))
					if !x.is(",") {
						break
					}
				}
			case "ADD", "DELETE":
				for {
					p := check(x.path())
					adds = append(adds, struct {
						p   path
						v   attr
						del bool
					}{p, x.value(x.next()), kw == "DELETE"})
					if !x.is(",") {
						break
					}
				}
			default:
				x.fail("Syntax error; token: %q", kw)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	// list indexes go from the back, so that one removal does not shift the next
	sort.SliceStable(removes, func(i, j int) bool {
		a, b := removes[i][len(removes[i])-1], removes[j][len(removes[j])-1]
		return a.list && b.list && a.idx > b.idx
	})
	return []func(row) *ddbError{func(r row) *ddbError {
		vals := make([]attr, len(sets))
		for i, s := range sets {
			e := func() (e *ddbError) {
				defer func() {
					if p := recover(); p != nil {
						if b, ok := p.(bail); ok {
							e = b.e
							return
						}
						panic(p)
					}
				}()
				if vals[i] = s.v(r); vals[i] == nil {
					return invalidReq("The provided expression refers to an attribute that does not exist in the item")
				}
				return nil
			}()
			if e != nil {
				return e
			}
		}
		for i, s := range sets {
			if e := s.p.set(r, vals[i]); e != nil {
				return e
			}
		}
		for _, p := range removes {
			if e := p.remove(r); e != nil {
				return e
			}
		}
		for _, a := range adds {
			if e := setOp(r, a.p, a.v, a.del); e != nil {
				return e
			}
		}
		return nil
	}}, nil
}

func (x *expr) setValue() operand {
	a := x.setOperand()
	for x.peek() == "+" || x.peek() == "-" {
		op, l, b := x.next(), a, x.setOperand()
		a = func(r row) attr {
			u, v := l(r), b(r)
			if u == nil || v == nil {
				return nil
			}
			if u["N"] == nil || v["N"] == nil {
				panic(bail{invalidReq("An operand in the update expression has an incorrect data type")})
			}
			n := num(u)
			if op == "+" {
				return numAttr(n.Add(n, num(v)))
			}
			return numAttr(n.Sub(n, num(v)))
		}
	}
	return a
}

func (x *expr) setOperand() operand {
	if x.is("(") {
		v := x.setValue()
		x.want(")")
		return v
	}
	if x.pos+1 < len(x.toks) && x.toks[x.pos+1] == "(" {
		switch fn := x.next(); fn {
		case "if_not_exists":
			x.want("(")
			p := x.path()
			x.want(",")
			d := x.setValue()
			x.want(")")
			return func(r row) attr {
				if v := p.get(r); v != nil {
					return v
				}
				return d(r)
			}
		case "list_append":
			x.want("(")
			a := x.setOperand()
			x.want(",")
			b := x.setOperand()
			x.want(")")
			return func(r row) attr {
				u, v := a(r), b(r)
				if u == nil || v == nil {
					return nil
				}
				l, ok := u["L"].([]any)
				m, ok2 := v["L"].([]any)
				if !ok || !ok2 {
					panic(bail{invalidReq("An operand in the update expression has an incorrect data type")})
				}
				return attr{"L": append(append([]any{}, l...), m...)}
			}
		default:
			x.fail("Invalid function name; function: %s", fn)
		}
	}
	return x.operand()
}

var badPath = fmt.Sprint("The document path provided in the update expression is invalid for update")

func (p path) parent(r row) attr {
	if len(p) == 1 {
		return attr{"M": r}
	}
	return p[:len(p)-1].get(r)
}

func (p path) set(r row, v attr) *ddbError {
	c := p.parent(r)
	s := p[len(p)-1]
	if m, ok := c["M"].(map[string]any); ok && !s.list {
		m[s.name] = v
		return nil
	}
	if l, ok := c["L"].([]any); ok && s.list {
		if s.idx < len(l) {
			l[s.idx] = v
		} else {
			c["L"] = append(l, v)
		}
		return nil
	}
	return invalidReq("%s", badPath)
}

// remove takes a missing last step as done, but a missing way to it as an error, as DynamoDB does.
func (p path) remove(r row) *ddbError {
	c := p.parent(r)
	s := p[len(p)-1]
	if m, ok := c["M"].(map[string]any); ok && !s.list {
		delete(m, s.name)
		return nil
	}
	if l, ok := c["L"].([]any); ok && s.list {
		if s.idx < len(l) {
			c["L"] = append(append([]any{}, l[:s.idx]...), l[s.idx+1:]...)
		}
		return nil
	}
	return invalidReq("%s", badPath)
}

// setOp is ADD (numbers and sets) and DELETE (sets).
func setOp(r row, p path, v attr, del bool) *ddbError {
	old := p.get(r)
	k, x := kind(v)
	switch {
	case k == "N" && !del:
		n := num(v)
		if old != nil {
			if old["N"] == nil {
				return invalidReq("An operand in the update expression has an incorrect data type")
			}
			n.Add(n, num(old))
		}
		return p.set(r, numAttr(n))
	case k == "SS" || k == "NS" || k == "BS":
		if old != nil && old[k] == nil {
			return invalidReq("An operand in the update expression has an incorrect data type")
		}
		in := map[string]bool{}
		for _, s := range strs(old[k]) {
			in[s] = true
		}
		for _, s := range strs(x) {
			in[s] = !del
		}
		var out []any
		for s, ok := range in {
			if ok {
				out = append(out, s)
			}
		}
		sort.Slice(out, func(i, j int) bool { return out[i].(string) < out[j].(string) })
		if len(out) == 0 {
			return p.remove(r)
		}
		return p.set(r, attr{k: out})
	}
	return invalidReq("Incorrect operand type for operator or function; operator: %s, operand type: %s", map[bool]string{true: "DELETE", false: "ADD"}[del], k)
}

// project applies ProjectionExpression or AttributesToGet. Nested paths keep their top attribute's shape in full.
func (x *expr) project(it row, in *ddbReq) (row, *ddbError) {
	names := in.AttributesToGet
	if in.ProjectionExpression != "" {
		if err := x.parse(in.ProjectionExpression, func() {
			for {
				names = append(names, x.path()[0].name)
				if !x.is(",") {
					break
				}
			}
		}); err != nil {
			return nil, err
		}
	}
	if names == nil {
		return it, nil
	}
	o := row{}
	for _, n := range names {
		if v := it[n]; v != nil {
			o[n] = v
		}
	}
	return o, nil
}
