package wire

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/smithy-go/encoding/cbor"
)

// CBOR is the binary encoding that the AWS SDK for Java speaks with Kinesis unless it is told otherwise. Members have the names
// that they have in JSON; bytes are bytes, and a [Time] is whole milliseconds since 1970 under tag 1.
type CBOR struct{}

// ContentType is the media type of the dialect, which is not that of Smithy's newer RPC protocol.
func (CBOR) ContentType() string { return "application/x-amz-cbor-1.1" }

// Shaper is implemented by answers whose members are not fields of their own; Shape is a struct that has them.
type Shaper interface {
	Shape() any
}

// Unmarshal decodes one CBOR map into the struct that v points to; an empty body counts as an empty map.
func (CBOR) Unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	decoded, err := cbor.Decode(data)
	if err != nil {
		return err
	}
	if _, ok := decoded.(cbor.Map); !ok {
		return fmt.Errorf("the request is a CBOR %s, want a map", kindOf(decoded))
	}
	return fromCBOR(decoded, reflect.ValueOf(v).Elem(), "")
}

// Marshal encodes v; nil is an empty body.
func (CBOR) Marshal(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	encoded, err := toCBOR(reflect.ValueOf(v))
	if err != nil {
		return nil, err
	}
	return cbor.Encode(encoded), nil
}

// members lists the fields of a struct that are members, those of embedded structs too, as encoding/json does: name and
// whether a zero value is left out.
func members(t reflect.Type, each func(name string, omitZero bool, index []int)) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		each(name, options == "omitempty", f.Index)
	}
}

func toCBOR(v reflect.Value) (cbor.Value, error) {
	if !v.IsValid() {
		return &cbor.Nil{}, nil
	}
	switch own := v.Interface().(type) {
	case Shaper:
		return toCBOR(reflect.ValueOf(own.Shape()))
	case Time:
		return &cbor.Tag{ID: 1, Value: signed(own.UnixMilli())}, nil
	case []byte:
		if own == nil {
			return &cbor.Nil{}, nil
		}
		return cbor.Slice(own), nil
	}
	switch v.Kind() { //nolint:exhaustive // answers have no others
	case reflect.String:
		return cbor.String(v.String()), nil
	case reflect.Bool:
		return cbor.Bool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed(v.Int()), nil
	case reflect.Float32, reflect.Float64:
		return cbor.Float64(v.Float()), nil
	case reflect.Pointer, reflect.Interface:
		return toCBOR(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return &cbor.Nil{}, nil
		}
		list := make(cbor.List, v.Len())
		for i := range list {
			var err error
			if list[i], err = toCBOR(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	case reflect.Map:
		return mapToCBOR(v)
	case reflect.Struct:
		return structToCBOR(v)
	default:
		return nil, fmt.Errorf("a %s has no CBOR form here", v.Type())
	}
}

func mapToCBOR(v reflect.Value) (cbor.Value, error) {
	if v.IsNil() {
		return &cbor.Nil{}, nil
	}
	m := cbor.Map{}
	for it := v.MapRange(); it.Next(); {
		inner, err := toCBOR(it.Value())
		if err != nil {
			return nil, err
		}
		m[it.Key().String()] = inner
	}
	return m, nil
}

func structToCBOR(v reflect.Value) (cbor.Value, error) {
	m := cbor.Map{}
	var fault error
	members(v.Type(), func(name string, omitZero bool, index []int) {
		f := v.FieldByIndex(index)
		if omitZero && f.IsZero() || fault != nil {
			return
		}
		m[name], fault = toCBOR(f)
	})
	return m, fault
}

func signed(n int64) cbor.Value {
	if n < 0 {
		return cbor.NegInt(-uint64(n))
	}
	return cbor.Uint(n)
}

// fromCBOR fills the settable value to; at names it in errors.
func fromCBOR(from cbor.Value, to reflect.Value, at string) error {
	switch from.(type) {
	case *cbor.Nil, *cbor.Undefined:
		return nil
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		return fromCBOR(from, to.Elem(), at)
	}
	if to.Type() == reflect.TypeFor[Time]() {
		return timeFromCBOR(from, to.Addr().Interface().(*Time), at)
	}
	switch v := from.(type) {
	case cbor.Slice:
		if to.Type() == reflect.TypeFor[[]byte]() {
			to.SetBytes(append([]byte{}, v...)) // what is stored must not keep the request
			return nil
		}
	case cbor.String:
		if to.Kind() == reflect.String {
			to.SetString(string(v))
			return nil
		}
	case cbor.Bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(bool(v))
			return nil
		}
	case cbor.Uint, cbor.NegInt:
		if n, ok := whole(v); ok && to.CanInt() && !to.OverflowInt(n) {
			to.SetInt(n)
			return nil
		}
	case cbor.List:
		if to.Kind() == reflect.Slice && to.Type() != reflect.TypeFor[[]byte]() {
			return listFromCBOR(v, to, at)
		}
	case cbor.Map:
		switch to.Kind() { //nolint:exhaustive // nothing else has members
		case reflect.Struct:
			return structFromCBOR(v, to, at)
		case reflect.Map:
			return mapFromCBOR(v, to, at)
		}
	}
	return fmt.Errorf("member %s cannot be a CBOR %s, want %s", at, kindOf(from), to.Type())
}

func timeFromCBOR(from cbor.Value, to *Time, at string) error {
	v := from
	if tag, ok := from.(*cbor.Tag); ok && tag.ID == 1 {
		v = tag.Value
	}
	if millis, ok := whole(v); ok {
		*to = Millis(millis)
		return nil
	}
	return fmt.Errorf("member %s cannot be a CBOR %s, want milliseconds since 1970 under tag 1", at, kindOf(from))
}

func listFromCBOR(from cbor.List, to reflect.Value, at string) error {
	to.Set(reflect.MakeSlice(to.Type(), len(from), len(from)))
	for i, e := range from {
		if err := fromCBOR(e, to.Index(i), fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func mapFromCBOR(from cbor.Map, to reflect.Value, at string) error {
	to.Set(reflect.MakeMapWithSize(to.Type(), len(from)))
	for name, e := range from {
		inner := reflect.New(to.Type().Elem()).Elem()
		if err := fromCBOR(e, inner, at+"."+name); err != nil {
			return err
		}
		to.SetMapIndex(reflect.ValueOf(name), inner)
	}
	return nil
}

func structFromCBOR(from cbor.Map, to reflect.Value, at string) error {
	fields := map[string][]int{}
	members(to.Type(), func(name string, _ bool, index []int) { fields[name] = index })
	for name, e := range from {
		index, known := fields[name]
		if !known {
			return UnknownMember([]byte(name))
		}
		if err := fromCBOR(e, to.FieldByIndex(index), strings.TrimPrefix(at+"."+name, ".")); err != nil {
			return err
		}
	}
	return nil
}

// whole is the value of an integer that an int64 holds.
func whole(v cbor.Value) (int64, bool) {
	switch v := v.(type) {
	case cbor.Uint:
		return int64(v), v <= 1<<63-1
	case cbor.NegInt: // holds the absolute value
		return -int64(v), v >= 1 && v <= 1<<63-1
	}
	return 0, false
}

// kindOf names what a value is, for errors.
func kindOf(v cbor.Value) string {
	name := strings.ToLower(reflect.Indirect(reflect.ValueOf(v)).Type().Name())
	switch v := v.(type) {
	case cbor.Slice:
		return "byte string"
	case *cbor.Tag:
		return fmt.Sprintf("tag %d", v.ID)
	case cbor.Uint, cbor.NegInt:
		return "integer"
	}
	return name
}
