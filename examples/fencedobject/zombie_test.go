package main

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/examples/internal/bucket"
	"github.com/shardlease/shardlease/examples/internal/zombie"
	"github.com/shardlease/shardlease/processor"
)

const lease = "shardId-000000000000"

func served(t *testing.T, h http.Handler) store {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return store{server.Client(), server.URL}
}

func played(t *testing.T, s store, of func() processor.RecordProcessor) (out zombie.Outcome, right bool) {
	t.Helper()
	out, err := zombie.Run(t.Context(), func(string) processor.Factory {
		return func(processor.Shard) processor.RecordProcessor { return of() }
	})
	if err != nil {
		t.Fatal(err)
	}
	now, _, err := s.get(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("tokens %d and %d, late write: %v\ntotals %v, produced %v", out.ZombieToken, out.SuccessorToken, out.Late, now.Totals, out.Totals)
	if out.SuccessorToken <= out.ZombieToken {
		t.Errorf("the successor's token is %d, that of the worker before it %d; want more", out.SuccessorToken, out.ZombieToken)
	}
	return out, maps.Equal(now.Totals, out.Totals)
}

func TestZombie_itsLateWriteIsRefusedByTheToken(t *testing.T) {
	t.Parallel()
	watched := &watching{Handler: &bucket.Bucket{}}
	s := served(t, watched)
	out, right := played(t, s, func() processor.RecordProcessor { return &reader{store: s} })
	if !errors.Is(out.Late, ErrStale) || !right || watched.stale != 0 {
		t.Errorf("late write %v, totals right %t, stale writes accepted: %d; want it refused and every amount counted once", out.Late, right, watched.stale)
	}
	t.Logf("stale writes accepted: %d", watched.stale)
}

// To look at the token first and to put without a condition afterwards is not enough: the worker is stopped between the two.
func TestZombie_itsLateWriteLandsWithoutTheCondition(t *testing.T) {
	t.Parallel()
	watched := &watching{Handler: &bucket.Bucket{}, unconditional: true}
	s := served(t, watched)
	played(t, s, func() processor.RecordProcessor { return &reader{store: s} })
	if watched.stale == 0 {
		t.Error("stale writes accepted: 0; without the condition the late write should have landed")
	}
}

// watching counts the puts that brought a smaller token into an object than it had.
type watching struct {
	http.Handler
	unconditional bool // the store knows no conditions

	mu    sync.Mutex
	token int64
	stale int
}

func (h *watching) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unconditional {
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
	}
	h.Handler.ServeHTTP(w, r)
	if r.Method == http.MethodPut {
		object := httptest.NewRecorder()
		h.Handler.ServeHTTP(object, httptest.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Path, nil))
		var now state
		if json.Unmarshal(object.Body.Bytes(), &now) == nil {
			if now.Token < h.token {
				h.stale++
			}
			h.token = now.Token
		}
	}
}

// losing lands every second put and breaks the connection instead of answering.
type losing struct {
	http.Handler
	puts int
}

func (l *losing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		if l.puts++; l.puts%2 == 1 {
			l.Handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
	}
	l.Handler.ServeHTTP(w, r)
}

// An answer that is lost leaves an object that the reader knows for its own; the object of a later owner it does not touch.
func TestReader_countsEachPaymentOnceAndNoneOfAnEarlierOwner(t *testing.T) {
	t.Parallel()
	s := served(t, &losing{Handler: &bucket.Bucket{}})
	grant := func(token int64) checkpoint.Grant { return checkpoint.Grant{LeaseKey: lease, Token: token} }
	record := func(n, account, amount string) processor.Record {
		return processor.Record{SequenceNumber: n, PartitionKey: account, Data: []byte(amount)}
	}
	// As a consumer does, each call is repeated until it succeeds or finds that it must not.
	until := func(do func(ctx context.Context) error) error {
		for {
			if err := do(t.Context()); err == nil || errors.Is(err, ErrStale) {
				return err
			}
		}
	}
	older, newer := &reader{store: s}, &reader{store: s}
	begin := func(r *reader, token int64) error {
		return until(func(ctx context.Context) error {
			return r.Initialize(ctx, processor.InitializationInput{Grant: grant(token)})
		})
	}
	write := func(r *reader, token int64, records ...processor.Record) error {
		return until(func(ctx context.Context) error { return r.write(ctx, grant(token), records) })
	}
	first := []processor.Record{record("9", "a", "10"), record("10", "b", "1")}
	for _, step := range []struct {
		name string
		do   func() error
		want error
	}{
		{"the older owner begins", func() error { return begin(older, 2) }, nil},
		{"and writes", func() error { return write(older, 2, first...) }, nil},
		{"and again", func() error { return write(older, 2, first...) }, nil},
		{"the newer owner begins", func() error { return begin(newer, 5) }, nil},
		{"the older one writes", func() error { return write(older, 2, record("11", "a", "100")) }, ErrStale},
		{"and begins again", func() error { return begin(older, 2) }, ErrStale},
		{"the newer one gets the first batch again and one more", func() error {
			return write(newer, 5, append(first, record("11", "a", "5"))...)
		}, nil},
	} {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	now, _, err := s.get(t.Context(), lease)
	if want := map[string]int64{"a": 15, "b": 1}; err != nil || !maps.Equal(now.Totals, want) || now.Token != 5 {
		t.Errorf("object %+v, error %v; want totals %v of token 5", now, err, want)
	}
}
