package hashkey

import "fmt"

// Range is a closed interval of hash keys: both ends belong to it. The zero Range is "not known", as in the row of a lease
// that an early KCL made; Ranges are comparable with ==.
type Range struct {
	Start, End Key
	Known      bool
}

// Full returns the range of the whole ring.
func Full() Range { return Range{End: Max, Known: true} }

// ParseRange reads both ends in decimal. It fails if one of them is no key, or if start is above end; the error names
// what is wrong.
func ParseRange(start, end string) (Range, error) {
	s, err := Parse(start)
	if err != nil {
		return Range{}, fmt.Errorf("start of range: %w", err)
	}
	e, err := Parse(end)
	if err != nil {
		return Range{}, fmt.Errorf("end of range: %w", err)
	}
	if s.Compare(e) > 0 {
		return Range{}, fmt.Errorf("start of range is %s, want at most its end %s", s, e)
	}
	return Range{Start: s, End: e, Known: true}, nil
}

// Contains reports whether k lies in r. A range that is not known contains nothing.
func (r Range) Contains(k Key) bool {
	return r.Known && r.Start.Compare(k) <= 0 && k.Compare(r.End) <= 0
}

// Adjacent reports whether next begins with the key after r's end.
func (r Range) Adjacent(next Range) bool {
	after, ok := r.End.Next()
	return ok && r.Known && next.Known && after == next.Start
}

// Overlaps reports whether some key lies in both ranges.
func (r Range) Overlaps(other Range) bool {
	return r.Known && other.Known && r.Start.Compare(other.End) <= 0 && other.Start.Compare(r.End) <= 0
}

// Compare orders ranges by their starts, then by their ends; ranges that are not known come first.
func (r Range) Compare(other Range) int {
	switch {
	case r.Known != other.Known:
		if other.Known {
			return -1
		}
		return 1
	case !r.Known:
		return 0
	}
	if c := r.Start.Compare(other.Start); c != 0 {
		return c
	}
	return r.End.Compare(other.End)
}

// String returns both ends in decimal, for people: "0-127", or "unknown".
func (r Range) String() string {
	if !r.Known {
		return "unknown"
	}
	return r.Start.String() + "-" + r.End.String()
}
