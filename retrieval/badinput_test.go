package retrieval

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/google/go-cmp/cmp"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/processor"
	"github.com/shardlease/shardlease/retrieval/kpl"
)

// Records that a producer may put and that are at the edge of what is allowed. A record before and one after each come as ever, and the
// strange one is a place to resume at.
func TestBadInput_strangeRecordsComeAsTheyAre(t *testing.T) {
	t.Parallel()
	aggregate := func(data ...[]byte) []byte {
		var users []kpl.UserRecord
		for _, d := range data {
			users = append(users, kpl.UserRecord{PartitionKey: "k", Data: d})
		}
		out, err := kpl.Aggregate(users...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	type came struct {
		data []byte
		err  string // in Record.Err
	}
	for name, c := range map[string]struct {
		key, data func() []byte
		want      func(data []byte) []came
	}{
		"zero-length data": {data: func() []byte { return []byte{} }},
		// It is as large as the smallest budget there is, and its event larger. TestExpand_takesTenMebibytes has an aggregate of that size.
		"10 MiB record":                {data: func() []byte { return bytes.Repeat([]byte("0123456789abcde\n"), 10<<20/16-1) }},
		`a partition key of "a" × 256`: {key: func() []byte { return bytes.Repeat([]byte("a"), 256) }, data: func() []byte { return []byte("x") }},
		"an aggregate inside an aggregate": {
			data: func() []byte {
				return aggregate([]byte("before"), aggregate([]byte("inner")), []byte("after"))
			},
			want: nil, // below
		},
		"an empty aggregate of zero-length data": {
			data: func() []byte { return aggregate([]byte{}) },
			want: func([]byte) []came { return []came{{[]byte{}, ""}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name == "10 MiB record" {
				t.Skip("too long under the race detector; go test without -short runs it")
			}
			for _, mode := range []config.RetrievalMode{config.Polling, config.FanOut} {
				t.Run(string(mode), func(t *testing.T) {
					bubble(t, 1, func(ctx context.Context, w *world) {
						w.cfg.Deaggregate, w.cfg.ByteBudget = true, 10<<20
						data, key := c.data(), []byte("a")
						if c.key != nil {
							key = c.key()
						}
						want := []came{{data, ""}}
						switch {
						case strings.HasPrefix(name, "an aggregate inside"):
							want = []came{{[]byte("before"), ""}, {aggregate([]byte("inner")), "is an aggregate itself"}, {[]byte("after"), ""}}
						case c.want != nil:
							want = c.want(data)
						}
						w.put(1)
						if _, err := w.user.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: aws.String(stream), Data: data, PartitionKey: aws.String(string(key))}); err != nil {
							w.t.Fatal(err)
						}
						w.put(1)
						open := func(from checkpoint.ExtendedSequenceNumber) processor.RecordSource {
							if mode == config.FanOut {
								return w.openFanOut(ctx, w.fanOut(), shard0, from)
							}
							return w.open(ctx, w.polling(), shard0, from)
						}
						s := open(checkpoint.TrimHorizon)
						got := w.read(ctx, s, len(want)+2)
						s.Close()
						if string(got[0].Data) != "0" || string(got[len(got)-1].Data) != "1" {
							w.t.Errorf("the records before and after are %q and %q, want 0 and 1", got[0].Data, got[len(got)-1].Data)
						}
						for i, r := range got[1 : len(got)-1] {
							if !bytes.Equal(r.Data, want[i].data) || (r.Err == nil) != (want[i].err == "") || r.Err != nil && !strings.Contains(r.Err.Error(), want[i].err) {
								w.t.Errorf("record %d has %d bytes and error %v, want %d and %q", i, len(r.Data), r.Err, len(want[i].data), want[i].err)
							}
							if len(want) == 1 && want[0].err == "" && c.want == nil && r.PartitionKey != string(key) {
								w.t.Errorf("its key is %q, want %q", r.PartitionKey, key)
							}
						}
						for i := range want {
							s := open(got[i+1].Position())
							if next := w.read(ctx, s, 1)[0]; next.Position() != got[i+2].Position() {
								w.t.Errorf("after %s comes %s, want %s", got[i+1].Position(), next.Position(), got[i+2].Position())
							}
							s.Close()
						}
					}, emulator.WithMaxRecordSize(10<<20))
				})
			}
		})
	}
}

// renumbered is a service that gives its records other sequence numbers than the emulator.
func renumbered(api KinesisAPI, number func(i int) string) KinesisAPI {
	ours := map[string]string{} // by theirs
	return &altered{
		KinesisAPI: api,
		getRecords: func(out *kinesis.GetRecordsOutput) {
			for i := range out.Records {
				n, _ := strconv.Atoi(string(out.Records[i].Data))
				ours[number(n)] = *out.Records[i].SequenceNumber
				out.Records[i].SequenceNumber = aws.String(number(n))
			}
		},
		getShardIterator: func(in *kinesis.GetShardIteratorInput) {
			if in.StartingSequenceNumber != nil {
				in.StartingSequenceNumber = aws.String(ours[*in.StartingSequenceNumber])
			}
		},
	}
}

func TestBadInput_sequenceNumbersOfAnyLengthAreNumbers(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]func(i int) string{
		"of 1 digit, then 2": func(i int) string { return strconv.Itoa(i + 1) },
		"of 56 digits":       func(i int) string { return fmt.Sprintf("4%055d", i) },
		"of 55 digits, then 56": func(i int) string {
			return []string{strings.Repeat("9", 54), "1" + strings.Repeat("0", 54)}[i/10] + strconv.Itoa(i%10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.cfg.MaxRecords = 3
				w.api = renumbered(w.api, number)
				w.put(20)
				s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
				w.take(ctx, s, 20)
				s.Close()
				for i := range 19 {
					s := w.open(ctx, w.polling(), shard0, checkpoint.ExtendedSequenceNumber{SequenceNumber: number(i)})
					if got, _ := w.take(ctx, s, 19-i); !cmp.Equal(got, numbers(i+1, 20)) {
						t.Errorf("after %s come %v, want %d on", number(i), got, i+1)
					}
					s.Close()
				}
				if told := w.trimmed(); len(told) != 0 {
					t.Errorf("told of gaps: %v", told)
				}
			})
		})
	}
}

