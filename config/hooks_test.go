package config

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
)

// recording returns Hooks each of which appends its name and tag.
func recording(tag string, calls *[]string) *Hooks {
	h := &Hooks{}
	v := reflect.ValueOf(h).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			*calls = append(*calls, tag+name)
			return nil
		}))
	}
	return h
}

func TestChain_callsEachHookOfEachInOrder(t *testing.T) {
	t.Parallel()
	var calls, want []string
	chained := reflect.ValueOf(Chain(recording("a", &calls), nil, &Hooks{}, recording("b", &calls))).Elem()
	for i := range chained.NumField() {
		name := chained.Type().Field(i).Name
		if chained.Field(i).IsNil() {
			t.Errorf("%s is not chained", name)
			continue
		}
		chained.Field(i).Call([]reflect.Value{reflect.Zero(chained.Field(i).Type().In(0))})
		want = append(want, "a"+name, "b"+name)
	}
	if !reflect.DeepEqual(calls, want) {
		t.Errorf("called %v\nwant   %v", calls, want)
	}
}

func TestChain_ofNothingHasNoHooks(t *testing.T) {
	t.Parallel()
	for _, h := range []*Hooks{Chain(), Chain(nil, nil), Chain(&Hooks{}), SlogHooks(nil)} {
		if !reflect.ValueOf(h).Elem().IsZero() {
			t.Errorf("%+v", h)
		}
	}
}

