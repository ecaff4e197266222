package dynamodb

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// kind is the type of a value, by the letter that stands for it on the wire.
type kind string

const (
	kindS    kind = "S"
	kindN    kind = "N"
	kindB    kind = "B"
	kindBool kind = "BOOL"
	kindNull kind = "NULL"
	kindSS   kind = "SS"
	kindNS   kind = "NS"
	kindBS   kind = "BS"
	kindL    kind = "L"
	kindM    kind = "M"
)

// longNames are the words that some messages use for a kind.
var longNames = map[kind]string{
	kindS: "STRING", kindN: "NUMBER", kindB: "BINARY", kindBool: "BOOLEAN", kindNull: "NULL", kindL: "LIST", kindM: "MAP",
	kindSS: "STRING_SET", kindNS: "NUMBER_SET", kindBS: "BINARY_SET",
}

func (k kind) isSet() bool { return k == kindSS || k == kindNS || k == kindBS }

// element is the kind of a set's members.
func (k kind) element() kind { return k[:1] }

// known gives the constant for a kind, so that no value holds on to the request that its kind was read from.
func known(k kind) kind {
	for _, c := range []kind{kindS, kindN, kindM, kindSS, kindBool, kindL, kindB, kindNull, kindNS, kindBS} {
		if c == k {
			return c
		}
	}
	return k
}

// maxDepth is how deep lists and maps may nest.
const maxDepth = 32

// value is an attribute value. It is never changed once made, so that rows may share parts. The zero value means "none".
type value struct {
	kind kind
	text string   // S; N in canonical form; B as raw bytes; BOOL as "true" or "false"
	list []string // members of a set, in order and without duplicates, each as text is
	deep *nested  // L and M
}

type nested struct {
	list   []value
	fields fields
}

func (v value) exists() bool { return v.kind != "" }

func stringValue(s string) value { return value{kind: kindS, text: s} }
func numberValue(n string) value { return value{kind: kindN, text: n} }
func listValue(l []value) value  { return value{kind: kindL, deep: &nested{list: l}} }
func mapValue(f fields) value    { return value{kind: kindM, deep: &nested{fields: f}} }

// setValue makes a set of members that are valid; it sorts them in place.
func setValue(k kind, members []string) value {
	slices.SortFunc(members, memberOrder(k))
	return value{kind: k, list: members}
}

func memberOrder(k kind) func(a, b string) int {
	if k == kindNS {
		return compareNumbers
	}
	return strings.Compare
}

// parseValue reads the decoded form of a value, as {"S": "x"}; binaries may come as base64 text or as bytes.
func parseValue(x any, depth int) (value, *wire.Error) {
	o, ok := x.(object)
	if !ok {
		return value{}, wrongType(x, "AttributeValue")
	}
	var v value
	for _, m := range o {
		if m.value == nil {
			continue
		}
		if v.exists() {
			return value{}, invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
		}
		var err *wire.Error
		if v, err = parseKind(kind(m.name), m.value, depth); err != nil {
			return value{}, err
		}
	}
	if !v.exists() {
		return value{}, invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	}
	return v, nil
}

func parseKind(k kind, in any, depth int) (value, *wire.Error) {
	switch k = known(k); k {
	case kindS, kindN, kindB:
		text, err := parseScalar(k, in)
		return value{kind: k, text: text}, err
	case kindBool, kindNull:
		b, ok := in.(bool)
		if !ok {
			return value{}, wrongType(in, "Boolean")
		}
		if k == kindNull {
			if !b {
				return value{}, invalid("One or more parameter values were invalid: Null attribute value types must have the value of true")
			}
			return value{kind: kindNull}, nil
		}
		return boolValue(b), nil
	case kindSS, kindNS, kindBS:
		return parseSet(k, in)
	case kindL, kindM:
		if depth >= maxDepth {
			return value{}, invalid("Nesting Levels have exceeded supported limits")
		}
		if k == kindM {
			f, err := parseFields(in, depth+1)
			return mapValue(f), err
		}
		in, ok := in.([]any)
		if !ok {
			return value{}, wrongType(in, "List")
		}
		l := make([]value, len(in))
		for i, e := range in {
			var err *wire.Error
			if l[i], err = parseValue(e, depth+1); err != nil {
				return value{}, err
			}
		}
		return listValue(l), nil
	}
	return value{}, serialization("AttributeValue has no member %q", string(k))
}

func boolValue(b bool) value {
	if b {
		return value{kind: kindBool, text: "true"}
	}
	return value{kind: kindBool, text: "false"}
}

func parseScalar(k kind, in any) (string, *wire.Error) {
	if raw, ok := in.([]byte); ok && k == kindB {
		return string(raw), nil
	}
	s, ok := in.(string)
	if !ok {
		return "", wrongType(in, "String")
	}
	if k == kindN {
		n, err := canonical(s)
		return strings.Clone(n), err
	}
	if k == kindB {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return "", serialization("'%s' is not valid base64 for a binary value: %v", s, err)
		}
		return string(raw), nil
	}
	return strings.Clone(s), nil // s is part of the whole request's text
}

