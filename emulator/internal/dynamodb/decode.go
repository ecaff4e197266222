package dynamodb

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// object is a decoded structure or map: its members by name, each once. Nearly all objects of a request are attribute values
// with a single member, for which a Go map would take some hundred bytes and most of a request's time.
type object []member

type member struct {
	name  string
	value any // nil, bool, float64, string, []byte (not from JSON), []any, object
}

func (o object) get(name string) any {
	for i := range o {
		if o[i].name == name {
			return o[i].value
		}
	}
	return nil
}

// with returns a copy in which the member of that name, which must exist, has the value v.
func (o object) with(name string, v any) object {
	out := slices.Clone(o)
	for i := range out {
		if out[i].name == name {
			out[i].value = v
		}
	}
	return out
}

// arrange sorts the members and refuses a name that comes twice.
func (o object) arrange() error {
	byName := func(a, b member) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(o, byName) {
		slices.SortFunc(o, byName)
	}
	for i := 1; i < len(o); i++ {
		if o[i].name == o[i-1].name {
			return fmt.Errorf("member %q comes twice", o[i].name)
		}
	}
	return nil
}

// decode reads a request's body, an object. Strings of JSON bodies share the memory of the body: what is stored is cloned.
func decode(codec wire.Codec, body []byte) (any, error) {
	if _, ok := codec.(wire.JSON); ok {
		d := decoder{text: string(body)}
		return d.document()
	}
	var v any
	if err := codec.Unmarshal(body, &v); err != nil {
		return nil, err
	}
	return arranged(v)
}

// arranged replaces the maps that a codec made by objects.
func arranged(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		o := make(object, 0, len(v))
		for name, e := range v {
			inner, err := arranged(e)
			if err != nil {
				return nil, err
			}
			o = append(o, member{name, inner})
		}
		return o, o.arrange()
	case []any:
		for i, e := range v {
			inner, err := arranged(e)
			if err != nil {
				return nil, err
			}
			v[i] = inner
		}
	}
	return v, nil
}

// decoder reads JSON, as RFC 8259 has it.
type decoder struct {
	text string
	pos  int
}

// maxNesting bounds the depth of a document. The deepest request that the service takes is some 80 deep: 32 levels of
// attribute values are two levels of JSON each.
const maxNesting = 200

var errEnd = errors.New("unexpected end of JSON")

func (d *decoder) document() (any, error) {
	d.space()
	if d.pos == len(d.text) {
		return object{}, nil // an empty body is an empty input
	}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.pos < len(d.text) {
		return nil, d.unexpected()
	}
	return v, nil
}

func (d *decoder) space() {
	for d.pos < len(d.text) {
		switch d.text[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek is the next byte that is not white space, 0 at the end.
func (d *decoder) peek() byte {
	d.space()
	if d.pos == len(d.text) {
		return 0
	}
	return d.text[d.pos]
}

func (d *decoder) unexpected() error {
	if d.pos >= len(d.text) {
		return errEnd
	}
	return fmt.Errorf("unexpected %q at byte %d of the JSON", d.text[d.pos], d.pos)
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("more than %d levels of JSON", maxNesting)
	}
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.list(depth)
	case c == '"':
		return d.str()
	case c == '-' || isDigit(c):
		return d.number()
	case d.word("true"):
		return true, nil
	case d.word("false"):
		return false, nil
	case d.word("null"):
		return nil, nil
	}
	return nil, d.unexpected()
}

func (d *decoder) word(w string) bool {
	if strings.HasPrefix(d.text[d.pos:], w) {
		d.pos += len(w)
		return true
	}
	return false
}

func (d *decoder) object(depth int) (any, error) {
	d.pos++
	if d.peek() == '}' {
		d.pos++
		return object{}, nil
	}
	o := make(object, 0, 1)
	for {
		if d.peek() != '"' {
			return nil, d.unexpected()
		}
		name, err := d.str()
		if err != nil {
			return nil, err
		}
		if d.peek() != ':' {
			return nil, d.unexpected()
		}
		d.pos++
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name, v})
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return o, o.arrange()
		default:
			return nil, d.unexpected()
		}
	}
}

func (d *decoder) list(depth int) (any, error) {
	d.pos++
	l := []any{}
	if d.peek() == ']' {
		d.pos++
		return l, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return l, nil
		default:
			return nil, d.unexpected()
		}
	}
}

// str reads a string. One without escapes is part of the text; the others are rare, and left to encoding/json.
func (d *decoder) str() (string, error) {
	start := d.pos
	plain := true
	for d.pos++; d.pos < len(d.text); d.pos++ {
		switch c := d.text[d.pos]; {
		case c == '"':
			d.pos++
			if plain {
				return d.text[start+1 : d.pos-1], nil
			}
			var s string
			err := json.Unmarshal([]byte(d.text[start:d.pos]), &s)
			return s, err
		case c == '\\':
			plain = false
			d.pos++ // whatever follows does not end the string
		case c < ' ':
			return "", d.unexpected()
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(d.text[d.pos:])
			if r == utf8.RuneError && size == 1 {
				return "", fmt.Errorf("byte %d of the JSON is not UTF-8", d.pos)
			}
			d.pos += size - 1
		}
	}
	return "", errEnd
}

func (d *decoder) number() (any, error) {
	start := d.pos
	for d.pos < len(d.text) && strings.IndexByte("+-.eE0123456789", d.text[d.pos]) >= 0 {
		d.pos++
	}
	text := d.text[start:d.pos]
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%q at byte %d of the JSON is not a number", text, start)
	}
	return f, nil
}
