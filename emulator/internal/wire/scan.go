package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// JSONDecoder is implemented by requests that know a quicker way from their JSON than encoding/json. It must refuse
// members that it does not know with [UnknownMember].
type JSONDecoder interface {
	DecodeJSON(s *Scanner) error
}

// UnknownMember is the error for a member that a request does not have.
func UnknownMember(name []byte) error { return fmt.Errorf("json: unknown field %q", name) }

// Scanner reads one JSON text from left to right. It is for objects, arrays and strings: what large requests consist of.
type Scanner struct {
	data []byte
	at   int
}

// NewScanner reads data, which must not change meanwhile.
func NewScanner(data []byte) *Scanner { return &Scanner{data: data} }

// Left is how many bytes have not been read.
func (s *Scanner) Left() int { return len(s.data) - s.at }

// peek skips white space and returns the next byte, 0 at the end.
func (s *Scanner) peek() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *Scanner) want(c byte) error {
	if s.peek() != c {
		return s.unexpected(fmt.Sprintf("want %q", c))
	}
	s.at++
	return nil
}

func (s *Scanner) unexpected(want string) error {
	if s.at >= len(s.data) {
		return fmt.Errorf("the JSON ends too early, %s", want)
	}
	return fmt.Errorf("character %q at offset %d of the JSON, %s", s.data[s.at], s.at, want)
}

// Null takes a null, if that is what comes next.
func (s *Scanner) Null() bool {
	if s.peek() == 'n' && len(s.data)-s.at >= 4 && string(s.data[s.at:s.at+4]) == "null" {
		s.at += 4
		return true
	}
	return false
}

// Object reads an object and calls member in front of each value, which member has to read.
func (s *Scanner) Object(member func(name []byte) error) error {
	return s.list('{', '}', func() error {
		name, err := s.String()
		if err != nil {
			return err
		}
		if err := s.want(':'); err != nil {
			return err
		}
		return member(name)
	})
}

// Array reads an array and calls element in front of each value, which element has to read.
func (s *Scanner) Array(element func() error) error { return s.list('[', ']', element) }

func (s *Scanner) list(open, end byte, item func() error) error {
	if err := s.want(open); err != nil {
		return err
	}
	if s.peek() == end {
		s.at++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.at++
		case end:
			s.at++
			return nil
		default:
			return s.unexpected(fmt.Sprintf("want ',' or %q", end))
		}
	}
}

// String reads a string. The bytes may be part of the data.
func (s *Scanner) String() ([]byte, error) {
	if err := s.want('"'); err != nil {
		return nil, err
	}
	start, plain := s.at, true
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == '"':
			raw := s.data[start:s.at]
			s.at++
			if plain {
				return raw, nil
			}
			return unquote(s.data[start-1 : s.at])
		case c == '\\':
			plain = false
			s.at++ // what is escaped cannot end the string
		case c >= utf8.RuneSelf:
			plain = false
		case c < ' ':
			return nil, s.unexpected("which a string may hold only escaped")
		}
		s.at++
	}
	return nil, errors.New("the JSON ends within a string")
}

func unquote(quoted []byte) ([]byte, error) {
	var out string
	if err := json.Unmarshal(quoted, &out); err != nil {
		return nil, err
	}
	return []byte(out), nil
}

// End fails if anything is left.
func (s *Scanner) End() error {
	if s.peek() != 0 || s.at < len(s.data) {
		return s.unexpected("want the end")
	}
	return nil
}
