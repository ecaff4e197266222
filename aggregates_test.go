package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/internal/fleettest"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

func putData(f *fleettest.Fleet, data ...[]byte) {
	f.T.Helper()
	for _, d := range data {
		if _, err := f.Kinesis.PutRecord(f.T.Context(), &kinesis.PutRecordInput{
			StreamName: aws.String(fleettest.Stream), PartitionKey: aws.String("a"), Data: d,
		}); err != nil {
			f.T.Fatal(err)
		}
	}
}

// A user of such a library met this: of an aggregate of 100 user records 60 are done, the process dies, and all come again.
func TestEach_resumesInsideAnAggregateAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		var users []kpl.UserRecord
		var want []string
		for i := range 100 {
			users = append(users, kpl.UserRecord{PartitionKey: fmt.Sprint("key ", i%5), Data: fmt.Append(nil, i)})
			want = append(want, fmt.Sprintf("key %d: %d/%d", i%5, i, i))
		}
		data, err := kpl.Aggregate(users...)
		if err != nil {
			t.Fatal(err)
		}
		putData(f, data)

		var mu sync.Mutex
		got := map[string][]string{}
		handle := func(worker string, until int64) processor.Factory {
			return processor.Each(func(_ context.Context, r processor.Record) error {
				if r.SubSequenceNumber == until {
					return errors.New("the database is down")
				}
				mu.Lock()
				defer mu.Unlock()
				got[worker] = append(got[worker], fmt.Sprintf("%s: %s/%d", r.PartitionKey, r.Data, r.SubSequenceNumber))
				return nil
			})
		}
		a := f.StartWith("worker-a", handle("a", 60))
		time.Sleep(20 * time.Second)
		row := f.Rows()["shardId-000000000000"]
		a.Kill()
		f.StartWith("worker-b", handle("b", 100))
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want[:60], got["a"]); diff != "" {
			t.Errorf("before the crash (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want[60:], got["b"]); diff != "" {
			t.Errorf("after it (-want +got), from the row %v:\n%s", row, diff)
		}
	})
}

// A hundred workers die one after the other, each when it has handled one more user record of an aggregate of a hundred: each goes on exactly
// where the one before was, so that nothing is lost and nothing comes twice.
func TestEach_crashesAtEverySubRecordOfAnAggregate(t *testing.T) {
	t.Parallel()
	for mode, pause := range map[config.RetrievalMode]time.Duration{
		config.Polling: 4 * time.Second,
		config.FanOut:  9 * time.Second, // the subscription of the one before has to be 5 s old
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fleettest.New(t, 1)
				var users []kpl.UserRecord
				var want []string
				all := fleettest.Shorter(100, 20)
				for i := range all {
					users = append(users, kpl.UserRecord{PartitionKey: fmt.Sprint("key ", i%5), Data: fmt.Append(nil, i)})
					want = append(want, fmt.Sprintf("%d by worker-%d", i, i))
				}
				data, err := kpl.Aggregate(users...)
				if err != nil {
					t.Fatal(err)
				}
				putData(f, data)
				var mu sync.Mutex
				var got []string
				for i := range all {
					id := fmt.Sprint("worker-", i)
					w := f.StartWith(id, processor.Each(func(_ context.Context, r processor.Record) error {
						if r.SubSequenceNumber > int64(i) {
							return errors.New("the database is down")
						}
						mu.Lock()
						defer mu.Unlock()
						got = append(got, fmt.Sprintf("%s by %s", r.Data, id))
						return nil
					}), func(c *config.Config) {
						c.LeaseManagement.FailoverTime, c.Retrieval.Mode = time.Second, mode
						c.Retrieval.IdleTime, c.Retrieval.MaxIdleTime = time.Second, time.Second
						c.Lifecycle.ShutdownGrace = time.Second // of what is left of the dead
					})
					time.Sleep(pause)
					w.Kill()
				}
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("what was handled, by whom (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// What looks like an aggregate and is none goes to the processor as it is, is counted, and holds nothing up.
func TestWorker_handsOverWhatOnlyLooksLikeAnAggregate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		var mu sync.Mutex
		var got []string
		damaged := 0
		good, err := kpl.Aggregate(kpl.UserRecord{PartitionKey: "k", Data: []byte("one")}, kpl.UserRecord{PartitionKey: "k", Data: []byte("two")})
		if err != nil {
			t.Fatal(err)
		}
		f.StartWith("worker-a", batches(func(in processor.ProcessRecordsInput) error {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range in.Records {
				what := string(r.Data)
				if r.Err != nil {
					what = "damaged"
				}
				got = append(got, what)
			}
			return in.Checkpointer.CheckpointAt(t.Context(), in.Records[len(in.Records)-1].Position())
		}), func(c *config.Config) {
			c.Hooks = &config.Hooks{Deaggregated: func(e config.DeaggregateEvent) {
				mu.Lock()
				defer mu.Unlock()
				damaged += e.Damaged
			}}
		})
		putData(f, []byte("plain"), []byte("\xf3\x89\x9a\xc2 is how my file format begins"), good[:len(good)-1], good)
		time.Sleep(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"plain", "damaged", "damaged", "one", "two"}, got); diff != "" || damaged != 2 {
			t.Errorf("%d damaged, want 2; records (-want +got):\n%s", damaged, diff)
		}
		sub, _ := f.Rows()["shardId-000000000000"]["checkpointSubSequenceNumber"].(*types.AttributeValueMemberN)
		if sub == nil || sub.Value != "1" {
			t.Errorf("the row's sub-sequence number is %v, want 1, of the last user record", sub)
		}
	})
}