func TestBadInput_repliesThatLackSomething(t *testing.T) {
	t.Parallel()
	t.Run("MillisBehindLatest missing", func(t *testing.T) {
		bubble(t, 1, func(ctx context.Context, w *world) {
			w.cfg.MaxRecords = 3
			w.api = &altered{KinesisAPI: w.api, getRecords: func(out *kinesis.GetRecordsOutput) { out.MillisBehindLatest = nil }}
			s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
			defer s.Close()
			time.Sleep(time.Minute) // empty pages are no end
			w.put(20)
			began := time.Now()
			if got, _ := w.take(ctx, s, 20); !cmp.Equal(got, numbers(0, 20)) {
				t.Errorf("got %v", got)
			}
			if took := time.Since(began); took > 3*time.Second { // full pages tell that there is more
				t.Errorf("20 records in pages of 3 took %v", took)
			}
			w.split(shard0)
			if data, end := w.toEnd(ctx, s); len(data) != 0 || len(end.Children) != 2 {
				t.Errorf("%v, %+v; want the end with two children", data, end)
			}
		})
	})
	for name, children := range map[string]bool{"the last page of a closed shard has records": true, "and names no children": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(20)
				w.split(shard0)
				w.api = &altered{KinesisAPI: w.api, getRecords: func(out *kinesis.GetRecordsOutput) {
					if out.NextShardIterator != nil {
						t.Errorf("a page of %d records goes on; the test wants one that is the last", len(out.Records))
					}
					if !children {
						out.ChildShards = nil
					}
				}}
				s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				data, end := w.toEnd(ctx, s)
				if !cmp.Equal(data, numbers(0, 20)) || end.Gone || len(end.Children) != 2 {
					t.Errorf("%v, %+v; want all records, then the end with two children", data, end)
				}
			})
		})
	}
}

// A record without a number could not be checkpointed, nor read on from: what is not told would be read again and again after each restart.
func TestBadInput_recordsWithoutANumberAreToldAndAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"", "hello", "LATEST", "SHARD_END"} {
		t.Run("polling "+number, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(10)
				began := time.Now()
				w.api = &altered{KinesisAPI: w.api, getRecords: func(out *kinesis.GetRecordsOutput) {
					if n := len(out.Records); n > 0 && time.Since(began) < time.Minute {
						out.Records[n-1].SequenceNumber = optional(number)
					}
				}}
				s := w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				if got, _ := w.take(ctx, s, 10); !cmp.Equal(got, numbers(0, 10)) {
					t.Errorf("got %v", got)
				}
				told := w.retried()
				if n := len(told); n < 10 || n > 60 || told[n-1].Attempt != n || !strings.Contains(told[0].Err.Error(), "the answer's last record has no sequence number") {
					t.Errorf("told %d times: %v", n, told)
				}
			})
		})
		t.Run("an event "+number, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(wholeEvent, `"SequenceNumber":"12"`, `"SequenceNumber":"`+number+`"`, 1)
			if _, _, err := read(bytes.NewReader(message(t, "event", ":event-type", "SubscribeToShardEvent", text))); err == nil || !strings.Contains(err.Error(), "has no sequence number") {
				t.Error(err)
			}
		})
	}
}

