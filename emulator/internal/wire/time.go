package wire

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Time is a timestamp as JSON protocols write it: seconds since 1970, with decimals for the milliseconds.
type Time struct{ time.Time }

// Millis is the time of Unix milliseconds.
func Millis(ms int64) Time { return Time{time.UnixMilli(ms)} }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return AppendMillis(nil, t.UnixMilli()), nil }

// UnmarshalJSON implements json.Unmarshaler; it rounds to the millisecond, which is all that the services keep.
func (t *Time) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(seconds) > 1e12 {
		return fmt.Errorf("%s is not a timestamp, want seconds since 1970", text)
	}
	t.Time = time.UnixMilli(int64(math.Round(seconds * 1000)))
	return nil
}

// AppendMillis writes Unix milliseconds as seconds.
func AppendMillis(to []byte, millis int64) []byte {
	if millis < 0 {
		return strconv.AppendFloat(to, float64(millis)/1000, 'f', 3, 64)
	}
	to = strconv.AppendInt(to, millis/1000, 10)
	m := millis % 1000
	return append(to, '.', byte('0'+m/100), byte('0'+m/10%10), byte('0'+m%10))
}
