package dynamodb

import (
	"strconv"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// program is a parsed expression. It depends on the text alone: placeholders are filled in by bind, so that one program
// serves all requests with its text, and may be shared between goroutines.
type program struct {
	of     string   // the parameter it came in, for messages
	paths  []path   // as written; names may be placeholders
	plain  bool     // no path has a placeholder
	values []string // the value placeholders, each once

	condition  *node   // ConditionExpression, FilterExpression, KeyConditionExpression
	update     *update // UpdateExpression
	projection bool    // ProjectionExpression: all of paths
}

// node is a condition, or a part of one.
type node struct {
	op   string // AND OR NOT, a comparator, BETWEEN, IN, or a function's name
	kids []*node
	args []operand
}

type operandKind int

const (
	operandPath operandKind = iota
	operandValue
	operandCall // size, if_not_exists, list_append, + and -
)

// operand is what a comparator or function works on; ref is an index into the program's paths or values.
type operand struct {
	kind operandKind
	ref  int
	fn   string
	args []operand
}

// parser turns tokens into a program. The first fault is kept; after it the parser stands at the end, so that every loop ends.
type parser struct {
	*program
	text   string
	tokens []token
	pos    int
	err    *wire.Error
}

func newParser(of, text string) *parser {
	p := &parser{program: &program{of: of, plain: true}, text: text}
	p.tokens, p.err = lex(of, text)
	if p.err == nil && len(p.tokens) == 1 {
		p.fail("The expression can not be empty;")
	}
	if p.err != nil {
		p.tokens = []token{{kind: tokenEnd}}
	}
	return p
}

func (p *parser) fail(format string, args ...any) {
	p.failWith(invalid("Invalid "+p.of+": "+format, args...))
}

func (p *parser) failWith(err *wire.Error) {
	if p.err == nil {
		p.err = err
	}
	p.pos = max(0, len(p.tokens)-1)
}

// unexpected makes the token at hand a syntax error.
func (p *parser) unexpected() { p.failWith(syntax(p.of, p.text, p.peek())) }

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

// call tells whether a word and an opening parenthesis follow.
func (p *parser) call() bool {
	return p.peek().kind == tokenWord && p.tokens[p.pos+1].symbol("(")
}

func (p *parser) acceptSymbol(s string) bool {
	if p.peek().symbol(s) {
		p.next()
		return true
	}
	return false
}

func (p *parser) acceptWord(w string) bool {
	if p.peek().is(w) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(symbol string) {
	if !p.acceptSymbol(symbol) {
		p.unexpected()
	}
}

// end returns the program if everything was read.
func (p *parser) end() (*program, *wire.Error) {
	if p.err == nil && p.peek().kind != tokenEnd {
		p.unexpected()
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.program, nil
}

func (p *parser) name() string {
	t := p.peek()
	switch {
	case t.kind == tokenName:
		p.plain = false
	case t.kind == tokenWord && reserved[strings.ToUpper(t.text)]:
		p.fail("Attribute name is a reserved keyword; reserved keyword: %s", t.text)
		return ""
	case t.kind != tokenWord:
		p.unexpected()
		return ""
	}
	p.next()
	return t.text
}

// path reads a document path and returns its number.
func (p *parser) path() int {
	steps := path{{name: p.name()}}
	for p.err == nil {
		switch {
		case p.acceptSymbol("."):
			steps = append(steps, step{name: p.name()})
			continue
		case p.acceptSymbol("["):
			t := p.peek()
			i, err := strconv.Atoi(t.text)
			if t.kind != tokenInt || err != nil {
				p.unexpected()
				break
			}
			p.next()
			p.expect("]")
			steps = append(steps, step{index: i, inList: true})
			continue
		}
		break
	}
	p.paths = append(p.paths, steps)
	return len(p.paths) - 1
}

// value reads a value placeholder and returns its number.
func (p *parser) value() int {
	t := p.peek()
	if t.kind != tokenValue {
		p.unexpected()
		return 0
	}
	p.next()
	for i, v := range p.values {
		if v == t.text {
			return i
		}
	}
	p.values = append(p.values, t.text)
	return len(p.values) - 1
}

// operand reads an operand of a condition.
func (p *parser) operand() operand {
	switch {
	case p.peek().kind == tokenValue:
		return operand{kind: operandValue, ref: p.value()}
	case p.call():
		fn := p.next().text
		args := p.arguments()
		if fn != "size" {
			p.misused(fn)
			return operand{}
		}
		if !p.counted(fn, args, 1) || !p.needsPath(fn, args[0]) {
			return operand{}
		}
		return operand{kind: operandCall, fn: fn, args: args}
	}
	return operand{kind: operandPath, ref: p.path()}
}

func (p *parser) arguments() []operand {
	p.expect("(")
	args := []operand{p.operand()}
	for p.acceptSymbol(",") {
		args = append(args, p.operand())
	}
	p.expect(")")
	return args
}

// functions are those that are conditions by themselves, with their number of operands.
var functions = map[string]int{"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2}

// misused refuses a function where it makes no sense, or one that there is not.
func (p *parser) misused(fn string) {
	switch {
	case functions[fn] > 0, fn == "size", fn == "if_not_exists", fn == "list_append":
		p.fail("The function is not allowed to be used this way in an expression; function: %s", fn)
	default:
		p.fail("Invalid function name; function: %s", fn)
	}
}

func (p *parser) counted(fn string, args []operand, want int) bool {
	if p.err == nil && len(args) != want {
		p.fail("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", fn, len(args))
	}
	return p.err == nil
}

func (p *parser) needsPath(fn string, o operand) bool {
	if o.kind != operandPath {
		p.fail("Operator or function requires a document path; operator or function: %s", fn)
	}
	return p.err == nil
}

func parseCondition(of, text string) (*program, *wire.Error) {
	p := newParser(of, text)
	p.condition, _ = p.or()
	return p.end()
}

// or, and, not and primary also tell whether the condition read was all in parentheses.
func (p *parser) or() (*node, bool) {
	n, inParens := p.and()
	for p.acceptWord("OR") {
		right, _ := p.and()
		n, inParens = &node{op: "OR", kids: []*node{n, right}}, false
	}
	return n, inParens
}

func (p *parser) and() (*node, bool) {
	n, inParens := p.not()
	for p.acceptWord("AND") {
		right, _ := p.not()
		n, inParens = &node{op: "AND", kids: []*node{n, right}}, false
	}
	return n, inParens
}

func (p *parser) not() (*node, bool) {
	if p.acceptWord("NOT") {
		n, _ := p.not()
		return &node{op: "NOT", kids: []*node{n}}, false
	}
	return p.primary()
}

func (p *parser) primary() (*node, bool) {
	if p.acceptSymbol("(") {
		n, twice := p.or()
		p.expect(")")
		if twice {
			p.fail("The expression has redundant parentheses;")
		}
		return n, true
	}
	if p.call() && p.peek().text != "size" {
		fn := p.next().text
		if functions[fn] == 0 {
			p.misused(fn)
			return nil, false
		}
		args := p.arguments()
		if p.counted(fn, args, functions[fn]) && strings.HasPrefix(fn, "attribute_") {
			p.needsPath(fn, args[0])
		}
		return &node{op: fn, args: args}, false
	}
	return p.comparison(), false
}

func (p *parser) comparison() *node {
	size := p.call()
	args := []operand{p.operand()}
	switch t := p.peek(); {
	case t.is("BETWEEN"):
		p.next()
		args = append(args, p.operand())
		if !p.acceptWord("AND") {
			p.unexpected()
		}
		return &node{op: "BETWEEN", args: append(args, p.operand())}
	case t.is("IN"):
		p.next()
		return &node{op: "IN", args: append(args, p.arguments()...)}
	case t.kind == tokenSymbol && strings.ContainsAny(t.text, "<=>"):
		p.next()
		return &node{op: t.text, args: append(args, p.operand())}
	case size && (t.kind == tokenEnd || t.is("AND") || t.is("OR") || t.symbol(")")):
		p.misused("size")
	default:
		p.unexpected()
	}
	return nil
}

func parseProjection(of, text string) (*program, *wire.Error) {
	p := newParser(of, text)
	p.projection = true
	p.path()
	for p.acceptSymbol(",") {
		p.path()
	}
	return p.end()
}
