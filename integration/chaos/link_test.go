//go:build unix

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// setup is a link to a server that answers "done", and counts. Requests are made by ask, with a connection of its own each.
func setup(t *testing.T) (l *link, done *atomic.Int64, ask func(limit time.Duration) error) {
	t.Helper()
	done = &atomic.Int64{}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done.Add(1)
		_, _ = io.WriteString(w, "done")
	}))
	t.Cleanup(backend.Close)
	to := &server{name: "backend"}
	address, ok := backend.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the backend listens on %v, want TCP", backend.Listener.Addr())
	}
	to.port.Store(int64(address.Port))
	l, err := newLink("test", to, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return l, done, func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, strings.NewReader("do"))
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		_, err = io.ReadAll(res.Body)
		return err
	}
}

func TestLink_isAsIfNothingHadHappenedAfterEachFault(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{partitioned, slow, late, narrow, reset, lossy} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			l, _, ask := setup(t)
			if err := ask(time.Minute); err != nil {
				t.Fatal(err)
			}
			f := fault{Kind: k, Part: 1, Rate: 1000, Delay: time.Minute}
			if err := l.begin(1, f); err != nil {
				t.Fatal(err)
			}
			// A narrow link is wide enough for this request, and a slow one only slow.
			if err := ask(500 * time.Millisecond); err == nil && k != narrow {
				t.Error("a request was answered in half a second")
			}
			if err := l.end(t.Context(), 1, f); err != nil {
				t.Fatal(err)
			}
			if err := ask(time.Minute); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

func TestReplies_areLostAfterTheRequestWasDone(t *testing.T) {
	t.Parallel()
	l, done, ask := setup(t)
	for _, hang := range []bool{false, true} {
		before := done.Load()
		l.replies.lose(1, hang)
		if err := ask(300 * time.Millisecond); err == nil {
			t.Errorf("hang %v: the request was answered", hang)
		}
		if n := done.Load() - before; n != 1 && !hang { // where it hangs the client may have given up before it was sent
			t.Errorf("hang %v: the server has done %d requests, want 1", hang, n)
		}
		l.replies.lose(0, false)
	}
	if n := l.replies.lost.Load(); n < 1 {
		t.Errorf("%d replies were lost, want one at least", n)
	}
	l.replies.to.port.Store(0)
	if err := ask(time.Minute); err == nil {
		t.Error("a request to a server that is down was answered")
	}
}
