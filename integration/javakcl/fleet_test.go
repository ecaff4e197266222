//go:build unix

package javakcl

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/audit"
)

// fleet is a stream and table of an emulator on a port, a producer, and the processes that share the work.
type fleet struct {
	t           *testing.T
	program     program
	generation  generation
	app, stream string
	mode        config.RetrievalMode // of all workers; ours unless said otherwise
	server      *emulator.Server
	url         string
	kinesis     *kinesis.Client
	dynamodb    *dynamodb.Client
	history     *history
	requests    *requests
	began       time.Time

	// Of the test's goroutine.
	workers []*worker
	hangs   int // stops that did not end

	mu       sync.Mutex // guards what follows
	arrivals []audit.Arrival
	fates    []audit.Fate
	tokens   map[string]int64 // of a worker's tenure: its rank, by when it was heard of
	faults   []string         // of workers' reports
	produced map[string]int64
	last     map[string]string // by shard: the sequence number of its last record
}

func newFleet(t *testing.T, g generation, shards int, opts ...emulator.Option) *fleet {
	t.Helper()
	f := &fleet{
		t: t, program: java(t), generation: g, app: "audited", stream: "orders", mode: config.Polling, began: time.Now(),
		server: emulator.New(opts...), tokens: map[string]int64{}, produced: map[string]int64{}, last: map[string]string{},
	}
	f.history = &history{table: f.app, taken: f.taken, rows: map[string]lease{}, wrote: map[string]time.Time{}, writes: map[string]int{}, gone: map[string]bool{}}
	f.requests = newRequests(f.app)
	f.server.ObserveItems(f.history.observe)
	f.server.Observe(f.requests.observe)
	if err := f.server.CreateStream(f.stream, shards); err != nil {
		t.Fatal(err)
	}
	cloud := f.server.ClientConfig("test")
	f.kinesis, f.dynamodb = kinesis.NewFromConfig(cloud), dynamodb.NewFromConfig(cloud)
	url, stop, err := f.server.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	f.url = url
	return f
}

// say prints what happens, with the time since the beginning.
func (f *fleet) say(format string, args ...any) {
	f.t.Helper()
	f.t.Logf("%6.1f s  %s", time.Since(f.began).Seconds(), fmt.Sprintf(format, args...))
}

func (f *fleet) heard(w *worker, r audit.Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Kind == "unreadable" {
		f.faults = append(f.faults, w.id+" said "+r.Err)
	}
	if r.Token != 0 {
		// KCL has no fencing token that rises from worker to worker. A tenure begins seconds after the one before it did, so that
		// its rank is when the first of it was heard.
		id := fmt.Sprint(w.id, " ", r.Shard, " ", r.Token)
		if f.tokens[id] == 0 {
			f.tokens[id] = time.Since(f.began).Nanoseconds()
		}
		r.Token = f.tokens[id]
	}
	if r.Kind != audit.Taken { // the table knows better, and of Java workers, too
		f.arrivals = append(f.arrivals, audit.Arrival{Report: r, Worker: w.id, At: time.Since(f.began)})
	}
}

// taken is called by the history.
func (f *fleet) taken(key, owner, from string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrivals = append(f.arrivals, audit.Arrival{Report: audit.Report{Kind: audit.Taken, Shard: key, From: from}, Worker: owner, At: time.Since(f.began)})
}

func (f *fleet) fate(w *worker, what string) {
	w.gone = true
	held := f.history.keysOf(w.id)
	f.say("%s of %s, %s, which reads %d shards", what, w.id, f.kind(w), len(held))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fates = append(f.fates, audit.Fate{Worker: w.id, What: what, At: time.Since(f.began), Held: held})
}

// live are the workers that nobody has ended.
func (f *fleet) live() map[string]bool {
	live := map[string]bool{}
	for _, w := range f.workers {
		if !w.gone {
			live[w.id] = true
		}
	}
	return live
}

// until waits for ok and says how long that took.
func (f *fleet) until(what string, limit time.Duration, ok func() bool) {
	f.t.Helper()
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if took := time.Since(began); took > limit {
			f.t.Fatalf("not within %v: %s; leases by owner: %v", limit, what, f.history.shares())
		}
		select {
		case <-tick.C:
		case <-f.t.Context().Done():
			f.t.Fatal(f.t.Context().Err())
		}
	}
	f.say("%s, after %s", what, audit.Seconds(time.Since(began)))
}

// during waits for d.
func (f *fleet) during(d time.Duration) {
	f.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.t.Context().Done():
		f.t.Fatal(f.t.Context().Err())
	}
}