// What the service refuses for minutes costs nothing but those.
func TestBadInput_refusalsAreWaitedFor(t *testing.T) {
	t.Parallel()
	calls := map[config.RetrievalMode][]string{config.Polling: {"GetShardIterator", "GetRecords"}, config.FanOut: {"SubscribeToShard"}}
	for _, code := range []string{
		"InvalidArgumentException", "KMSAccessDeniedException", "KMSDisabledException", "KMSInvalidStateException", "KMSNotFoundException",
		"KMSOptInRequired", "KMSThrottlingException",
	} {
		for mode, operations := range calls {
			for _, operation := range operations {
				t.Run(code+"/"+operation, func(t *testing.T) {
					bubble(t, 1, func(ctx context.Context, w *world) {
						w.put(10)
						mend := w.server.Inject(emulator.Rule{Client: "reader", Operation: operation, Effect: emulator.Fail(400, code, "no")})
						var s processor.RecordSource
						if mode == config.FanOut {
							s = w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
						} else {
							s = w.open(ctx, w.polling(), shard0, checkpoint.TrimHorizon)
						}
						defer s.Close()
						time.Sleep(5 * time.Minute)
						told := w.retried()
						if n := len(told); n < 8 || n > 150 {
							t.Errorf("%d repetitions in 5 min, want no storm (one each 2 s) and no silence", n)
						}
						if last := told[len(told)-1]; !strings.Contains(last.Err.Error(), code) || last.LeaseKey != shard0 {
							t.Errorf("told was %+v, want the code and the lease", last)
						}
						mend()
						began := time.Now()
						if got, _ := w.take(ctx, s, 10); !cmp.Equal(got, numbers(0, 10)) {
							t.Errorf("got %v", got)
						}
						if took := time.Since(began); took > 31*time.Second {
							t.Errorf("it was read on %v after the refusals ended, want at most 30 s", took)
						}
					})
				})
			}
		}
	}
}

// Permissions may be given for some consumers or shards only. The others are read as ever.
func TestBadInput_accessDeniedOnOneShardOnly(t *testing.T) {
	t.Parallel()
	for _, mode := range []config.RetrievalMode{config.Polling, config.FanOut} {
		t.Run(string(mode), func(t *testing.T) {
			bubble(t, 2, func(ctx context.Context, w *world) {
				mend := w.server.Inject(emulator.Rule{
					Client: "reader", Effect: emulator.Fail(400, "AccessDeniedException", "not authorized"),
					Match: func(body []byte) bool { return bytes.Contains(body, []byte(shard0)) },
				})
				open := map[config.RetrievalMode]func(string) processor.RecordSource{
					config.Polling: func() func(string) processor.RecordSource {
						p := w.polling()
						return func(id string) processor.RecordSource { return w.open(ctx, p, id, checkpoint.TrimHorizon) }
					}(),
					config.FanOut: func() func(string) processor.RecordSource {
						f := w.fanOut()
						return func(id string) processor.RecordSource { return w.openFanOut(ctx, f, id, checkpoint.TrimHorizon) }
					}(),
				}[mode]
				denied, free := open(shard0), open(shard1)
				defer denied.Close()
				defer free.Close()
				time.Sleep(time.Minute)
				w.putRaw([]byte("0"), "0")
				w.putRaw([]byte("1"), "340282366920938463463374607431768211455")
				began := time.Now()
				if got := w.read(ctx, free, 1)[0]; string(got.Data) != "1" || time.Since(began) > 2*time.Second {
					t.Errorf("the other shard's record is %q, after %v", got.Data, time.Since(began))
				}
				for _, r := range w.retried() {
					if r.LeaseKey != shard0 {
						t.Errorf("a repetition for %s: %v", r.LeaseKey, r.Err)
					}
				}
				mend()
				if got := w.read(ctx, denied, 1)[0]; string(got.Data) != "0" {
					t.Errorf("the shard's own record is %q", got.Data)
				}
			})
		})
	}
}

// One subscription does what it should not; the records come once, in order, whatever follows. TestFanOut_survivesEachFault has more.
func TestBadInput_aSubscriptionThatSendsWhatItShouldNot(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]emulator.Effect{
		"an unknown event": emulator.UnknownEventAfter(1), "garbage": emulator.GarbageAfter(1), "garbage first": emulator.GarbageAfter(0),
		"nothing": emulator.SilenceAfter(0), "nothing any more": emulator.SilenceAfter(1),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(ctx context.Context, w *world) {
				w.put(10)
				w.server.Inject(emulator.Rule{Client: "reader", Operation: "SubscribeToShard", Times: 1, Effect: effect})
				s := w.openFanOut(ctx, w.fanOut(), shard0, checkpoint.TrimHorizon)
				defer s.Close()
				time.Sleep(time.Second)
				w.put(10)
				began := time.Now()
				if got, _ := w.take(ctx, s, 20); !cmp.Equal(got, numbers(0, 20)) || time.Since(began) > time.Minute {
					t.Errorf("after %v came %v, want 20 records within a minute", time.Since(began), got)
				}
			})
		})
	}
}
