package emulator

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"net/http"
	"strconv"
)

// errCut ends an answer that a CutBody rule cuts short, and errDropped one that a DropReply rule swallows.
var (
	errCut     = errors.New("reply cut short by a fault rule")
	errDropped = errors.New("reply dropped by a fault rule")
)

// response stands between a service and the client: it holds the answer back until it is whole (or the service flushes:
// then it is a stream), so that faults, counts and observers can look at it.
type response struct {
	to        http.ResponseWriter
	ctx       context.Context //nolint:containedctx // the request's: a response is one request, as in net/http
	crc       bool            // the service adds X-Amz-Crc32
	drop      bool            // nothing reaches the client
	cut       int             // how many bytes of the body reach the client; negative: all
	status    int
	errorCode string // of a modelled error, "" if the service named none
	body      []byte
	streaming bool
	sent      int
	events    events // what is done to a stream; see streamfault.go
}

func (r *response) Header() http.Header { return r.to.Header() }

func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// SetBody implements wire.BodySetter.
func (r *response) SetBody(body []byte) {
	r.WriteHeader(http.StatusOK)
	r.body = body
}

// SetCode implements wire.CodeSetter.
func (r *response) SetCode(code string) { r.errorCode = code }

func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !r.streaming {
		r.body = append(r.body, p...)
		return len(p), nil
	}
	return r.events.pass(r.ctx, r, p)
}

// Flush makes the answer a stream: the header and what was written go out now.
func (r *response) Flush() { _ = r.FlushError() }

// FlushError is Flush for http.ResponseController.
func (r *response) FlushError() error {
	if r.drop {
		return errDropped
	}
	if !r.streaming {
		r.streaming = true
		r.WriteHeader(http.StatusOK)
		r.to.WriteHeader(r.status)
		held := r.body
		r.body = nil
		if _, err := r.events.pass(r.ctx, r, held); err != nil {
			return err
		}
	}
	return http.NewResponseController(r.to).Flush()
}

// pass sends a stream's next bytes, up to the cut.
func (r *response) pass(p []byte) (int, error) {
	if r.cut >= 0 && r.sent+len(p) > r.cut {
		n, _ := r.to.Write(p[:r.cut-r.sent])
		r.sent += n
		return n, errCut
	}
	n, err := r.to.Write(p)
	r.sent += n
	return n, err
}

// finish sends what is held back. The error is the way in which a fault rule ends the connection, or nil.
func (r *response) finish() error {
	switch {
	case r.drop:
		return errDropped
	case r.streaming && (r.cut >= 0 && r.sent >= r.cut || errors.Is(r.events.stopped, errCut)):
		return errCut
	case r.streaming:
		return nil
	}
	r.WriteHeader(http.StatusOK)
	h := r.Header()
	h.Set("Content-Length", strconv.Itoa(len(r.body)))
	if r.crc {
		h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.body)), 10))
	}
	r.to.WriteHeader(r.status)
	if r.cut >= 0 && r.cut < len(r.body) {
		_, _ = r.to.Write(r.body[:r.cut])
		_ = http.NewResponseController(r.to).Flush()
		return errCut
	}
	_, _ = r.to.Write(r.body) // the client may be gone
	return nil
}

// code is the name of the error that the answer holds, or "".
func (r *response) code() string {
	if r.status < http.StatusBadRequest {
		return ""
	}
	if r.errorCode == "" {
		return strconv.Itoa(r.status)
	}
	return r.errorCode
}

// conditionFailed tells whether the answer with this code reports a condition that did not hold.
func (r *response) conditionFailed(code string) bool {
	return code == "ConditionalCheckFailedException" ||
		code == "TransactionCanceledException" && bytes.Contains(r.body, []byte(`"ConditionalCheckFailed"`))
}
