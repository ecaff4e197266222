package dynamodb

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// Bounds of a number: 38 significant digits, magnitude 1E-130 to 9.9…E+125. In the form 0.digits × 10^exp
// the exponents below are those of the smallest and the largest.
const (
	maxDigits = 38
	minExp    = -129
	maxExp    = 126
)

// number is ±0.digits × 10^exp; digits has no zeros at either end and is empty for zero.
type number struct {
	neg    bool
	digits string
	exp    int
}

// parseNumber reads what a client may send: sign, decimal point and exponent allowed.
func parseNumber(s string) (number, *wire.Error) {
	bad := func() (number, *wire.Error) {
		if s == "" {
			return number{}, invalid("The parameter cannot be converted to a numeric value")
		}
		return number{}, invalid("The parameter cannot be converted to a numeric value: %s", s)
	}
	var n number
	rest := s
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		n.neg, rest = rest[0] == '-', rest[1:]
	}
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		e, err := strconv.Atoi(rest[i+1:])
		if err != nil || e > 1<<20 || e < -1<<20 {
			return bad()
		}
		exponent = e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole == "" && fraction == "" {
		return bad()
	}
	digits := whole + fraction
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return bad()
		}
	}
	n.exp = exponent + len(whole)
	trimmed := strings.TrimLeft(digits, "0")
	n.exp -= len(digits) - len(trimmed)
	n.digits = strings.TrimRight(trimmed, "0")
	return n.checked()
}

// checked gives zero its one form and refuses what the service cannot store.
func (n number) checked() (number, *wire.Error) {
	switch {
	case n.digits == "":
		return number{}, nil
	case n.exp > maxExp:
		return number{}, invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case n.exp < minExp:
		return number{}, invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	case len(n.digits) > maxDigits:
		return number{}, invalid("Attempting to store more than 38 significant digits in a Number")
	}
	return n, nil
}

// String is the canonical text: no exponent, no needless zeros. Equal numbers have equal texts.
func (n number) String() string {
	var s string
	switch {
	case n.digits == "":
		return "0"
	case n.exp <= 0:
		s = "0." + strings.Repeat("0", -n.exp) + n.digits
	case n.exp >= len(n.digits):
		s = n.digits + strings.Repeat("0", n.exp-len(n.digits))
	default:
		s = n.digits[:n.exp] + "." + n.digits[n.exp:]
	}
	if n.neg {
		return "-" + s
	}
	return s
}

// canonical is the text under which a number is stored.
func canonical(s string) (string, *wire.Error) {
	if isCanonicalInt(s) {
		return s, nil
	}
	n, err := parseNumber(s)
	if err != nil {
		return "", err
	}
	return n.String(), nil
}

// isCanonicalInt spares the common case, a counter, the general parse.
func isCanonicalInt(s string) bool {
	if len(s) == 0 || len(s) > 18 || (s[0] == '0' && len(s) > 1) {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// mustNumber reads a stored text, which has been checked before.
func mustNumber(canonical string) number {
	n, _ := parseNumber(canonical)
	return n
}

func compareNumbers(a, b string) int {
	if a == b {
		return 0
	}
	if isCanonicalInt(a) && isCanonicalInt(b) {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	}
	x, y := mustNumber(a), mustNumber(b)
	if c := x.sign() - y.sign(); c != 0 {
		return c
	}
	c := x.exp - y.exp
	if c == 0 {
		c = strings.Compare(x.digits, y.digits)
	}
	if x.neg {
		return -c
	}
	return c
}

func (n number) sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.neg:
		return -1
	}
	return 1
}

// addNumbers returns a+b, or a−b, both canonical.
func addNumbers(a, b string, subtract bool) (string, *wire.Error) {
	if isCanonicalInt(a) && isCanonicalInt(b) {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		if subtract {
			y = -y
		}
		return strconv.FormatInt(x+y, 10), nil // below 2e18: cannot overflow
	}
	x, y := mustNumber(a), mustNumber(b)
	if subtract {
		y.neg = !y.neg
	}
	low := min(x.exp-len(x.digits), y.exp-len(y.digits)) // the power of ten that both are whole multiples of
	sum := new(big.Int).Add(x.scaled(low), y.scaled(low))
	digits := new(big.Int).Abs(sum).String()
	n := number{neg: sum.Sign() < 0, digits: strings.TrimRight(digits, "0"), exp: low + len(digits)}
	if sum.Sign() == 0 {
		n = number{}
	}
	n, err := n.checked()
	if err != nil {
		return "", err
	}
	return n.String(), nil
}

// scaled is n / 10^low, which the caller knows to be whole.
func (n number) scaled(low int) *big.Int {
	if n.digits == "" {
		return new(big.Int)
	}
	v, _ := new(big.Int).SetString(n.digits+strings.Repeat("0", n.exp-len(n.digits)-low), 10)
	if n.neg {
		v.Neg(v)
	}
	return v
}

// sortKey gives bytes that order as the numbers do.
func (n number) sortKey() string {
	if n.digits == "" {
		return "\x80"
	}
	e := n.exp + 0x4000
	b := append([]byte{0xC0, byte(e >> 8), byte(e)}, n.digits...)
	if !n.neg {
		return string(b)
	}
	b = append(b, 0) // ends a short digit string above its continuations once complemented
	for i := range b {
		b[i] = ^b[i]
	}
	return string(b) // starts with 0x3F, below zero's 0x80
}
