package retrieval

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

// putRaw puts one record of that data into the shard of a hash key.
func (w *world) putRaw(data []byte, hash string) {
	w.t.Helper()
	if _, err := w.user.PutRecord(w.t.Context(), &kinesis.PutRecordInput{
		StreamName: aws.String(stream), Data: data, PartitionKey: aws.String("a"), ExplicitHashKey: &hash,
	}); err != nil {
		w.t.Fatal(err)
	}
}

// putAggregate puts n user records, whose data are running numbers, as one record.
func (w *world) putAggregate(n int) {
	w.t.Helper()
	var users []kpl.UserRecord
	for range n {
		users = append(users, kpl.UserRecord{PartitionKey: "key " + strconv.Itoa(w.n%7), Data: []byte(strconv.Itoa(w.n))})
		w.n++
	}
	data, err := kpl.Aggregate(users...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.putRaw(data, "0")
}

// read takes n records.
func (w *world) read(ctx context.Context, s processor.RecordSource, n int) (out []processor.Record) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	for len(out) < n {
		b, err := s.Next(ctx)
		if err != nil {
			w.t.Fatalf("after %d of %d records: %v", len(out), n, err)
		}
		out = append(out, b.Records...)
		b.Release()
	}
	return out
}

func TestPolling_handsOverUserRecordsAndDamagedAggregates(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.Deaggregate = true
		var seen []config.DeaggregateEvent
		hooks := w.hooks()
		hooks.Deaggregated = func(e config.DeaggregateEvent) { seen = append(seen, e) }
		data, err := kpl.Aggregate(
			kpl.UserRecord{PartitionKey: "in", ExplicitHashKey: "5", Data: []byte("0")},
			kpl.UserRecord{PartitionKey: "out", ExplicitHashKey: "7", Data: []byte("1")},
			kpl.UserRecord{PartitionKey: "in", Data: []byte("2")},
		)
		if err != nil {
			t.Fatal(err)
		}
		damaged := append([]byte{}, data...)
		damaged[8] ^= 1
		w.putRaw([]byte("plain"), "0")
		w.putRaw(damaged, "0")
		w.putRaw(data, "0")
		shard := hashkey.Range{Start: hashkey.Key{Lo: 8}, End: hashkey.Max, Known: true} // has the hash of "in"
		p := NewPolling(w.api, w.cfg, PollingOptions{Worker: "w", Hooks: hooks})
		s, err := p.Open(ctx, Start{Stream: stream, ShardID: shard0, LeaseKey: shard0, From: checkpoint.TrimHorizon, HashKeyRange: shard})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := w.read(ctx, s, 3)
		if len(got) != 3 || string(got[0].Data) != "plain" || got[0].Err != nil || got[0].PartitionKey != "a" {
			t.Fatalf("records %+v, want the plain one, the damaged one and one user record", got)
		}
		if r := got[1]; r.Err == nil || !strings.Contains(r.Err.Error(), "its MD5 sum is") || cmp.Diff(damaged, r.Data) != "" || r.SubSequenceNumber != 0 {
			t.Errorf("damaged aggregate: %+v, want its bytes and an error", r)
		}
		if r := got[2]; r.Err != nil || r.SubSequenceNumber != 2 || r.PartitionKey != "in" || string(r.Data) != "2" {
			t.Errorf("user record: %+v, want the third", r)
		}
		if len(seen) != 1 || seen[0].Worker != "w" || seen[0].LeaseKey != shard0 || seen[0].Aggregates != 1 || seen[0].Users != 1 ||
			seen[0].Outside != 2 || seen[0].Damaged != 1 || seen[0].Err == nil {
			t.Errorf("events %+v, want one of 1 aggregate, 1 user record, 2 outside, 1 damaged", seen)
		}
	})
}

// story is what is read once, and then again after each of some crashes.
type story struct {
	mode    config.RetrievalMode
	sizes   []int // of the records: 0 is a plain one, else an aggregate of so many user records
	limit   int   // records a page
	crashes []crash
}

// crash leaves a checkpoint at one of the user records.
type crash struct {
	at     int // which
	faults int // so many iterators expire, or subscriptions break, when reading starts again; the first one before anything was read
	more   int // size of an aggregate that is put after it; 0: none
}

// play reads all, and reads on from the checkpoint of each crash: exactly what follows it must come.
func (y story) play(t *testing.T) (wrong string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: emulator.New(), cfg: config.RetrievalConfig{
			MaxRecords: y.limit, IdleTime: 200 * time.Millisecond, MaxIdleTime: time.Second, BehindLatestThreshold: time.Second,
			ByteBudget: 10 << 20, MaxPendingBatches: 3, RequestTimeout: 30 * time.Second, Deaggregate: true,
		}}
		if err := w.server.CreateStream(stream, 1); err != nil {
			t.Fatal(err)
		}
		w.user = kinesis.NewFromConfig(w.server.ClientConfig("user"))
		w.api = kinesis.NewFromConfig(w.server.ClientConfig("reader"))
		fault := emulator.Rule{Client: "reader", Operation: "GetRecords", Effect: emulator.Fail(400, "ExpiredIteratorException", "Iterator expired.")}
		polling := w.polling()
		open := func(from checkpoint.ExtendedSequenceNumber) processor.RecordSource {
			return w.open(t.Context(), polling, shard0, from)
		}
		if y.mode == config.FanOut {
			fault.Operation, fault.Effect = "SubscribeToShard", emulator.CutEventAfter(0)
			fanOut := w.fanOut()
			open = func(from checkpoint.ExtendedSequenceNumber) processor.RecordSource {
				return w.openFanOut(t.Context(), fanOut, shard0, from)
			}
		}
		for _, n := range y.sizes {
			if n == 0 {
				w.put(1)
			} else {
				w.putAggregate(n)
			}
		}
		s := open(checkpoint.TrimHorizon)
		all := w.read(t.Context(), s, w.n)
		s.Close()
		for _, c := range y.crashes {
			fault.Times = c.faults
			undo := func() {}
			if c.faults > 0 {
				undo = w.server.Inject(fault)
			}
			s := open(all[c.at].Position())
			if c.more > 0 {
				time.Sleep(3 * time.Second)
				w.putAggregate(c.more)
				time.Sleep(2 * time.Second)
			}
			want := numbers(c.at+1, w.n)
			got := make([]string, 0, len(want))
			for _, r := range w.read(t.Context(), s, len(want)) {
				got = append(got, string(r.Data))
			}
			s.Close()
			undo()
			if !slices.Equal(got, want) {
				wrong = fmt.Sprintf("%+v (-want +got):\n%s", c, cmp.Diff(want, got))
				return
			}
		}
	})
	return wrong
}

