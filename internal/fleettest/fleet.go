// Package fleettest runs whole fleets of real workers over one emulator, inside a testing/synctest bubble, and audits what
// they delivered. It is for tests only.
package fleettest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
)

// Stream and App are the names that every fleet uses.
const (
	Stream = "orders"
	App    = "orders-audit"
)

// Fleet is a stream, a lease table and the workers on them.
type Fleet struct {
	T        testing.TB
	Server   *emulator.Server
	Kinesis  *kinesis.Client
	DynamoDB *dynamodb.Client
	Audit    *Audit

	mu      sync.Mutex
	next    map[string]int // the next number of each key
	workers []*Worker
	opts    []shardlease.Option
}

// With has workers that start from now on made with more options.
func (f *Fleet) With(opts ...shardlease.Option) { f.opts = append(f.opts, opts...) }

// New makes a fleet without workers over a stream of so many shards. Whatever still runs is stopped when the test ends.
func New(tb testing.TB, shards int, opts ...emulator.Option) *Fleet {
	tb.Helper()
	return NewWith(tb, func(create func(string, int)) { create(Stream, shards) }, opts...)
}

// NewWith makes a fleet over the streams that streams creates; one of them must be called Stream.
func NewWith(tb testing.TB, streams func(create func(name string, shards int)), opts ...emulator.Option) *Fleet {
	tb.Helper()
	s := emulator.New(opts...)
	streams(func(name string, shards int) {
		if err := s.CreateStream(name, shards); err != nil {
			tb.Fatal(err)
		}
	})
	judge := s.ClientConfig("test")
	judge.RetryMaxAttempts = 20 // faults that a test injects for all must not strike whoever judges
	f := &Fleet{
		T: tb, Server: s, Kinesis: kinesis.NewFromConfig(judge), DynamoDB: dynamodb.NewFromConfig(judge),
		Audit: newAudit(), next: map[string]int{},
	}
	tb.Cleanup(func() {
		for _, w := range f.workers {
			_ = w.Stop()
		}
	})
	return f
}

// Shorter is full, or short under go test -short, as the race detector has it: that makes everything some ten times slower.
func Shorter[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}

// Config is the configuration that Start begins with.
func Config(id string) config.Config {
	c := config.Default(App, Stream)
	c.WorkerID = id
	return c
}

// Worker is one member of a fleet, as good as a process of its own.
type Worker struct {
	*shardlease.Worker
	ID   string
	f    *Fleet
	stop context.CancelFunc
	done chan struct{}
	err  error
	cut  func()
}

// Start starts a worker with the fleet's usual processor, which hands every record to the audit and checkpoints each batch.
func (f *Fleet) Start(id string, change ...func(*config.Config)) *Worker {
	f.T.Helper()
	return f.StartWith(id, f.Audit.Processor(id), change...)
}

// StartWith starts a worker with another processor.
func (f *Fleet) StartWith(id string, p processor.Factory, change ...func(*config.Config)) *Worker {
	f.T.Helper()
	return f.start(id, id, p, change...)
}

// StartAs starts a worker with the fleet's usual processor under the worker id of another one. Faults know it as client.
func (f *Fleet) StartAs(client, id string) *Worker {
	f.T.Helper()
	return f.start(client, id, f.Audit.Processor(client))
}

func (f *Fleet) start(client, id string, p processor.Factory, change ...func(*config.Config)) *Worker {
	f.T.Helper()
	cfg := Config(id)
	for _, c := range change {
		c(&cfg)
	}
	w, err := shardlease.New(cfg, f.Server.ClientConfig(client), p, f.opts...)
	if err != nil {
		f.T.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(f.T.Context()))
	m := &Worker{Worker: w, ID: client, f: f, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.err = w.Run(ctx)
	}()
	f.mu.Lock()
	f.workers = append(f.workers, m)
	f.mu.Unlock()
	return m
}

// Stop stops the worker gracefully and returns Run's error.
func (w *Worker) Stop() error {
	w.stop()
	return w.Wait()
}

// Wait waits for the end of Run and returns its error.
func (w *Worker) Wait() error {
	<-w.done
	return w.err
}

// Kill makes the worker behave as a killed process does: nothing it sends arrives any more, and nothing it is given counts.
// What is left of it ends with the test.
func (w *Worker) Kill() {
	w.f.Audit.kill(w.ID)
	w.f.Server.Inject(emulator.Rule{Client: w.ID, Effect: emulator.Refuse()})
	w.stop()
}

// CutOff keeps what the worker sends from arriving, and Reconnect ends that; the worker itself goes on.
func (w *Worker) CutOff() {
	w.cut = w.f.Server.Inject(emulator.Rule{Client: w.ID, Effect: emulator.Freeze()})
}

// Sever is CutOff from the lease table alone: records still come.
func (w *Worker) Sever() {
	w.cut = w.f.Server.Inject(emulator.Rule{Client: w.ID, Service: emulator.DynamoDB, Effect: emulator.Freeze()})
}

// Reconnect ends CutOff and Sever.
func (w *Worker) Reconnect() { w.cut() }

// Put puts n records, spread over the keys, each with the next number of its key.
func (f *Fleet) Put(n, keys int) {
	f.T.Helper()
	f.putInto(Stream, "key", n, keys)
}

// PutInto is Put for any stream. Its keys are its own.
func (f *Fleet) PutInto(stream string, n, keys int) {
	f.T.Helper()
	f.putInto(stream, stream+"/key", n, keys)
}

func (f *Fleet) putInto(stream, prefix string, n, keys int) {
	f.T.Helper()
	for n > 0 {
		batch := make([]types.PutRecordsRequestEntry, 0, min(n, 500))
		for range min(n, 500) {
			key := prefix + strconv.Itoa(n%keys)
			batch = append(batch, types.PutRecordsRequestEntry{
				PartitionKey: &key, Data: fmt.Appendf(nil, "%s:%d", key, f.next[key]),
			})
			f.next[key]++
			n--
		}
		out, err := f.Kinesis.PutRecords(f.T.Context(), &kinesis.PutRecordsInput{StreamName: &stream, Records: batch})
		if err != nil || *out.FailedRecordCount != 0 {
			f.T.Fatalf("put records: %v, %v", out, err)
		}
	}
}

// Produced is the number of records put so far.
func (f *Fleet) Produced() int {
	n := 0
	for _, k := range f.next {
		n += k
	}
	return n
}

// Check fails the test unless everything put was delivered, each key in order. It returns how many deliveries were
// duplicates.
func (f *Fleet) Check() (duplicates int) {
	f.T.Helper()
	a := f.Audit
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fault := range a.faults {
		f.T.Error(fault)
	}
	var lost []string
	for key, n := range f.next {
		for i := range n {
			if !a.seen[record{key, i}] {
				lost = append(lost, fmt.Sprint(key, ":", i))
			}
		}
	}
	if len(lost) > 0 {
		f.T.Errorf("lost %d of %d records: %s …", len(lost), f.Produced(), strings.Join(lost[:min(10, len(lost))], " "))
	}
	return a.duplicates
}

// WaitDelivered waits in virtual time, at most for d, until everything put was delivered, and returns how long it took.
func (f *Fleet) WaitDelivered(d time.Duration) time.Duration {
	f.T.Helper()
	began := time.Now()
	for f.Audit.Distinct() < f.Produced() {
		if time.Since(began) >= d {
			f.T.Errorf("after %v only %d of %d records were delivered", d, f.Audit.Distinct(), f.Produced())
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}
