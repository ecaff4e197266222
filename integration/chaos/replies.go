//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
)

// replies passes requests on to a server and loses some of the answers. Closed connections and silence are all that it
// answers by itself; a server that is down closes connections, too.
type replies struct {
	to     *server
	client *http.Client
	seen   func(request, answer []byte)
	lost   atomic.Int64 // answers

	mu     sync.Mutex
	random *rand.Rand
	part   float64       // of the answers that are lost
	hang   bool          // they are silence
	over   chan struct{} // closed when it is not so any more
}

func newReplies(to *server, seed uint64, seen func(request, answer []byte)) *replies {
	return &replies{
		to: to, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, seen: seen,
		random: rand.New(rand.NewPCG(seed, 2)), over: make(chan struct{}),
	}
}

// lose has that part of the answers be lost from now on. What hangs is closed.
func (r *replies) lose(part float64, hang bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part, r.hang = part, hang
	close(r.over)
	r.over = make(chan struct{})
}

// loses decides about one answer. A lost one is silence until over is closed; nil: its connection is closed at once.
func (r *replies) loses() (lost bool, over <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.part == 0 || r.random.Float64() >= r.part {
		return false, nil
	}
	r.lost.Add(1)
	if r.hang {
		return true, r.over
	}
	return true, nil
}

// ServeHTTP implements http.Handler.
func (r *replies) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	request, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the sender is gone
	}
	status, header, answer, err := r.pass(req, request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if status == http.StatusOK && r.seen != nil {
		r.seen(request, answer)
	}
	if lost, over := r.loses(); lost {
		if over != nil {
			select {
			case <-over:
			case <-req.Context().Done():
			}
		}
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(answer) // it fails only if the worker does not listen any more
}

// pass does the request. It goes on when the worker does not wait for it any more: what has been delivered is done.
func (r *replies) pass(req *http.Request, body []byte) (status int, header http.Header, answer []byte, err error) {
	address, up := r.to.address()
	if !up {
		return 0, nil, nil, fmt.Errorf("%s is down", r.to.name)
	}
	out, err := http.NewRequestWithContext(context.WithoutCancel(req.Context()), req.Method, "http://"+address+req.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("pass a request on: %w", err)
	}
	out.Header = req.Header.Clone()
	out.Host = req.Host
	res, err := r.client.Do(out)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if answer, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, nil, fmt.Errorf("read the answer of %s: %w", r.to.name, err)
	}
	return res.StatusCode, res.Header, answer, nil
}

func (r *replies) close() { r.client.CloseIdleConnections() }
