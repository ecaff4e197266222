package retrieval

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/shardsync"
)

func TestPolling_endsAShardWithItsChildren(t *testing.T) {
	t.Parallel()
	reshard := map[string]func(w *world) []string{
		"split": func(w *world) []string {
			w.split(shard0)
			return []string{shard2, "shardId-000000000003"}
		},
		"merge": func(w *world) []string {
			w.merge(shard0, shard1)
			return []string{shard2}
		},
	}
	servers := map[string]func(*kinesis.GetRecordsOutput){
		"names children": nil,
		"names none":     func(out *kinesis.GetRecordsOutput) { out.ChildShards = nil },
		"names halves": func(out *kinesis.GetRecordsOutput) {
			for i := range out.ChildShards {
				out.ChildShards[i].ParentShards = nil
			}
		},
	}
	for name, change := range reshard {
		for server, alter := range servers {
			t.Run(name+"/"+server, func(t *testing.T) {
				bubble(t, 2, func(ctx context.Context, w *world) {
					w.putKeyed(100, func(int) string { return "d" }) // all in one of the shards
					children := change(w)
					w.api = &altered{KinesisAPI: w.api, getRecords: alter}
					p := w.polling()
					s := w.open(ctx, p, shard0, checkpoint.TrimHorizon)
					got, end := w.toEnd(ctx, s)
					s2 := w.open(ctx, p, shard1, checkpoint.TrimHorizon)
					if name == "merge" {
						more, _ := w.toEnd(ctx, s2)
						got = append(got, more...)
					} else if len(got) == 0 {
						got, _ = w.take(ctx, s2, 100)
					}
					if diff := cmp.Diff(numbers(0, 100), got); diff != "" {
						t.Error(diff)
					}
					var ids []string
					for _, c := range end.Children {
						ids = append(ids, c.ID)
						want := []string{shard0}
						if name == "merge" {
							want = []string{shard0, shard1}
						}
						if parents := slices.Sorted(slices.Values(c.ParentIDs)); !slices.Equal(parents, want) || c.StartingHashKey == "" || c.EndingHashKey == "" {
							t.Errorf("child %+v, want parents %v", c, want)
						}
					}
					if !slices.Equal(ids, children) || end.Gone {
						t.Errorf("end %+v, want children %v", end, children)
					}
					again, err := s.Next(ctx)
					if err != nil || again.End != end {
						t.Errorf("Next after the end: %+v, %v", again, err)
					}
					s.Close()
					s2.Close()
				})
			})
		}
	}
}

func TestPolling_takesNoBrokenReplyForTheEnd(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.cfg.MaxRecords = 10
		w.put(100)
		n := 0
		w.api = &altered{KinesisAPI: w.api, getRecords: func(out *kinesis.GetRecordsOutput) {
			if n++; n%3 == 0 {
				out.NextShardIterator = nil
			}
		}}
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		got, _ := w.take(ctx, s, 100)
		if diff := cmp.Diff(numbers(0, 100), got); diff != "" {
			t.Error(diff)
		}
	})
}

// A server that never gives a next iterator is read on all the same, but not as fast as it answers: each reply that looks like the end
// costs a listing and a new iterator.
func TestPolling_asksMoreAndMoreRarelyWhereEachReplyLooksLikeTheEnd(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(20)
		w.api = &altered{KinesisAPI: w.api, getRecords: func(out *kinesis.GetRecordsOutput) { out.NextShardIterator = nil }}
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		got, _ := w.take(ctx, s, 20)
		if diff := cmp.Diff(numbers(0, 20), got); diff != "" {
			t.Error(diff)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := w.server.Counts().Of(emulator.CountKey{Operation: "ListShards"}).Requests; n > 400 {
			t.Errorf("%d listings in 10 min, want about one each 2.5 s", n)
		}
		if at := slices.MaxFunc(w.retried(), func(a, b config.RetryEvent) int { return a.Attempt - b.Attempt }); at.Attempt < 100 {
			t.Errorf("attempts are told up to %d: it never becomes a warning", at.Attempt)
		}
	})
}

// A listing may show a shard closed before it shows the shard's children.
func TestPolling_waitsForTheChildrenOfAClosedShard(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.split(shard0)
		listings := 0
		w.api = &altered{
			KinesisAPI: w.api,
			getRecords: func(out *kinesis.GetRecordsOutput) { out.ChildShards = nil },
			listShards: func(_ *kinesis.ListShardsInput, out *kinesis.ListShardsOutput) {
				if listings++; listings < 5 { // first none of the children, then one
					out.Shards = out.Shards[:1+listings/3]
				}
			},
		}
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		if _, end := w.toEnd(ctx, s); len(end.Children) != 2 || listings != 5 {
			t.Errorf("end %+v after %d listings", end, listings)
		}
	})
}

func TestPolling_endsAShardThatLeftTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		splits []string // one a day
		known  bool     // the lease knows its hash keys
		want   error
	}{
		"its children are listed":                       {splits: []string{shard0}},
		"only their children are":                       {splits: []string{shard0, "shardId-000000000001", "shardId-000000000002"}, known: true},
		"only their children are, its keys are unknown": {splits: []string{shard0, "shardId-000000000001", "shardId-000000000002"}, want: shardsync.ErrOtherHistory},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				start := Start{Stream: stream, ShardID: shard0, LeaseKey: shard0, From: checkpoint.TrimHorizon}
				if c.known {
					start.HashKeyRange = hashkey.Full()
				}
				for _, id := range c.splits {
					w.split(id)
					time.Sleep(25 * time.Hour)
				}
				s, err := w.polling().Open(ctx, start)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				b, err := s.Next(ctx)
				if !errors.Is(err, c.want) || c.want == nil && (b.End == nil || !b.End.Gone) {
					t.Errorf("Next: %+v, %v, want an end or %v", b, err, c.want)
				}
			})
		})
	}
}

// A lease of another stream's shard is not finished because this stream never had such a shard.
func TestPolling_doesNotEndAShardThatTheStreamNeverHad(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		s := w.open(ctx, w.polling(), "shardId-000000000099", checkpoint.TrimHorizon)
		defer s.Close()
		if b, err := s.Next(ctx); !errors.Is(err, shardsync.ErrOtherHistory) {
			t.Errorf("Next: %+v, %v, want an error that says that this is another stream", b, err)
		}
	})
}

// The stream may come back under its name with other records: to finish the lease would leave them unread.
func TestPolling_failsWhenTheStreamIsDeleted(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(5)
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.take(ctx, s, 5)
		if _, err := w.user.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: aws.String(stream)}); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := s.Next(ctx)
			if err == nil && b.End == nil {
				continue
			}
			if !errors.Is(err, shardsync.ErrStreamNotFound) || !strings.Contains(err.Error(), stream) {
				t.Errorf("Next: %+v, %v", b, err)
			}
			break
		}
	})
}

// An odd NotFound for a shard that is listed is no end.
func TestPolling_goesOnWhenTheListingKnowsTheShard(t *testing.T) {
	bubble(t, 1, func(ctx context.Context, w *world) {
		w.put(5)
		w.server.Inject(emulator.Rule{Client: "reader", Operation: "GetRecords", Times: 2, Effect: emulator.Fail(400, "ResourceNotFoundException", "?")})
		s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
		defer s.Close()
		w.take(ctx, s, 5)
	})
}
