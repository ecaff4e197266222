package leasetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// fault is what happens to one request. The order is that of a request's life.
type fault struct {
	only    func(request) bool // not met by requests that it does not take; nil: it takes all
	refuse  bool               // the server never sees it
	late    bool               // the connection breaks; the server sees it when the test says so, see deliver
	answer  int                // with refuse: answer with this status
	resend  bool               // it reaches the server twice; the client has the second answer
	landed  func()             // called when the server has answered and the client does not know it yet
	until   <-chan struct{}    // the answer comes when this is closed, if the client still waits
	drop    bool               // the connection breaks instead of the answer
	cut     bool               // the answer's body breaks off
	fail    bool               // the answer is replaced by a 500
	hang    bool               // the answer never comes
	forever bool               // the fault stays
}

// faultyClient strikes requests with faults, whatever the server is. It is made for one case and used by one table.
type faultyClient struct {
	next aws.HTTPClient

	mu     sync.Mutex
	plan   map[string][]fault // by action, the next one first
	counts map[string]int
	stuck  func()                        // called when a call meets a fault behind which it gets no answer, if not nil
	late   []func(context.Context) error // requests that are still under way
}

var errReset = errors.New("connection reset by the test")

func newFaultyClient(next aws.HTTPClient) *faultyClient {
	if next == nil {
		next = http.DefaultClient
	}
	return &faultyClient{next: next, plan: map[string][]fault{}, counts: map[string]int{}}
}

// strike lets the next requests of an action meet these faults, one after the other.
func (c *faultyClient) strike(action string, f ...fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan[action] = slices.Clone(f)
}

// heal removes all faults.
func (c *faultyClient) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.plan)
}

// deliver lets the server see the requests that are late. What it answers, nobody hears.
func (c *faultyClient) deliver(ctx context.Context) error {
	c.mu.Lock()
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, send := range late {
		if err := send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// whenStuck has f called when a call gets no further: its request is refused for ever, or the answer never comes.
func (c *faultyClient) whenStuck(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = f
}

func (c *faultyClient) nowStuck() {
	c.mu.Lock()
	f := c.stuck
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// putBack has the next request meet a fault whose own was given up before it had landed, as on a slow server.
func (c *faultyClient) putBack(action string, f fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if queue, there := c.plan[action]; there && !f.forever {
		c.plan[action] = slices.Insert(queue, 0, f)
	}
}

// count is how many requests of an action left the client.
func (c *faultyClient) count(action string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[action]
}

// request is what a fault may know of the request that it meets.
type request struct {
	UpdateExpression string
}

func (c *faultyClient) pick(action string, body []byte) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[action]++
	queue := c.plan[action]
	if len(queue) == 0 {
		return fault{}
	}
	if queue[0].only != nil {
		var r request
		if err := json.Unmarshal(body, &r); err != nil || !queue[0].only(r) {
			return fault{}
		}
	}
	if !queue[0].forever {
		c.plan[action] = queue[1:]
	}
	return queue[0]
}

// Do implements aws.HTTPClient.
func (c *faultyClient) Do(r *http.Request) (*http.Response, error) {
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f := c.pick(action, body)
	if f.refuse {
		if f.forever {
			c.nowStuck()
		}
		if f.answer != 0 {
			return answer(r, f.answer), nil
		}
		return nil, errReset
	}
	send := func(ctx context.Context) (*http.Response, error) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		return c.next.Do(again)
	}
	if f.late {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late = append(c.late, func(ctx context.Context) error {
			resp, err := send(ctx)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		})
		return nil, errReset
	}
	resp, err := send(r.Context())
	if err != nil {
		c.putBack(action, f)
		return nil, err
	}
	if f.resend {
		_ = resp.Body.Close()
		if resp, err = send(r.Context()); err != nil {
			return nil, err
		}
	}
	if f.landed != nil {
		f.landed()
	}
	if f.until != nil {
		select {
		case <-f.until:
		case <-r.Context().Done():
			_ = resp.Body.Close()
			return nil, r.Context().Err()
		}
	}
	switch {
	case f.drop:
		_ = resp.Body.Close()
		return nil, errReset
	case f.fail:
		_ = resp.Body.Close()
		return answer(r, http.StatusInternalServerError), nil
	case f.cut:
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, 1), broken{}), resp.Body}
	case f.hang:
		_ = resp.Body.Close()
		c.nowStuck()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return resp, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// answer is an error page that no DynamoDB wrote.
func answer(r *http.Request, status int) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader("<html>no luck</html>")), Request: r,
	}
}
