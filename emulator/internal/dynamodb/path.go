package dynamodb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// step goes from a value to a part of it: an entry of a map, or an element of a list.
type step struct {
	name   string
	index  int
	inList bool
}

// path is a document path, as a.b[3]: the first step is always an attribute's name.
type path []step

// String is the form in which messages name a path.
func (p path) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		if parts[i] = s.name; s.inList {
			parts[i] = fmt.Sprintf("[%d]", s.index)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// in returns what the path leads to in an item, or none.
func (p path) in(item fields) value {
	v := item.get(p[0].name)
	for _, s := range p[1:] {
		v = s.in(v)
	}
	return v
}

func (s step) in(v value) value {
	switch {
	case v.kind == kindL && s.inList:
		if s.index < len(v.deep.list) {
			return v.deep.list[s.index]
		}
	case v.kind == kindM && !s.inList:
		return v.deep.fields.get(s.name)
	}
	return value{}
}

// errPath is the answer to an update of something whose surroundings do not exist.
func errPath() *wire.Error {
	return invalid("The document path provided in the update expression is invalid for update")
}

// set returns the item with v at the path. All maps and lists on the way must exist; an index beyond the end appends.
func (p path) set(item fields, v value) (fields, *wire.Error) {
	if len(p) == 1 {
		return item.with(p[0].name, v), nil
	}
	inner, err := setIn(item.get(p[0].name), p[1], p[2:], v)
	if err != nil {
		return nil, err
	}
	return item.with(p[0].name, inner), nil
}

// setIn returns a map or list with v at the end of the way that s and then rest lead.
func setIn(in value, s step, rest path, v value) (value, *wire.Error) {
	if len(rest) > 0 {
		inner, err := setIn(s.in(in), rest[0], rest[1:], v)
		if err != nil {
			return value{}, err
		}
		v = inner
	}
	switch {
	case in.kind == kindM && !s.inList:
		return mapValue(in.deep.fields.with(s.name, v)), nil
	case in.kind == kindL && s.inList && s.index < len(in.deep.list):
		list := slices.Clone(in.deep.list)
		list[s.index] = v
		return listValue(list), nil
	case in.kind == kindL && s.inList:
		return listValue(append(slices.Clip(in.deep.list), v)), nil
	}
	return value{}, errPath()
}

// remove returns the item without what the path leads to. A last step that leads nowhere is done already; a way to it that
// does not exist is an error.
func (p path) remove(item fields) (fields, *wire.Error) {
	if len(p) == 1 {
		return item.without(p[0].name), nil
	}
	inner, err := p[1:].removeIn(item.get(p[0].name))
	if err != nil {
		return nil, err
	}
	return item.with(p[0].name, inner), nil
}

func (p path) removeIn(in value) (value, *wire.Error) {
	s := p[0]
	if len(p) > 1 {
		inner, err := p[1:].removeIn(s.in(in))
		if err != nil {
			return value{}, err
		}
		return setIn(in, s, nil, inner)
	}
	switch {
	case in.kind == kindM && !s.inList:
		return mapValue(in.deep.fields.without(s.name)), nil
	case in.kind == kindL && s.inList && s.index < len(in.deep.list):
		return listValue(slices.Concat(in.deep.list[:s.index], in.deep.list[s.index+1:])), nil
	case in.kind == kindL && s.inList:
		return in, nil
	}
	return value{}, errPath()
}

// compare orders paths so that a path comes directly before those inside it, and indexes ascend.
func (p path) compare(q path) int {
	return slices.CompareFunc(p, q, func(a, b step) int {
		switch {
		case a.inList != b.inList:
			if a.inList {
				return 1
			}
			return -1
		case a.inList:
			return a.index - b.index
		}
		return strings.Compare(a.name, b.name)
	})
}

// disjoint refuses two paths of which one is, or contains, the other, or which take one place for a map and a list.
func disjoint(of string, paths []path) *wire.Error {
	for i, p := range paths {
		for _, q := range paths[:i] {
			n := 0
			for n < len(p) && n < len(q) && p[n] == q[n] {
				n++
			}
			if n == len(p) || n == len(q) {
				return invalid("Invalid %s: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: %v, path two: %v", of, q, p)
			}
			if p[n].inList != q[n].inList {
				return invalid("Invalid %s: Two document paths conflict with each other; must remove or rewrite one of these paths; path one: %v, path two: %v", of, q, p)
			}
		}
	}
	return nil
}

// project returns the parts of an item that the paths lead to, in their surroundings; elements of lists move together.
func project(item fields, paths []path) fields {
	if sorted := slices.IsSortedFunc(paths, path.compare); !sorted {
		paths = slices.SortedFunc(slices.Values(paths), path.compare)
	}
	out := fields{}
	for len(paths) > 0 {
		same := 1
		for same < len(paths) && paths[same][0] == paths[0][0] {
			same++
		}
		name := paths[0][0].name
		if v := projectIn(item.get(name), paths[:same], 1); v.exists() {
			out = append(out, field{name, v})
		}
		paths = paths[same:]
	}
	return out
}

// projectIn works on the paths' steps from depth on; the paths are sorted and share all steps before.
func projectIn(v value, paths []path, depth int) value {
	if !v.exists() || len(paths[0]) == depth {
		return v
	}
	var out nested
	for len(paths) > 0 {
		s := paths[0][depth]
		same := 1
		for same < len(paths) && paths[same][depth] == s {
			same++
		}
		if part := projectIn(s.in(v), paths[:same], depth+1); part.exists() {
			if s.inList {
				out.list = append(out.list, part)
			} else {
				out.fields = append(out.fields, field{s.name, part})
			}
		}
		paths = paths[same:]
	}
	if out.list == nil && out.fields == nil {
		return value{}
	}
	return value{kind: v.kind, deep: &out}
}