// After a split a producer that has not noticed packs user records of both children, and sends them again to the other child
// when it does: each comes once, where it belongs.
func TestWorker_readsEachUserRecordInTheShardOfItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fleettest.New(t, 1)
		f.Split("shardId-000000000000")
		ranges := map[string]hashkey.Range{}
		for _, s := range f.OpenShards() {
			r, err := hashkey.ParseRange(*s.HashKeyRange.StartingHashKey, *s.HashKeyRange.EndingHashKey)
			if err != nil {
				t.Fatal(err)
			}
			ranges[*s.ShardId] = r
		}
		var users []kpl.UserRecord
		var want []string
		for i := range 50 {
			u := kpl.UserRecord{PartitionKey: fmt.Sprint("key ", i), Data: fmt.Append(nil, i)}
			hash := hashkey.Of(u.PartitionKey)
			if i%3 == 0 {
				hash = hashkey.Key{Hi: uint64(i) << 58}
				u.ExplicitHashKey = hash.String()
			}
			users = append(users, u)
			for id, r := range ranges {
				if r.Contains(hash) {
					want = append(want, fmt.Sprint(id, " ", i))
				}
			}
		}
		data, err := kpl.Aggregate(users...)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range ranges {
			hash := r.Start.String()
			if _, err := f.Kinesis.PutRecord(t.Context(), &kinesis.PutRecordInput{
				StreamName: aws.String(fleettest.Stream), PartitionKey: aws.String("a"), ExplicitHashKey: &hash, Data: data,
			}); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var got []string
		f.StartWith("worker-a", func(s processor.Shard) processor.RecordProcessor {
			return processor.Each(func(_ context.Context, r processor.Record) error {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%s %s", s.ID, r.Data))
				return nil
			})(s)
		})
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("user records by shard (-want +got):\n%s", diff)
		}
	})
}

type batchProcessor struct {
	processor.Base
	f func(processor.ProcessRecordsInput) error
}

func (b batchProcessor) ProcessRecords(_ context.Context, in processor.ProcessRecordsInput) error {
	return b.f(in)
}

// batches makes processors of one function.
func batches(f func(processor.ProcessRecordsInput) error) processor.Factory {
	return func(processor.Shard) processor.RecordProcessor { return batchProcessor{f: f} }
}
