//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// link is all that lies between one place and one server: toxiproxy, then the proxy that loses replies.
type link struct {
	url     string // for the worker
	network *toxiproxy.Proxy
	replies *replies
	serving *http.Server
	ended   chan struct{} // closed when serving is over
}

// newLink opens a link. seen is told every write that the server has done.
func newLink(name string, to *server, seed uint64, seen func(request, answer []byte)) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the link %s: %w", name, err)
	}
	r := newReplies(to, seed, seen)
	l := &link{replies: r, serving: &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		_ = l.serving.Serve(listener) // it returns when it is closed
	}()
	// No metrics and no log: the table at the end says what was done.
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l.network = toxiproxy.NewProxy(api, name, "127.0.0.1:0", listener.Addr().String())
	if err := l.network.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the link %s: %w", name, err), l.close())
	}
	l.url = "http://" + l.network.Listen
	return l, nil
}

func (l *link) close() error {
	l.network.Stop()
	l.replies.lose(0, false)
	err := l.serving.Close()
	<-l.ended
	l.replies.close()
	if err != nil {
		return fmt.Errorf("close a link: %w", err)
	}
	return nil
}

// toxic is a fault of a network, as toxiproxy names it.
type toxic struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Stream     string           `json:"stream"` // upstream: what the worker sends; downstream: what it gets
	Attributes map[string]int64 `json:"attributes"`
}

// toxics are what a fault is to a network.
func toxics(f fault) []toxic {
	switch f.Kind {
	case partitioned: // bytes vanish, connections stay
		return []toxic{
			{Type: "timeout", Stream: "upstream", Attributes: map[string]int64{"timeout": 0}},
			{Type: "timeout", Stream: "downstream", Attributes: map[string]int64{"timeout": 0}},
		}
	case slow:
		return []toxic{{Type: "latency", Stream: "downstream", Attributes: map[string]int64{"latency": replyDelay.Milliseconds()}}}
	case late: // the sender gives up meanwhile; what it sent arrives all the same
		return []toxic{{Type: "latency", Stream: "upstream", Attributes: map[string]int64{"latency": f.Delay.Milliseconds()}}}
	case narrow:
		return []toxic{
			{Type: "bandwidth", Stream: "upstream", Attributes: map[string]int64{"rate": f.Rate}},
			{Type: "bandwidth", Stream: "downstream", Attributes: map[string]int64{"rate": f.Rate}},
		}
	case reset: // what was sent arrives, the answer is a reset
		return []toxic{{Type: "reset_peer", Stream: "downstream", Attributes: map[string]int64{"timeout": 0}}}
	case killed, frozen, restarted, replaced, lossy, tableDown, streamDown, split, merge, jump:
	}
	return nil
}

// begin lets a fault befall the link. The numbers tell faults of one kind from each other that overlap.
func (l *link) begin(number int, f fault) error {
	if f.Kind == lossy {
		l.replies.lose(f.Part, f.Hang)
		return nil
	}
	for i, t := range toxics(f) {
		t.Name = toxicName(number, i)
		text, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("begin %s: %w", f.Kind, err)
		}
		if _, err := l.network.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("begin %s: %w", f.Kind, err)
		}
	}
	return nil
}

// end undoes it.
func (l *link) end(ctx context.Context, number int, f fault) error {
	if f.Kind == lossy {
		l.replies.lose(0, false)
		return nil
	}
	for i := range toxics(f) {
		if err := l.network.Toxics.RemoveToxic(ctx, toxicName(number, i)); err != nil {
			return fmt.Errorf("end %s: %w", f.Kind, err)
		}
	}
	return nil
}

func toxicName(number, i int) string { return fmt.Sprintf("%d.%d", number, i) }
