package put

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// line is one line of input, without its end.
type line struct {
	number int // from 1
	text   []byte
	length int // of the whole line; more than len(text) if it was longer than the limit
}

// lineReader reads lines without keeping more of one than a limit.
type lineReader struct {
	in    *bufio.Reader
	limit int
	count int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next line in memory of its own, or io.EOF. Of a line longer than the limit it returns the beginning
// and the whole length.
func (l *lineReader) next() (line, error) {
	out := line{number: l.count + 1}
	for {
		part, err := l.in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && out.length+len(part) == 0 {
			return line{}, io.EOF
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return line{}, err
		}
		out.length += len(part)
		if room := l.limit + len("\r\n") - len(out.text); room > 0 {
			out.text = append(out.text, part[:min(room, len(part))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.count++
		if out.length == len(out.text) {
			out.text = bytes.TrimSuffix(bytes.TrimSuffix(out.text, []byte("\n")), []byte("\r"))
			out.length = len(out.text)
		} else if err == nil {
			out.length--
		}
		return out, nil
	}
}
