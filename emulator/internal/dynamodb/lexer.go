package dynamodb

import (
	"strings"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// tokenKind tells apart the words of an expression.
type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenName  // #placeholder
	tokenValue // :placeholder
	tokenInt
	tokenSymbol // ( ) [ ] . , = <> < <= > >= + -
)

type token struct {
	kind tokenKind
	text string
	at   int
}

// is tells whether the token is the keyword w, in any case of letters.
func (t token) is(w string) bool { return t.kind == tokenWord && strings.EqualFold(t.text, w) }

func (t token) symbol(s string) bool { return t.kind == tokenSymbol && t.text == s }

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// maxExpression is how long an expression may be, in bytes.
const maxExpression = 4096

// lex splits an expression into tokens; the last has kind tokenEnd.
func lex(of, s string) ([]token, *wire.Error) {
	if len(s) > maxExpression {
		return nil, invalid("Invalid %s: Expression size has exceeded the maximum allowed size; expression size: %d", of, len(s))
	}
	var tokens []token
	for i := 0; i < len(s); {
		start, c := i, s[i]
		i++
		kind := tokenSymbol
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case isLetter(c):
			kind = tokenWord
		case c == '#':
			kind = tokenName
		case c == ':':
			kind = tokenValue
		case isDigit(c):
			kind = tokenInt
		case c == '<' && i < len(s) && (s[i] == '=' || s[i] == '>'), c == '>' && i < len(s) && s[i] == '=':
			i++
		case strings.IndexByte("()[].,=<>+-", c) < 0:
			return nil, syntax(of, s, token{tokenSymbol, s[start:i], start})
		}
		if kind != tokenSymbol {
			for i < len(s) && (isDigit(s[i]) || kind != tokenInt && isLetter(s[i])) {
				i++
			}
			if i == start+1 && (kind == tokenName || kind == tokenValue) {
				return nil, syntax(of, s, token{tokenSymbol, s[start:i], start})
			}
		}
		tokens = append(tokens, token{kind, s[start:i], start})
	}
	return append(tokens, token{tokenEnd, "<EOF>", len(s)}), nil
}

// syntax words a syntax error as the service does: the token, and a piece of the text around it.
func syntax(of, s string, t token) *wire.Error {
	low, high := max(0, t.at-10), min(len(s), t.at+len(t.text)+10)
	if t.kind == tokenEnd {
		high = len(s)
	}
	return invalid(`Invalid %s: Syntax error; token: "%s", near: "%s"`, of, t.text, s[low:high])
}