func parseSet(k kind, in any) (value, *wire.Error) {
	l, ok := in.([]any)
	if !ok {
		return value{}, wrongType(in, "List")
	}
	if len(l) == 0 {
		name := map[kind]string{kindSS: "string", kindNS: "number", kindBS: "binary"}[k]
		return value{}, invalid("One or more parameter values were invalid: An %s set  may not be empty", name)
	}
	members := make([]string, len(l))
	for i, e := range l {
		var err *wire.Error
		if members[i], err = parseScalar(k.element(), e); err != nil {
			return value{}, err
		}
	}
	sent := slices.Clone(members)
	v := setValue(k, members)
	for i := 1; i < len(members); i++ {
		if members[i] == members[i-1] {
			return value{}, invalid("One or more parameter values were invalid: Input collection [%s] contains duplicates.", strings.Join(sent, ", "))
		}
	}
	return v, nil
}

// equal compares by value; numbers and sets have one form each, so comparing forms is enough.
func (v value) equal(w value) bool {
	if v.kind != w.kind || v.text != w.text {
		return false
	}
	switch v.kind {
	case kindSS, kindNS, kindBS:
		return slices.Equal(v.list, w.list)
	case kindL:
		return slices.EqualFunc(v.deep.list, w.deep.list, value.equal)
	case kindM:
		return slices.EqualFunc(v.deep.fields, w.deep.fields, func(a, b field) bool { return a.name == b.name && a.value.equal(b.value) })
	case kindS, kindN, kindB, kindBool, kindNull:
	}
	return true
}

// ordered tells whether < and its like are defined for the kind.
func (k kind) ordered() bool { return k == kindS || k == kindN || k == kindB }

// compare orders two values of one kind; ok is false where there is no order between them.
func (v value) compare(w value) (c int, ok bool) {
	if v.kind != w.kind || !v.kind.ordered() {
		return 0, false
	}
	if v.kind == kindN {
		return compareNumbers(v.text, w.text), true
	}
	return strings.Compare(v.text, w.text), true
}

// contains is the function of that name: a part of a string or binary, a member of a set, an element of a list.
func (v value) contains(w value) bool {
	switch {
	case v.kind == kindS || v.kind == kindB:
		return w.kind == v.kind && strings.Contains(v.text, w.text)
	case v.kind.isSet():
		return w.kind == v.kind.element() && slices.Contains(v.list, w.text)
	case v.kind == kindL:
		return slices.ContainsFunc(v.deep.list, w.equal)
	}
	return false
}

func (v value) beginsWith(w value) bool {
	return v.kind == w.kind && (v.kind == kindS || v.kind == kindB) && strings.HasPrefix(v.text, w.text)
}

// count is what the function size answers; ok is false for kinds that have no size.
func (v value) count() (n int, ok bool) {
	switch v.kind {
	case kindS:
		return len([]rune(v.text)), true
	case kindB:
		return len(v.text), true
	case kindSS, kindNS, kindBS:
		return len(v.list), true
	case kindL:
		return len(v.deep.list), true
	case kindM:
		return len(v.deep.fields), true
	case kindN, kindBool, kindNull:
	}
	return 0, false
}

// size is how many bytes the value counts for, by the rules the service documents.
func (v value) size() int {
	n := 0
	switch v.kind {
	case kindS, kindB:
		return len(v.text)
	case kindN:
		return numberSize(v.text)
	case kindBool, kindNull:
		return 1
	case kindNS:
		for _, m := range v.list {
			n += numberSize(m)
		}
	case kindSS, kindBS:
		for _, m := range v.list {
			n += len(m)
		}
	case kindL:
		n = 3
		for _, e := range v.deep.list {
			n += 1 + e.size()
		}
	case kindM:
		n = 3 + len(v.deep.fields) + v.deep.fields.size()
	}
	return n
}

// numberSize is one byte for two significant digits, one more, and one for a minus sign.
func numberSize(canonical string) int {
	n := mustNumber(canonical)
	size := (len(n.digits)+1)/2 + 1
	if n.neg {
		size++
	}
	return size
}

// appendJSON writes the value as {"S":"x"}.
func (v value) appendJSON(b []byte) []byte {
	b = append(b, `{"`...)
	b = append(b, v.kind...)
	b = append(b, `":`...)
	switch v.kind {
	case kindS, kindN, kindB:
		b = appendScalar(b, v.kind, v.text)
	case kindBool:
		b = append(b, v.text...)
	case kindNull:
		b = append(b, "true"...)
	case kindSS, kindNS, kindBS:
		b = append(b, '[')
		for i, m := range v.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendScalar(b, v.kind.element(), m)
		}
		b = append(b, ']')
	case kindL:
		b = append(b, '[')
		for i, e := range v.deep.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.appendJSON(b)
		}
		b = append(b, ']')
	case kindM:
		b = v.deep.fields.appendJSON(b)
	}
	return append(b, '}')
}

func appendScalar(b []byte, k kind, text string) []byte {
	if k == kindB {
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, []byte(text))
		return append(b, '"')
	}
	return appendString(b, text)
}

// appendString writes plain ASCII directly and leaves the rest to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string always has a form
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
