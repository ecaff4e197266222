package retrieval

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"pgregory.net/rapid"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/emulator"
)

// Random puts, splits and merges while the network fails now and then: following the children that the ends name, a reader
// gets every record once, and each key's records in order.
func TestPolling_deliversARandomHistoryOnceAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		shards := rapid.IntRange(1, 4).Draw(rt, "shards")
		limit := rapid.IntRange(1, 50).Draw(rt, "records a page")
		seed := rapid.Uint64().Draw(rt, "seed of the faults")
		type step struct{ puts, reshard, at int }
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.IntRange(0, 25).Draw(t, "puts"), rapid.IntRange(0, 2).Draw(t, "reshard"), rapid.IntRange(0, 7).Draw(t, "at")}
		}), 1, 8).Draw(rt, "steps")
		if err := history(t, shards, limit, seed, func(w *world) {
			for _, s := range steps {
				w.putKeyed(s.puts, func(i int) string { return strconv.Itoa(i % 7) })
				time.Sleep(time.Second)
				w.reshard(s.reshard, s.at)
			}
		}); err != nil {
			rt.Fatal(err)
		}
	})
}

// reshard splits one of the open shards, or merges it with the next, if it can.
func (w *world) reshard(kind, at int) {
	var open []string
	byStart := w.list()
	parsed := map[string]string{}
	for _, s := range byStart {
		if s.SequenceNumberRange.EndingSequenceNumber == nil {
			open = append(open, *s.ShardId)
			parsed[*s.ShardId] = fmt.Sprintf("%039s", *s.HashKeyRange.StartingHashKey)
		}
	}
	slices.SortFunc(open, func(a, b string) int { return slices.Compare([]byte(parsed[a]), []byte(parsed[b])) })
	i := at % len(open)
	switch {
	case kind == 1 && len(open) < 8:
		w.split(open[i])
	case kind == 2 && i+1 < len(open):
		w.merge(open[i], open[i+1])
	}
}

func history(t *testing.T, shards, limit int, seed uint64, write func(*world)) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: emulator.New(), cfg: config.RetrievalConfig{
			MaxRecords: limit, IdleTime: 200 * time.Millisecond, MaxIdleTime: time.Second,
			ByteBudget: 10 << 20, MaxPendingBatches: 3, RequestTimeout: 30 * time.Second,
		}}
		if err = w.server.CreateStream(stream, shards); err != nil {
			return
		}
		w.user = kinesis.NewFromConfig(w.server.ClientConfig("user"))
		w.api = kinesis.NewFromConfig(w.server.ClientConfig("reader"))
		for _, e := range []emulator.Effect{emulator.Throttle(), emulator.DropReply(), emulator.CutBody(150), emulator.Fail(400, "ExpiredIteratorException", "")} {
			w.server.Inject(emulator.Rule{Client: "reader", Operation: "GetRecords", Probability: 0.05, Seed: seed, Effect: e})
			seed++
		}
		write(w)
		// Every open shard ends, so that reading does too.
		for _, s := range w.list() {
			if s.SequenceNumberRange.EndingSequenceNumber == nil {
				w.split(*s.ShardId)
			}
		}
		err = w.readTree(t.Context(), shards)
	})
	return err
}

// readTree reads the first shards and whatever follows them, children after both parents, and checks what came.
func (w *world) readTree(ctx context.Context, shards int) error {
	p := w.polling()
	var (
		ended = map[string]bool{}
		got   []string
		next  []string
		last  = map[int]int{}
	)
	for i := range shards {
		next = append(next, fmt.Sprintf("shardId-%012d", i))
	}
	open := map[string]bool{}
	for _, s := range w.list() {
		open[*s.ShardId] = s.SequenceNumberRange.EndingSequenceNumber == nil
	}
	for len(next) > 0 {
		id := next[0]
		next = next[1:]
		if ended[id] || open[id] {
			continue
		}
		s := w.open(ctx, p, id, checkpoint.TrimHorizon)
		data, end := w.toEnd(ctx, s)
		s.Close()
		ended[id] = true
		got = append(got, data...)
		for _, d := range data {
			var n int
			if _, err := fmt.Sscan(d, &n); err != nil {
				return err
			}
			if before, ok := last[n%7]; ok && before >= n {
				return fmt.Errorf("shard %s: record %d of key %d comes after %d", id, n, n%7, before)
			}
			last[n%7] = n
		}
		for _, c := range end.Children {
			if !slices.ContainsFunc(c.ParentIDs, func(p string) bool { return !ended[p] }) {
				next = append(next, c.ID)
			}
		}
	}
	seen := map[string]int{}
	for _, d := range got {
		seen[d]++
	}
	for i := range w.n {
		if n := seen[strconv.Itoa(i)]; n != 1 {
			return fmt.Errorf("record %d was delivered %d times", i, n)
		}
	}
	if len(got) != w.n {
		return fmt.Errorf("%d records were delivered, %d put", len(got), w.n)
	}
	return nil
}
