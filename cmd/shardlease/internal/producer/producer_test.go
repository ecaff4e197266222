package producer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/cmd/shardlease/internal/producer"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/internal/loop"
)

// moodyStream stores records in the order in which it takes them, and refuses each of them with a probability.
type moodyStream struct {
	refuse  float64
	slow    time.Duration
	mu      sync.Mutex
	random  *rand.Rand
	stored  []producer.Record
	largest struct{ records, bytes int }
	fail    error // of the whole call
	calls   int
}

func (s *moodyStream) PutRecords(ctx context.Context, in *kinesis.PutRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error) {
	if s.slow > 0 {
		s.mu.Lock()
		d := time.Duration(s.random.Int64N(int64(s.slow)))
		s.mu.Unlock()
		if err := loop.Real().Sleep(ctx, d); err != nil { // answers come in another order than the calls
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil {
		return nil, s.fail
	}
	out := &kinesis.PutRecordsOutput{}
	bytes := 0
	for _, r := range in.Records {
		bytes += len(*r.PartitionKey) + len(r.Data)
		if s.random.Float64() < s.refuse {
			out.Records = append(out.Records, types.PutRecordsResultEntry{ErrorCode: aws.String("ProvisionedThroughputExceededException"), ErrorMessage: aws.String("slow down")})
			continue
		}
		s.stored = append(s.stored, producer.Record{Key: *r.PartitionKey, Data: r.Data})
		out.Records = append(out.Records, types.PutRecordsResultEntry{ShardId: aws.String("shardId-000000000000"), SequenceNumber: aws.String("1")})
	}
	s.largest.records, s.largest.bytes = max(s.largest.records, len(in.Records)), max(s.largest.bytes, bytes)
	return out, nil
}

func feed(records []producer.Record) <-chan producer.Record {
	in := make(chan producer.Record, len(records))
	for _, r := range records {
		in <- r
	}
	close(in)
	return in
}

func numbered(keys, each int) (records []producer.Record) {
	for n := range each {
		for k := range keys {
			records = append(records, producer.Record{Key: fmt.Sprint("key", k), Data: fmt.Append(nil, n)})
		}
	}
	return records
}

func byKey(records []producer.Record) map[string][]string {
	got := map[string][]string{}
	for _, r := range records {
		got[r.Key] = append(got[r.Key], string(r.Data))
	}
	return got
}

func TestProducer_keepsEachKeysOrderThroughRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, each int }{{1, 60}, {7, 100}, {900, 5}} {
		t.Run(fmt.Sprintf("%d keys", c.keys), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &moodyStream{refuse: 0.3, slow: 20 * time.Millisecond, random: rand.New(rand.NewPCG(1, 2))}
				records := numbered(c.keys, c.each)
				accepted := 0
				p := producer.New(s, producer.Options{Stream: "s", Ordered: true, Accepted: func(producer.Record, string) { accepted++ }})
				stats, err := p.Run(t.Context(), feed(records))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(byKey(records), byKey(s.stored)); diff != "" {
					t.Errorf("records of each key (-put +stored):\n%s", diff)
				}
				if stats.Records != len(records) || accepted != len(records) || stats.Retries == 0 {
					t.Errorf("stats = %+v, accepted = %d; want %d records, each accepted once, and retries", stats, accepted, len(records))
				}
			})
		})
	}
}

func TestProducer_keepsToTheLimitsOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &moodyStream{random: rand.New(rand.NewPCG(1, 2))}
		var records []producer.Record
		for i := range 1200 {
			size := 10
			if i%100 == 0 {
				size = producer.MaxRecordBytes - 10
			}
			records = append(records, producer.Record{Key: strconv.Itoa(i), Data: []byte(strings.Repeat("x", size))})
		}
		if _, err := producer.New(s, producer.Options{Stream: "s"}).Run(t.Context(), feed(records)); err != nil {
			t.Fatal(err)
		}
		if len(s.stored) != len(records) {
			t.Errorf("stored %d records, want %d", len(s.stored), len(records))
		}
		if s.largest.records > producer.MaxCallRecords || s.largest.bytes > producer.MaxCallBytes {
			t.Errorf("largest call = %+v, want at most %d records and %d bytes", s.largest, producer.MaxCallRecords, producer.MaxCallBytes)
		}
		if s.calls > 8 {
			t.Errorf("%d calls, want full ones", s.calls)
		}
	})
}

func TestProducer_sendsWhatItHasWhenNothingMoreComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &moodyStream{random: rand.New(rand.NewPCG(1, 2))}
		in := make(chan producer.Record)
		done := make(chan error, 1)
		go func() {
			_, err := producer.New(s, producer.Options{Stream: "s", Ordered: true}).Run(t.Context(), in)
			done <- err
		}()
		for i := range 3 {
			in <- producer.Record{Key: "k", Data: fmt.Append(nil, i)}
			if err := loop.Real().Sleep(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			s.mu.Lock()
			n := len(s.stored)
			s.mu.Unlock()
			if n != i+1 {
				t.Fatalf("stored %d records while the input pauses, want %d", n, i+1)
			}
		}
		close(in)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestProducer_givesUpOnAStreamThatTakesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &moodyStream{random: rand.New(rand.NewPCG(1, 2)), fail: errors.New("connection refused")}
		waits := 0
		p := producer.New(s, producer.Options{Stream: "orders", GiveUpAfter: 10 * time.Second, Waiting: func(error) { waits++ }})
		start := time.Now()
		_, err := p.Run(t.Context(), feed(numbered(1, 1)))
		if err == nil || !strings.Contains(err.Error(), "orders") || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error = %v, want one that names the stream and the cause", err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 13*time.Second {
			t.Errorf("gave up after %v, want 10 s or a pause later", d)
		}
		if waits < 3 {
			t.Errorf("reported waiting %d times in 10 s, want every 2 s", waits)
		}
	})
}

func TestProducer_waitsForCallsUnderWayWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &moodyStream{random: rand.New(rand.NewPCG(1, 2)), slow: 3 * time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		stats, err := producer.New(s, producer.Options{Stream: "s", Ordered: true}).Run(ctx, feed(numbered(1, 10)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the context's", err)
		}
		if stats.Records != len(s.stored) || stats.Records == 0 {
			t.Errorf("stats say %d records, the stream has %d; want the same, and some", stats.Records, len(s.stored))
		}
	})
}

func TestProducer_endsAtOnceWhereTheServiceRefusesTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New()
		start := time.Now()
		_, err := producer.New(kinesis.NewFromConfig(server.AWSConfig()), producer.Options{Stream: "nothing"}).Run(t.Context(), feed(numbered(1, 1)))
		if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
			t.Errorf("error = %v, want that there is no such stream", err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("that took %v, want no retries", d)
		}
	})
}

func TestProducer_outlastsThrottledCallsOfTheRealClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New()
		if err := server.CreateStream("s", 1); err != nil {
			t.Fatal(err)
		}
		server.Inject(emulator.Rule{Operation: "PutRecords", Times: 8, Effect: emulator.Throttle()})
		server.Inject(emulator.Rule{Operation: "PutRecords", Skip: 8, Times: 3, Effect: emulator.Fail(500, "InternalFailure", "hiccup")})
		stats, err := producer.New(kinesis.NewFromConfig(server.AWSConfig()), producer.Options{Stream: "s", Ordered: true}).Run(t.Context(), feed(numbered(3, 10)))
		if err != nil || stats.Records != 30 {
			t.Errorf("stats = %+v, error = %v; want 30 records", stats, err)
		}
	})
}