func TestSlogHooks_levels(t *testing.T) {
	t.Parallel()
	fault := errors.New("boom")
	for name, c := range map[string]struct {
		call func(h *Hooks)
		want string // up to the first attribute that matters; empty: debug only
	}{
		"renewal":     {func(h *Hooks) { h.LeaseRenewed(LeaseEvent{LeaseKey: "k"}) }, ""},
		"empty read":  {func(h *Hooks) { h.Fetched(FetchEvent{}) }, ""},
		"failed read": {func(h *Hooks) { h.Fetched(FetchEvent{Err: fault}) }, ""}, // repeated: Retried says it
		"look":        {func(h *Hooks) { h.WorkerLooked(LookEvent{}) }, ""},
		"audit":       {func(h *Hooks) { h.Synced(SyncEvent{Shards: 4, Leases: 4}) }, ""},
		"checkpoint":  {func(h *Hooks) { h.CheckpointWritten(CheckpointEvent{}) }, ""},
		"batch":       {func(h *Hooks) { h.BatchProcessed(BatchEvent{Err: fault}) }, ""},
		"state":       {func(h *Hooks) { h.StateChanged(StateEvent{}) }, ""},
		"start":       {func(h *Hooks) { h.WorkerStarted(WorkerEvent{Worker: "w"}) }, `level=INFO msg="worker started" worker=w`},
		"stop":        {func(h *Hooks) { h.WorkerStopped(WorkerEvent{Worker: "w"}) }, `level=INFO msg="worker stopped" worker=w`},
		"failed stop": {func(h *Hooks) { h.WorkerStopped(WorkerEvent{Worker: "w", Err: fault}) }, `level=ERROR msg="worker stopped" worker=w error=boom`},
		"failover, Java": {func(h *Hooks) {
			h.FailoverDiffers(FailoverEvent{Worker: "w", Peer: "j", Java: true, Own: 10 * time.Second, Peers: 30 * time.Second})
		}, `level=WARN msg="another worker's FailoverTime differs" worker=w peer=j java=true own=10s peers=30s`},
		"failover, Go": {func(h *Hooks) { h.FailoverDiffers(FailoverEvent{Worker: "w", Peer: "g"}) }, `level=INFO msg="another worker's FailoverTime differs" worker=w peer=g`},
		"created":      {func(h *Hooks) { h.LeaseCreated(LeaseEvent{Worker: "w", LeaseKey: "k"}) }, `level=INFO msg="lease created" worker=w lease=k`},
		"taken":        {func(h *Hooks) { h.LeaseTaken(LeaseEvent{Worker: "w", LeaseKey: "k", From: "v", Counter: 7, Token: 7}) }, `level=INFO msg="lease taken" worker=w lease=k from=v counter=7 token=7`},
		"lost":         {func(h *Hooks) { h.LeaseLost(LeaseEvent{Worker: "w", LeaseKey: "k", Counter: 7, Token: 3, Err: fault}) }, `level=INFO msg="lease lost" worker=w lease=k counter=7 token=3 error=boom`},
		"released":     {func(h *Hooks) { h.LeaseReleased(LeaseEvent{Worker: "w", LeaseKey: "k", Counter: 7, Token: 3}) }, `level=INFO msg="lease released" worker=w lease=k counter=7 token=3`},
		"deleted": {func(h *Hooks) {
			h.LeaseDeleted(LeaseEvent{Worker: "w", LeaseKey: "k", Counter: 7, Reason: "all children have begun"})
		}, `level=INFO msg="lease deleted" worker=w lease=k counter=7 reason="all children have begun"`},
		"ended":   {func(h *Hooks) { h.ShardEnded(LeaseEvent{Worker: "w", LeaseKey: "k", Counter: 7, Token: 3}) }, `level=INFO msg="shard ended" worker=w lease=k counter=7 token=3`},
		"skipped": {func(h *Hooks) { h.LeaseSkipped(LeaseEvent{Worker: "w", LeaseKey: "k", Err: fault}) }, `level=WARN msg="row is no lease" worker=w lease=k error=boom`},
		"refused": {func(h *Hooks) {
			h.CheckpointRefused(CheckpointEvent{Worker: "w", LeaseKey: "k", SequenceNumber: "5", Err: fault})
		}, `level=WARN msg="checkpoint refused" worker=w lease=k sequence_number=5`},
		"trimmed": {func(h *Hooks) {
			h.Trimmed(TrimmedEvent{Worker: "w", LeaseKey: "k", Stream: "s", ShardID: "shard", Position: "5", First: "9"})
		}, `level=WARN msg="records may be lost: the stream does not keep the position any more from which the shard was to be read on" worker=w lease=k stream=s shard=shard position=5 first=9 gone=false failed=false`},
		"trimmed, first record known": {func(h *Hooks) {
			h.Trimmed(TrimmedEvent{Worker: "w", LeaseKey: "k", First: "9", FirstArrival: time.Unix(0, 0).UTC()})
		}, `level=WARN msg="records may be lost: the stream does not keep the position any more from which the shard was to be read on" worker=w lease=k stream="" shard="" position="" first=9 first_arrival=1970-01-01T00:00:00.000Z gone=false`},
		"audit that fails again": {func(h *Hooks) { h.Synced(SyncEvent{Err: fault, Attempt: 2}) }, ""},
		"panic": {func(h *Hooks) {
			h.Panicked(PanicEvent{Worker: "w", LeaseKey: "k", What: "ProcessRecords", Value: "oh", Stack: []byte("main.go:7")})
		}, `level=ERROR msg="user code panicked" worker=w lease=k what=ProcessRecords value=oh stack=main.go:7`},
		"sync that creates": {func(h *Hooks) { h.Synced(SyncEvent{Worker: "w", Stream: "s", Shards: 4, Created: 4}) }, `level=INFO msg="leases compared with shards" worker=w stream=s shards=4`},
		"sync that fails":   {func(h *Hooks) { h.Synced(SyncEvent{Worker: "w", Stream: "s", Err: fault}) }, `level=WARN msg="leases compared with shards" worker=w stream=s`},
		"first failure": {func(h *Hooks) {
			h.Retried(RetryEvent{Worker: "w", LeaseKey: "k", What: "initialize", Attempt: 2, Err: fault})
		}, `level=INFO msg="will be tried again" worker=w lease=k what=initialize attempt=2`},
		"failure that stays": {func(h *Hooks) {
			h.Retried(RetryEvent{Worker: "w", LeaseKey: "k", What: "initialize", Attempt: 3, Err: fault})
		}, `level=WARN msg="will be tried again" worker=w lease=k what=initialize attempt=3`},
		"failure that stays on": {func(h *Hooks) { h.Retried(RetryEvent{What: "initialize", Attempt: 4, Err: fault}) }, ""},
		"failure that has lasted twice as long": {func(h *Hooks) {
			h.Retried(RetryEvent{Worker: "w", LeaseKey: "k", What: "initialize", Attempt: 24, Err: fault})
		}, `level=WARN msg="will be tried again" worker=w lease=k what=initialize attempt=24`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var info, debug bytes.Buffer
			withoutTime := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			c.call(SlogHooks(slog.New(slog.NewTextHandler(&info, &slog.HandlerOptions{ReplaceAttr: withoutTime}))))
			c.call(SlogHooks(slog.New(slog.NewTextHandler(&debug, &slog.HandlerOptions{ReplaceAttr: withoutTime, Level: slog.LevelDebug}))))
			if got := info.String(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got  %swant %s", got, c.want)
			}
			if strings.Count(debug.String(), "\n") != 1 {
				t.Errorf("at debug: %q", debug.String())
			}
		})
	}
}

func TestSlogHooks_tellEveryEvent(t *testing.T) {
	t.Parallel()
	h := reflect.ValueOf(SlogHooks(slog.New(slog.DiscardHandler))).Elem()
	for i := range h.NumField() {
		if h.Field(i).IsNil() {
			t.Errorf("%s is not logged", h.Type().Field(i).Name)
		}
	}
}
