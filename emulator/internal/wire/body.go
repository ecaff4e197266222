package wire

import (
	"bytes"
	"io"
	"net/http"
)

// Body is a request body that was read before: a reader for whoever wants one, the bytes for [ReadBody].
type Body struct {
	bytes.Reader
	raw []byte
}

// NewBody makes a request body of bytes that nobody changes any more.
func NewBody(raw []byte) *Body {
	b := &Body{raw: raw}
	b.Reset(raw)
	return b
}

// Close does nothing.
func (b *Body) Close() error { return nil }

// ReadBody gives a request's whole body, without a copy if it is a [Body].
func ReadBody(r *http.Request) ([]byte, error) {
	switch b := r.Body.(type) {
	case nil:
		return nil, nil
	case *Body:
		return b.raw, nil
	}
	if r.ContentLength <= 0 {
		return io.ReadAll(r.Body)
	}
	// Read, not io.Copy: the SDK's body has a WriteTo that claims to be at its end once the SDK has closed it.
	raw := make([]byte, min(r.ContentLength, maxPresize))
	n, err := io.ReadFull(r.Body, raw)
	if err != nil || r.ContentLength <= maxPresize {
		return raw[:n], err
	}
	rest, err := io.ReadAll(r.Body)
	return append(raw, rest...), err
}

// maxPresize bounds what a Content-Length alone makes us allocate; the services refuse larger requests anyway.
const maxPresize = 16 << 20

// BodySetter is a response writer that takes a whole body without copying it; the caller must not use it again.
type BodySetter interface {
	SetBody(body []byte)
}

// CodeSetter is a response writer that wants to know an error's code without reading the body.
type CodeSetter interface {
	SetCode(code string)
}
