package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shardlease/shardlease/leases"
)

// tap is the network card of a process: nothing passes it while the machine stands still. It also does to requests and
// replies what the emulator's fault rules cannot: it lets requests come late, and serves old replies.
type tap struct {
	process *process
	next    http.RoundTripper
}

// tapRules are the faults of a place's tap.
type tapRules struct {
	mu     sync.Mutex
	random *rand.Rand
	late   map[*lateRule]bool
	stale  map[string]int               // by operation: how many faults ask for old replies
	old    map[string]map[string]*reply // the newest replies by operation and request, if anybody may ask for them
	// Of fan-out, see fanout.go.
	streams map[*pushed]bool
	stalled []chan struct{} // a channel of each HangStream, closed when it is over
}

type lateRule struct {
	part  float64
	delay time.Duration
}

// reply is an answer that can be given again.
type reply struct {
	resp http.Response
	body []byte
	err  error // of reading the body
}

func (r *reply) response(req *http.Request) *http.Response {
	resp := r.resp
	resp.Request = req
	resp.Body = &replyBody{rest: r.body, err: r.err}
	return &resp
}

// replyBody reads a kept body, and ends as the original ended.
type replyBody struct {
	rest []byte
	err  error
}

func (b *replyBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, b.end()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// WriteTo spares whoever copies what is left, which is nothing, a buffer of 32 KB.
func (b *replyBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.rest)
	b.rest = b.rest[n:]
	if err == nil {
		err = b.err
	}
	return int64(n), err
}

func (b *replyBody) end() error { return cmp.Or(b.err, io.EOF) }

func (b *replyBody) Close() error { return nil }

// keep reads a response to its end.
func keep(resp *http.Response) *reply {
	body := make([]byte, 0, max(512, resp.ContentLength+1))
	buffer := bytes.NewBuffer(body)
	_, err := buffer.ReadFrom(resp.Body)
	_ = resp.Body.Close()
	return &reply{resp: *resp, body: buffer.Bytes(), err: err}
}

var errDead = errors.New("the process is dead")

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, x := r.Context(), t.process
	if err := x.m.gate(ctx); err != nil || x.dead.Load() {
		closeBody(r)
		return nil, errors.Join(err, errDead)
	}
	x.w.calls.Add(1)
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	table := strings.HasPrefix(service, "DynamoDB")
	op := x.w.register.begin(table, operation)
	old := x.w.stale && (operation == "Scan" || operation == x.w.s.listing())
	var asked []byte
	if op != nil || old {
		var err error
		if asked, err = io.ReadAll(r.Body); err != nil {
			closeBody(r)
			return nil, err
		}
		closeBody(r)
		r = r.WithContext(ctx) // a copy
		r.Body = io.NopCloser(bytes.NewReader(asked))
	}
	if op != nil {
		op.ask(x, asked)
	}
	if old {
		if kept := x.place.tap.recall(operation, string(asked)); kept != nil {
			closeBody(r)
			return kept.response(r), nil
		}
	}
	resp, err := t.send(r, op)
	var kept *reply
	if err == nil && (op != nil || old) {
		kept = keep(resp)
		resp = kept.response(r)
	}
	// The reply waits for the machine; what the process then knows of it is what counts.
	if halted := x.m.gate(ctx); halted != nil || x.dead.Load() {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, errors.Join(halted, errDead)
	}
	if op != nil && kept != nil {
		op.answered(x.w.register, kept, x.w.j.length())
	}
	if old && kept != nil && kept.resp.StatusCode == http.StatusOK && kept.err == nil {
		x.place.tap.remember(operation, string(asked), kept)
	}
	return resp, err
}

// send sends a request, perhaps late: then it is served even if the client has given up meanwhile.
func (t *tap) send(r *http.Request, op *rowOp) (*http.Response, error) {
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".SubscribeToShard") {
		return t.subscribe(r)
	}
	var delay time.Duration
	if op != nil { // others have no effect
		delay = t.process.place.tap.delay()
	}
	if delay == 0 {
		return t.next.RoundTrip(r)
	}
	t.process.w.j.note(t.process.name, op.key, "sends a request (%s) that arrives %v later", op.what(), delay.Round(time.Millisecond))
	type result struct {
		resp *http.Response
		err  error
	}
	ctx, done := r.Context(), make(chan result, 1)
	sent := r.WithContext(context.WithoutCancel(ctx))
	t.process.w.late.Go(func() {
		time.Sleep(delay)
		resp, err := t.next.RoundTrip(sent)
		if err == nil {
			resp = keep(resp).response(r) //nolint:bodyclose // it is the answer of RoundTrip
		}
		done <- result{resp, err}
	})
	select {
	case got := <-done:
		return got.resp, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// latest is for how long a request may be on its way after its sender has given it up; assumption A6 of docs/guarantees.md allows for
// more, but then rows of finished shards would outlive most schedules.
const latest = 10 * time.Second

// keepFinished is what follows from it, as config.LeaseCleanupConfig.KeepFinished says: rounded up, with clocks that drift.
const keepFinished = (leases.DecisionLife + latest) * 108 / 100

func (t *tapRules) delay() (d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rule := range t.late {
		if t.random.Float64() < rule.part {
			d += rule.delay
		}
	}
	return min(d, latest)
}

func (t *tapRules) makeLate(part float64, delay time.Duration) (end func()) {
	rule := &lateRule{part, delay}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late[rule] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.late, rule)
	}
}

func (t *tapRules) makeStale(operation string) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale[operation]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stale[operation]--
	}
}

func (t *tapRules) remember(operation, asked string, r *reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale[operation] > 0 && t.old[operation][asked] != nil {
		return
	}
	if t.old[operation] == nil {
		t.old[operation] = map[string]*reply{}
	}
	t.old[operation][asked] = r
}

func (t *tapRules) recall(operation, asked string) *reply {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale[operation] == 0 {
		return nil
	}
	return t.old[operation][asked]
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