// X8 of KCL's list: it would go on after the whole aggregate where the iterator expires before anything was read.
func TestPolling_resumesAtEverySubRecordOfAnAggregate(t *testing.T) {
	t.Parallel()
	resumesAtEverySubRecord(t, config.Polling, 0, 1, 2)
}

func TestFanOut_resumesAtEverySubRecordOfAnAggregate(t *testing.T) {
	t.Parallel()
	resumesAtEverySubRecord(t, config.FanOut, 0, 1)
}

func resumesAtEverySubRecord(t *testing.T, mode config.RetrievalMode, faults ...int) {
	t.Helper()
	for _, n := range faults {
		for at := range 100 {
			y := story{mode: mode, sizes: []int{100}, limit: 10_000, crashes: []crash{{at: at, faults: n, more: 2}}}
			if wrong := y.play(t); wrong != "" {
				t.Fatalf("faults before it goes on: %d; %s", n, wrong)
			}
		}
	}
}

// A hundred histories with a hundred crashes each; where tests are to be short, with ten.
func TestPolling_resumesAtTenThousandRandomPlaces(t *testing.T) {
	t.Parallel()
	crashes := 100
	if testing.Short() {
		crashes = 10
	}
	resumesAtRandomPlaces(t, config.Polling, crashes)
}

func TestFanOut_resumesAtRandomPlaces(t *testing.T) {
	t.Parallel()
	resumesAtRandomPlaces(t, config.FanOut, 10)
}

func resumesAtRandomPlaces(t *testing.T, mode config.RetrievalMode, crashes int) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		y := story{
			mode:  mode,
			sizes: rapid.SliceOfN(rapid.IntRange(0, 12), 1, 8).Draw(rt, "sizes"),
			limit: rapid.IntRange(1, 6).Draw(rt, "records a page"),
		}
		all := 0
		for _, n := range y.sizes {
			all += max(n, 1)
		}
		y.crashes = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) crash {
			return crash{at: rapid.IntRange(0, all-1).Draw(rt, "at"), faults: max(0, rapid.IntRange(-6, 3).Draw(rt, "faults"))}
		}), crashes, crashes).Draw(rt, "crashes")
		y.crashes[len(y.crashes)-1].more = rapid.IntRange(1, 3).Draw(rt, "more")
		if wrong := y.play(t); wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// Switched off, records come as they are; only what is left of an aggregate in which the checkpoint lies is taken apart.
func TestPolling_withoutDeaggregateLosesNothingOfAnAggregateInHand(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.putAggregate(4)
		w.putAggregate(3)
		w.put(1)
		w.cfg.Deaggregate = true
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		users := w.read(ctx, s, 8)
		s.Close()
		w.cfg.Deaggregate = false
		shown := func(from checkpoint.ExtendedSequenceNumber, n int) (out []string) {
			s := w.open(ctx, w.polling(), shard0, from)
			defer s.Close()
			for _, r := range w.read(ctx, s, n) {
				data := "aggregate"
				if len(r.Data) < 5 {
					data = string(r.Data)
				}
				if r.Err != nil {
					t.Errorf("record %s has the error %v", r.Position(), r.Err)
				}
				out = append(out, fmt.Sprint(data, "/", r.SubSequenceNumber))
			}
			return out
		}
		if diff := cmp.Diff([]string{"aggregate/0", "aggregate/0", "7/0"}, shown(checkpoint.TrimHorizon, 3)); diff != "" {
			t.Errorf("from the beginning (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"2/2", "3/3", "aggregate/0", "7/0"}, shown(users[1].Position(), 4)); diff != "" {
			t.Errorf("from the second user record (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"aggregate/0", "7/0"}, shown(users[3].Position(), 2)); diff != "" {
			t.Errorf("from the last user record of the first aggregate (-want +got):\n%s", diff)
		}
	})
}

// The data of user records is that of their aggregate: it counts once.
func TestPolling_countsAnAggregateBeforeItIsTakenApart(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.Deaggregate = true
		p := w.polling()
		var users []kpl.UserRecord
		for range 10 {
			users = append(users, kpl.UserRecord{PartitionKey: "k", Data: make([]byte, 10_000)})
		}
		data, err := kpl.Aggregate(users...)
		if err != nil {
			t.Fatal(err)
		}
		w.putRaw(data, "0")
		s := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
		defer s.Close()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p.budget.mu.Lock()
		used := p.budget.used
		p.budget.mu.Unlock()
		if least, most := int64(len(data)), int64(len(data)+100+10*recordBytes); used < least || used > most {
			t.Errorf("%d bytes are spoken for, want the aggregate's %d and 10 structs", used, least)
		}
		b, err := s.Next(ctx)
		if err != nil || len(b.Records) != 10 {
			t.Fatalf("%d records, %v; want 10", len(b.Records), err)
		}
		b.Release()
	})
}
