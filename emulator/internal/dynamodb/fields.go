package dynamodb

import (
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// field is one named value.
type field struct {
	name  string
	value value
}

// fields are the attributes of an item or the entries of a map, sorted by name: smaller than a Go map, copied with one
// move of memory, and searched as fast at the sizes that occur. Like values they are never changed once made.
type fields []field

func parseFields(x any, depth int) (fields, *wire.Error) {
	o, ok := x.(object)
	if !ok {
		return nil, wrongType(x, "Map")
	}
	f := make(fields, len(o))
	for i, m := range o { // which is sorted
		v, err := parseValue(m.value, depth)
		if err != nil {
			return nil, err
		}
		f[i] = field{strings.Clone(m.name), v}
	}
	return f, nil
}

func (f fields) find(name string) (int, bool) {
	return slices.BinarySearchFunc(f, name, func(e field, name string) int { return strings.Compare(e.name, name) })
}

// get returns the named value, or none.
func (f fields) get(name string) value {
	if i, ok := f.find(name); ok {
		return f[i].value
	}
	return value{}
}

// with returns a copy in which name has the value v.
func (f fields) with(name string, v value) fields {
	i, ok := f.find(name)
	out := make(fields, 0, len(f)+1)
	out = append(append(out, f[:i]...), field{name, v})
	if ok {
		i++
	}
	return append(out, f[i:]...)
}

// without returns a copy that lacks name; f itself if it does so already.
func (f fields) without(name string) fields {
	i, ok := f.find(name)
	if !ok {
		return f
	}
	return slices.Concat(f[:i], f[i+1:])
}

// only returns the fields of these names that exist.
func (f fields) only(names ...string) fields {
	var out fields
	for _, n := range names {
		if v := f.get(n); v.exists() {
			out = out.with(n, v)
		}
	}
	return out
}

func (f fields) size() int {
	n := 0
	for _, e := range f {
		n += len(e.name) + e.value.size()
	}
	return n
}

func (f fields) appendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, e := range f {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, e.name)
		b = append(b, ':')
		b = e.value.appendJSON(b)
	}
	return append(b, '}')
}

// MarshalJSON writes the fields as the wire has them.
func (f fields) MarshalJSON() ([]byte, error) { return f.appendJSON(make([]byte, 0, 64*len(f)+2)), nil }
