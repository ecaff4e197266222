package emulator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Region is the region in which the emulated streams and tables live.
const Region = "us-east-1"

// AWSConfig is what to give the SDK's clients (and shardlease.New) to make them talk to this server without a socket. It
// is ClientConfig("default").
func (s *Server) AWSConfig() aws.Config { return s.ClientConfig("default") }

// ClientConfig is [Server.AWSConfig] under a name, by which [Rule] and [CountKey] tell one client from another.
//
// A request runs on the client's goroutine; that of a subscription on one of its own, which ends with the event stream. Cancelling a request's context ends both the call and the request at the server. All waiting is on
// channels made by the request, so that clients can live inside a testing/synctest bubble; give each bubble a server of
// its own.
func (s *Server) ClientConfig(name string) aws.Config {
	return aws.Config{
		Region:      Region,
		Credentials: credentials(name),
		HTTPClient:  &http.Client{Transport: &transport{server: s, client: name}},
		// Another HTTP client put in by mistake must not carry test traffic to AWS.
		BaseEndpoint: aws.String("http://emulator.invalid"),
	}
}

// credentials are static, and their key id is the client's name, as on a port.
func credentials(name string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: name, SecretAccessKey: "secret", Source: "emulator"}, nil
	})
}

type transport struct {
	server *Server
	client string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		closeBody(r)
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	x := &exchange{
		ctx: ctx, cancel: cancel, header: http.Header{},
		ready: make(chan struct{}), done: make(chan struct{}), gone: r.Context(),
	}
	serve := func() {
		defer close(x.done)
		defer cancel()
		x.end(t.server.serve(t.client, x, r.WithContext(ctx)))
	}
	// Closing the body frees a handler that reads it; everything else that a handler waits for obeys ctx.
	free := context.AfterFunc(r.Context(), func() { closeBody(r) })
	if streams(r) {
		go serve()
		select {
		case <-x.ready:
		case <-r.Context().Done():
			<-x.done
		}
	} else { // on the client's own goroutine: one is dear in a simulation that makes millions of requests
		serve()
	}
	free()
	closeBody(r)
	if x.pipe == nil && r.Context().Err() != nil { // nobody will read what came too late
		return nil, context.Cause(r.Context())
	}
	if x.failure != nil {
		return nil, x.failure
	}
	return x.response(r), nil
}

// streams reports whether the answer may be read while its handler still writes.
func streams(r *http.Request) bool {
	return strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".SubscribeToShard")
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// exchange is one request under way and the http.ResponseWriter of its handler. Up to the closing of ready its fields
// belong to the handler's goroutine, afterwards to the client's.
type exchange struct {
	//nolint:containedctx // the handler's: an exchange is one request, which in net/http holds its context, too
	ctx    context.Context
	cancel context.CancelFunc
	//nolint:containedctx // the client's: done when it wants no more
	gone   context.Context
	header http.Header
	status int
	body   []byte
	cut    bool // the body ends too early
	pipe   chan []byte
	broken error // how the stream ends if not well; set before pipe is closed
	ready  chan struct{}
	done   chan struct{}
	// failure is what the client sees instead of an answer.
	failure error
}

func (x *exchange) Header() http.Header { return x.header }

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
}

// Write keeps p itself before the first Flush: response hands over its bytes and does not touch them again.
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	if x.pipe == nil {
		if x.body == nil {
			x.body = p
		} else {
			x.body = append(slices.Clip(x.body), p...)
		}
		return len(p), nil
	}
	select {
	case x.pipe <- bytes.Clone(p):
		return len(p), nil
	case <-x.ctx.Done():
		return 0, context.Cause(x.ctx)
	}
}

// Flush lets the client have the header and what was written so far; what follows goes through the pipe.
func (x *exchange) Flush() {
	if x.pipe != nil {
		return
	}
	x.WriteHeader(http.StatusOK)
	// Room for a few writes, as a socket's buffer has: a slow reader stops the handler, a waiting one does not.
	x.pipe = make(chan []byte, 4)
	if len(x.body) > 0 {
		x.pipe <- bytes.Clone(x.body)
		x.body = nil
	}
	close(x.ready)
}

// end closes the exchange as the handler's result says.
func (x *exchange) end(err error) {
	if x.pipe != nil {
		if err != nil {
			x.broken = io.ErrUnexpectedEOF
		}
		close(x.pipe)
		return
	}
	switch {
	case err == nil:
	case errors.Is(err, errCut):
		x.cut = true
	default:
		x.failure = connectionError(err)
	}
	close(x.ready)
}

// connectionError is what a TCP client would have seen.
func connectionError(err error) error {
	switch {
	case errors.Is(err, errDropped):
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	case errors.Is(err, errRefused):
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return err
}

func (x *exchange) response(r *http.Request) *http.Response {
	resp := &http.Response{
		Status: strconv.Itoa(x.status) + " " + http.StatusText(x.status), StatusCode: x.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.header, ContentLength: -1, Request: r,
	}
	switch {
	case x.pipe != nil:
		resp.Body = &streamBody{x: x}
	case x.cut:
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(x.body), cutReader{}))
	default:
		resp.ContentLength = int64(len(x.body))
		resp.Body = io.NopCloser(bytes.NewReader(x.body))
	}
	return resp
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// streamBody is the client's end of a stream. Read and Close may run at the same time, two Reads may not.
type streamBody struct {
	x    *exchange
	rest []byte
}

func (b *streamBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		select {
		case chunk, ok := <-b.x.pipe:
			if !ok {
				return 0, b.end()
			}
			b.rest = chunk
		case <-b.x.gone.Done():
			return 0, context.Cause(b.x.gone)
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// end tells how a stream ended whose handler is done.
func (b *streamBody) end() error {
	if b.x.gone.Err() != nil { // the client made the handler end
		return context.Cause(b.x.gone)
	}
	if b.x.broken != nil {
		return b.x.broken
	}
	return io.EOF
}

// Close ends the handler and waits for it.
func (b *streamBody) Close() error {
	b.x.cancel()
	<-b.x.done
	return nil
}