// balanced tells whether live workers hold all unfinished leases, no two of them numbers that differ by more than one.
func (f *fleet) balanced() bool {
	shares, live := f.history.shares(), f.live()
	least, most := 1<<30, 0
	for id := range live {
		least, most = min(least, shares[id]), max(most, shares[id])
		delete(shares, id)
	}
	return len(shares) == 0 && most > 0 && most-least <= 1
}

// settles waits until the fleet has been balanced for d without a move.
func (f *fleet) settles(d, limit time.Duration) {
	f.t.Helper()
	began := time.Now()
	since := began
	f.until(fmt.Sprintf("balanced for %v", d), limit, func() bool {
		if !f.balanced() || len(f.history.movesSince(since)) > 0 {
			since = time.Now()
		}
		return time.Since(since) >= d
	})
	f.say("leases by owner: %v; it took %s to balance", f.history.shares(), audit.Seconds(since.Sub(began)))
	for _, m := range f.history.movesSince(began) {
		f.t.Logf("          %s", m)
	}
}

// read waits until live workers hold every unfinished lease.
func (f *fleet) read(what string, limit time.Duration) {
	f.t.Helper()
	f.until(what, limit, func() bool {
		shares, taken := f.history.shares(), 0
		for id := range f.live() {
			taken += shares[id]
			delete(shares, id)
		}
		return len(shares) == 0 && taken > 0
	})
}

// bothRead waits until each of the two first Java workers reads something: for a minute at most, if they need not.
func (f *fleet) bothRead(must bool) {
	f.t.Helper()
	limit := time.Minute
	if must {
		limit = 4 * time.Minute
	}
	end := time.Now().Add(limit)
	f.until("both Java workers read", limit+time.Second, func() bool {
		shares := f.history.shares()
		return shares["java-1"] > 0 && shares["java-2"] > 0 || !must && time.Now().After(end)
	})
}

const (
	keys    = 48
	putting = 250 * time.Millisecond
)

// produce puts a record of each key every putting until the function that it returns is called. Keys are spread evenly over the
// ring, so that each shard, and each child of one, has some.
func (f *fleet) produce() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	entries := make([]types.PutRecordsRequestEntry, keys)
	for i := range entries {
		place := new(big.Int).Lsh(big.NewInt(int64(2*i+1)), 128)
		entries[i].PartitionKey = aws.String(fmt.Sprintf("key-%02d", i))
		entries[i].ExplicitHashKey = aws.String(place.Div(place, big.NewInt(2*keys)).String())
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(putting)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			for i := range entries {
				entries[i].Data = strconv.AppendInt(nil, n, 10)
			}
			// The emulator in this process refuses nothing and loses nothing unless told to.
			out, err := f.kinesis.PutRecords(context.WithoutCancel(ctx), &kinesis.PutRecordsInput{StreamName: &f.stream, Records: entries})
			if err != nil || *out.FailedRecordCount > 0 {
				f.t.Errorf("put records: %v, %v", out, err)
				return
			}
			f.mu.Lock()
			for i := range entries {
				f.produced[*entries[i].PartitionKey] = n
				f.last[*out.Records[i].ShardId] = *out.Records[i].SequenceNumber
			}
			f.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	end := func() { cancel(); <-done }
	f.t.Cleanup(end)
	return end
}

// delivered waits until all that was produced has come.
func (f *fleet) delivered(limit time.Duration) {
	f.t.Helper()
	f.until("everything delivered", limit, func() bool { return f.judge().Lost == 0 })
}

func (f *fleet) judge() audit.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	return audit.Judge(audit.Evidence{Produced: f.produced, Arrivals: f.arrivals, Fates: f.fates})
}

// finish stops the workers that are left, prints the audit and fails the test for what must not be.
func (f *fleet) finish() {
	f.t.Helper()
	f.stopAll()
	v := f.judge()
	fmt.Printf("\n%s: audit of a fleet with Java KCL %s\n", f.t.Name(), f.generation.name)
	v.Print(os.Stdout)
	v.PrintMoves(os.Stdout)
	f.history.mu.Lock()
	regress, moves := f.history.regress, len(f.history.moves)
	f.history.mu.Unlock()
	fmt.Printf("  checkpoints that went back %d\n  changes of owner %d\n  writes of leases by worker %v\n", len(regress), moves, f.history.writers())
	fmt.Printf("  stops that had to be ended by SIGKILL %d\n", f.hangs)
	f.printLogs()
	if !v.OK() {
		f.t.Error("records were lost, out of order, or never produced")
	}
	for _, r := range regress {
		f.t.Errorf("checkpoint went back: %s", r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		f.t.Error(fault)
	}
}
