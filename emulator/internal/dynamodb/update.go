package dynamodb

import (
	"slices"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// update is a parsed UpdateExpression. Paths and values are numbers into the program's lists.
type update struct {
	sets          []assignment
	removes       []int
	adds, deletes []setChange
}

type assignment struct {
	path  int
	value operand
}

// setChange adds a value's members to a set, or its number to a number; or it takes a value's members from a set.
type setChange struct{ path, value int }

func parseUpdate(of, text string) (*program, *wire.Error) {
	p := newParser(of, text)
	u := &update{}
	p.update = u
	seen := map[string]bool{}
	for p.err == nil && p.peek().kind != tokenEnd {
		t := p.peek()
		var action func()
		var section string
		switch {
		case t.is("SET"):
			section = "SET"
			action = func() {
				target := p.path()
				p.expect("=")
				u.sets = append(u.sets, assignment{target, p.assigned()})
			}
		case t.is("REMOVE"):
			section = "REMOVE"
			action = func() { u.removes = append(u.removes, p.path()) }
		case t.is("ADD"):
			section = "ADD"
			action = func() { u.adds = append(u.adds, setChange{p.path(), p.value()}) }
		case t.is("DELETE"):
			section = "DELETE"
			action = func() { u.deletes = append(u.deletes, setChange{p.path(), p.value()}) }
		default:
			p.unexpected()
			continue
		}
		if seen[section] {
			p.fail(`The "%s" section can only be used once in an update expression;`, section)
			break
		}
		seen[section] = true
		p.next()
		action()
		for p.acceptSymbol(",") {
			action()
		}
	}
	return p.end()
}

// assigned reads the right side of a SET action: an operand, or a sum or difference of two.
func (p *parser) assigned() operand {
	if p.acceptSymbol("(") {
		o := p.assigned()
		p.expect(")")
		return o
	}
	left := p.updateOperand()
	if t := p.peek(); t.symbol("+") || t.symbol("-") {
		p.next()
		return operand{kind: operandCall, fn: t.text, args: []operand{left, p.updateOperand()}}
	}
	return left
}

func (p *parser) updateOperand() operand {
	switch {
	case p.peek().kind == tokenValue:
		return operand{kind: operandValue, ref: p.value()}
	case !p.call():
		return operand{kind: operandPath, ref: p.path()}
	}
	fn := p.next().text
	if fn != "if_not_exists" && fn != "list_append" {
		p.misused(fn)
		return operand{}
	}
	p.expect("(")
	args := []operand{p.updateOperand()}
	for p.acceptSymbol(",") {
		args = append(args, p.updateOperand())
	}
	p.expect(")")
	if p.counted(fn, args, 2) && fn == "if_not_exists" {
		p.needsPath(fn, args[0])
	}
	return operand{kind: operandCall, fn: fn, args: args}
}

// targets are the paths that the update changes.
func (u *update) targets(e *bound) []path {
	paths := make([]path, 0, len(u.sets)+len(u.removes)+len(u.adds)+len(u.deletes))
	for _, s := range u.sets {
		paths = append(paths, e.paths[s.path])
	}
	for _, r := range u.removes {
		paths = append(paths, e.paths[r])
	}
	for _, s := range u.adds {
		paths = append(paths, e.paths[s.path])
	}
	for _, s := range u.deletes {
		paths = append(paths, e.paths[s.path])
	}
	return paths
}

func (u *update) check(e *bound) *wire.Error {
	if err := disjoint(e.of, u.targets(e)); err != nil {
		return err
	}
	for _, s := range u.sets {
		if err := s.value.checkUpdate(e); err != nil {
			return err
		}
	}
	for _, s := range u.adds {
		if k := e.values[s.value].kind; k != kindN && !k.isSet() {
			return invalid("Invalid %s: Incorrect operand type for operator or function; operator: ADD, operand type: %s", e.of, longNames[k])
		}
	}
	for _, s := range u.deletes {
		if k := e.values[s.value].kind; !k.isSet() {
			return invalid("Invalid %s: Incorrect operand type for operator or function; operator: DELETE, operand type: %s", e.of, longNames[k])
		}
	}
	return nil
}

func (o operand) checkUpdate(e *bound) *wire.Error {
	want := kind("")
	switch o.fn {
	case "+", "-":
		want = kindN
	case "list_append":
		want = kindL
	}
	for _, a := range o.args {
		if k := a.literal(e).kind; want != "" && k != "" && k != want {
			return e.operandType("operator or function", o.fn, k)
		}
		if err := a.checkUpdate(e); err != nil {
			return err
		}
	}
	return nil
}

// apply returns the item after the update. Right sides are worked out on the item as it was; indexes to remove, too, mean the
// elements as they were.
func (u *update) apply(e *bound, old fields) (fields, *wire.Error) {
	item := old
	for _, s := range u.sets {
		v, err := s.value.compute(e, old)
		if err == nil {
			item, err = e.paths[s.path].set(item, v)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, s := range u.adds {
		var err *wire.Error
		if item, err = addTo(item, e.paths[s.path], e.values[s.value]); err != nil {
			return nil, err
		}
	}
	for _, s := range u.deletes {
		var err *wire.Error
		if item, err = deleteFrom(item, e.paths[s.path], e.values[s.value]); err != nil {
			return nil, err
		}
	}
	// From the back, so that no removal moves an element that is still to go.
	removes := slices.Clone(u.removes)
	slices.SortStableFunc(removes, func(a, b int) int { return e.paths[b].compare(e.paths[a]) })
	for _, r := range removes {
		var err *wire.Error
		if item, err = e.paths[r].remove(item); err != nil {
			return nil, err
		}
	}
	return item, nil
}

func errOperand() *wire.Error {
	return invalid("An operand in the update expression has an incorrect data type")
}

// compute is an operand's value for an item; all that it refers to must exist.
func (o operand) compute(e *bound, item fields) (value, *wire.Error) {
	if o.kind != operandCall {
		v := o.in(e, item)
		if !v.exists() {
			return value{}, invalid("The provided expression refers to an attribute that does not exist in the item")
		}
		return v, nil
	}
	if o.fn == "if_not_exists" {
		if v := o.args[0].in(e, item); v.exists() {
			return v, nil
		}
		return o.args[1].compute(e, item)
	}
	a, err := o.args[0].compute(e, item)
	if err != nil {
		return value{}, err
	}
	b, err := o.args[1].compute(e, item)
	if err != nil {
		return value{}, err
	}
	if o.fn == "list_append" {
		if a.kind != kindL || b.kind != kindL {
			return value{}, errOperand()
		}
		return listValue(slices.Concat(a.deep.list, b.deep.list)), nil
	}
	if a.kind != kindN || b.kind != kindN {
		return value{}, errOperand()
	}
	n, err := addNumbers(a.text, b.text, o.fn == "-")
	return numberValue(n), err
}

// addTo adds a number to a number or members to a set; what does not exist counts as zero, or as empty.
func addTo(item fields, p path, v value) (fields, *wire.Error) {
	old := p.in(item)
	if old.exists() {
		if old.kind != v.kind {
			return nil, errOperand()
		}
		if v.kind == kindN {
			n, err := addNumbers(old.text, v.text, false)
			if err != nil {
				return nil, err
			}
			v = numberValue(n)
		} else {
			members := slices.Clone(old.list)
			for _, m := range v.list {
				if _, found := slices.BinarySearchFunc(old.list, m, memberOrder(v.kind)); !found {
					members = append(members, m)
				}
			}
			v = setValue(v.kind, members)
		}
	}
	return p.set(item, v)
}

// deleteFrom takes members out of a set, and the set away with its last member.
func deleteFrom(item fields, p path, v value) (fields, *wire.Error) {
	old := p.in(item)
	if !old.exists() {
		if len(p) > 1 {
			return p.remove(item) // tells a missing set from a missing way to it
		}
		return item, nil
	}
	if old.kind != v.kind {
		return nil, errOperand()
	}
	left := slices.DeleteFunc(slices.Clone(old.list), func(m string) bool { return slices.Contains(v.list, m) })
	if len(left) == 0 {
		return p.remove(item)
	}
	return p.set(item, setValue(v.kind, left))
}
