package checkpoint

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// ExtendedSequenceNumber is a place in a shard: a record's sequence number and, inside a KPL aggregate, the user
// record's index. It is a plain value; the zero value is no place and comes before every place.
// (KCL: ExtendedSequenceNumber)
type ExtendedSequenceNumber struct {
	SequenceNumber    string // decimal digits, or one of the sentinels TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END
	SubSequenceNumber int64  // index of the user record inside an aggregate; 0 otherwise and for sentinels
}

// The sentinels: places that are no record. The first three say where to start reading a shard that has no checkpoint yet,
// ShardEnd says that the shard was read to its end.
var (
	TrimHorizon = ExtendedSequenceNumber{SequenceNumber: "TRIM_HORIZON"}
	Latest      = ExtendedSequenceNumber{SequenceNumber: "LATEST"}
	AtTimestamp = ExtendedSequenceNumber{SequenceNumber: "AT_TIMESTAMP"}
	ShardEnd    = ExtendedSequenceNumber{SequenceNumber: "SHARD_END"}
)

// Classes of places in their order. Within a class numbers compare by value, everything else is one place, except for
// what no row should hold, which compares as text so that the order is total.
const (
	classNone = iota
	classAtTimestamp
	classTrimHorizon
	classLatest
	classNumber
	classShardEnd
)

// startsWithDigit takes for a number whatever starts like one; Parse has looked at the other bytes when it came in.
func startsWithDigit(s string) bool { return s != "" && s[0]-'0' <= 9 }

func classOf(s string) int {
	if startsWithDigit(s) {
		return classNumber
	}
	switch s {
	case "AT_TIMESTAMP":
		return classAtTimestamp
	case "TRIM_HORIZON":
		return classTrimHorizon
	case "LATEST":
		return classLatest
	case "SHARD_END":
		return classShardEnd
	}
	return classNone
}

// Compare returns a negative number if a comes before b, a positive one if a comes after b, and 0 if they are the same
// place: AT_TIMESTAMP < TRIM_HORIZON < LATEST < every number < SHARD_END; numbers by value, however many digits and leading
// zeros they have; then the sub-sequence numbers. It does not allocate. Values that [ExtendedSequenceNumber.Check] refuses
// have an order too, but no meaningful one; the zero value comes first.
func (a ExtendedSequenceNumber) Compare(b ExtendedSequenceNumber) int {
	var c int
	switch x, y := a.SequenceNumber, b.SequenceNumber; {
	case !startsWithDigit(x) || !startsWithDigit(y):
		if c = classOf(x) - classOf(y); c == 0 {
			c = strings.Compare(x, y) // not 0 only for what Check refuses
		}
	case len(x) == len(y): // as nearly always: then text and value have the same order, leading zeros or not
		c = strings.Compare(x, y)
	default:
		c = compareDigits(x, y)
	}
	if c != 0 {
		return c
	}
	return cmp.Compare(a.SubSequenceNumber, b.SubSequenceNumber)
}

// compareDigits compares decimal numbers of any length by value: without leading zeros the longer one is larger, and
// numbers of equal length are ordered as text.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// IsSentinel reports whether a is one of TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END, whatever its sub-sequence number.
func (a ExtendedSequenceNumber) IsSentinel() bool {
	c := classOf(a.SequenceNumber)
	return c != classNone && c != classNumber
}

// IsShardEnd reports whether a is SHARD_END, whatever its sub-sequence number.
func (a ExtendedSequenceNumber) IsShardEnd() bool { return a.SequenceNumber == ShardEnd.SequenceNumber }

// IsZero reports whether a is the zero value, which is no place.
func (a ExtendedSequenceNumber) IsZero() bool { return a == ExtendedSequenceNumber{} }

// String is for people: the sequence number, followed by a slash and the sub-sequence number unless that is 0.
// [Parse] reads the part before the slash.
func (a ExtendedSequenceNumber) String() string {
	if a.SubSequenceNumber == 0 {
		if a.SequenceNumber == "" {
			return "none"
		}
		return a.SequenceNumber
	}
	return a.SequenceNumber + "/" + strconv.FormatInt(a.SubSequenceNumber, 10)
}

// Parse reads a sequence number as the lease table and Kinesis write it: decimal digits, or the name of a sentinel. The
// result has sub-sequence number 0 and keeps the text as it is, leading zeros included. The error names the value and says
// what is allowed.
func Parse(s string) (ExtendedSequenceNumber, error) {
	if err := checkSequenceNumber(s); err != nil {
		return ExtendedSequenceNumber{}, err
	}
	return ExtendedSequenceNumber{SequenceNumber: s}, nil
}

// Check returns an error unless a is a place: its sequence number is one that [Parse] reads, and its sub-sequence number is
// not negative, and 0 if it is a sentinel.
func (a ExtendedSequenceNumber) Check() error {
	if err := checkSequenceNumber(a.SequenceNumber); err != nil {
		return err
	}
	switch {
	case a.SubSequenceNumber < 0:
		return fmt.Errorf("sub-sequence number of %s is %d, want 0 or more", abbreviate(a.SequenceNumber), a.SubSequenceNumber)
	case a.SubSequenceNumber != 0 && a.IsSentinel():
		return fmt.Errorf("sub-sequence number of %s is %d, want 0", a.SequenceNumber, a.SubSequenceNumber)
	}
	return nil
}

func checkSequenceNumber(s string) error {
	switch classOf(s) {
	case classNumber:
		for i := range len(s) {
			if s[i]-'0' > 9 {
				return notASequenceNumber(s)
			}
		}
	case classNone:
		return notASequenceNumber(s)
	}
	return nil
}

func notASequenceNumber(s string) error {
	return fmt.Errorf("sequence number is %s, want decimal digits, TRIM_HORIZON, LATEST, AT_TIMESTAMP or SHARD_END",
		strconv.Quote(abbreviate(s)))
}

// abbreviate keeps an error readable when the value is not; sequence numbers have at most 129 digits.
func abbreviate(s string) string {
	const most = 140
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
}
