package config

import (
	"errors"
	"strings"
)

// streamOfARN returns NAME of arn:aws:kinesis:REGION:ACCOUNT:stream/NAME. The error says what is allowed; the caller names
// the value.
func streamOfARN(s string) (string, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") || parts[2] != "kinesis" || parts[3] == "" {
		return "", errors.New("arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
	}
	if account := parts[4]; len(account) != 12 || strings.Trim(account, "0123456789") != "" {
		return "", errors.New("an account of 12 digits in arn:aws:kinesis:REGION:ACCOUNT:stream/NAME")
	}
	kind, name, _ := strings.Cut(parts[5], "/")
	if kind != "stream" || len(name) < 1 || len(name) > 128 || !isName(name) {
		return "", errors.New("stream/NAME at the end, NAME of 1 to 128 characters of a-z, A-Z, 0-9, '_', '.', '-'")
	}
	return name, nil
}
