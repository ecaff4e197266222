package dynamodb

import (
	"encoding/json"
	"slices"
	"strconv"
)

// output is the members of an operation's output, or of a structure within it.
type output map[string]any

// AppendJSON implements wire.JSONAppender: names in order, stored items without a detour through reflection.
func (o output) AppendJSON(b []byte) []byte {
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
		b = append(b, ':')
		b = appendAny(b, o[name])
	}
	return append(b, '}')
}

// MarshalJSON lets an output stand inside what encoding/json writes.
func (o output) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil), nil }

func appendAny(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case float64:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	case fields:
		return v.appendJSON(b)
	case output:
		return v.AppendJSON(b)
	case object:
		return v.appendJSON(b)
	case []any:
		return appendList(b, v)
	case []fields:
		return appendList(b, v)
	case []output:
		return appendList(b, v)
	case []string:
		return appendList(b, v)
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...) // no output member is of a type that encoding/json refuses
	}
	return append(b, encoded...)
}

func (o object) appendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, m.name)
		b = append(b, ':')
		b = appendAny(b, m.value)
	}
	return append(b, '}')
}

func appendList[T any](b []byte, list []T) []byte {
	b = append(b, '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAny(b, e)
	}
	return append(b, ']')
}
