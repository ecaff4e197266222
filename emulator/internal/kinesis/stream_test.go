package kinesis

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestStream_coversTheRingOnceAndLosesNothing reshards at random while records come in.
func TestStream_coversTheRingOnceAndLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		s := newStream(now, "orders", provisioned, rapid.IntRange(1, 5).Draw(t, "shards"))
		put := 0
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "ms")) * time.Millisecond)
			i := rapid.IntRange(0, len(s.open)-1).Draw(t, "shard")
			x := s.open[i]
			switch rapid.SampledFrom([]string{"put", "split", "merge", "scale"}).Draw(t, "step") {
			case "put":
				key := strconv.Itoa(rapid.Int().Draw(t, "key"))
				s.route(hashOf(key)).append(now, key, []byte(key))
				put++
			case "split":
				if at := (hash{rapid.Uint64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")}); x.lo.compare(at) < 0 && at.compare(x.hi) < 0 {
					s.split(now, x, at)
				}
			case "merge":
				if i+1 < len(s.open) {
					s.merge(now, x, s.open[i+1])
				}
			case "scale":
				want := rapid.IntRange(1, 8).Draw(t, "want")
				if s.scale(now, want); len(s.open) != want {
					t.Fatalf("scaled to %d shards, want %d", len(s.open), want)
				}
			}
			checkRing(t, s)
		}
		checkFamily(t, s)
		read := 0
		for _, x := range s.shards {
			from := x.start
			for {
				p := x.read(now, from, 3, maxPageBytes)
				for _, r := range p.records {
					if h := hashOf(r.key); h.compare(x.lo) < 0 || h.compare(x.hi) > 0 {
						t.Fatalf("shard %s, %s to %s, holds a record of hash key %s", x.id, x.lo, x.hi, h)
					}
				}
				read += len(p.records)
				if len(p.records) == 0 {
					if p.atEnd != x.closed() {
						t.Fatalf("shard %s: at its end is %v, closed is %v", x.id, p.atEnd, x.closed())
					}
					break
				}
				from = p.next
			}
		}
		if read != put {
			t.Fatalf("%d records read, %d put", read, put)
		}
	})
}

func checkRing(t *rapid.T, s *stream) {
	t.Helper()
	if s.open[0].lo != (hash{}) || s.open[len(s.open)-1].hi != maxHash {
		t.Fatalf("the open shards reach from %s to %s", s.open[0].lo, s.open[len(s.open)-1].hi)
	}
	for i, x := range s.open[1:] {
		if !s.open[i].precedes(x) || x.closed() {
			t.Fatalf("shard %s ends at %s, %s starts at %s", s.open[i].id, s.open[i].hi, x.id, x.lo)
		}
	}
}

// checkFamily wants every child to begin behind the ends of its parents, and every sequence number to be found again.
func checkFamily(t *rapid.T, s *stream) {
	t.Helper()
	for _, x := range s.shards {
		for _, p := range []*shard{x.parent, x.adjacent} {
			if p != nil && (!p.closed() || p.end >= x.start || p.sequence(p.end) >= x.sequence(x.start)) {
				t.Fatalf("child %s starts at %s, its parent %s ends at %s", x.id, x.sequence(x.start), p.id, p.sequence(p.end))
			}
		}
		last := x.sequence(x.start)
		for _, r := range x.records {
			number := x.sequence(r.count)
			if number <= last || len(number) != sequenceDigits {
				t.Fatalf("sequence number %s after %s", number, last)
			}
			at, ok1 := x.parseSequence(number, false)
			after, ok2 := x.parseSequence(number, true)
			if !ok1 || !ok2 || at != r.count || after != r.count+1 {
				t.Fatalf("%s is found at %d and after %d, want %d and %d", number, at, after, r.count, r.count+1)
			}
			last = number
		}
	}
}

func TestShard_trimKeepsWhatIsBeingEncoded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s := newStream(now, "orders", provisioned, 1)
	x := s.shards[0]
	for i := range 100 {
		x.append(now.Add(time.Duration(i)*time.Minute), "k", fmt.Appendf(nil, "%d", i))
	}
	p := x.read(now, x.start, 10, maxPageBytes)
	for i := range 100 {
		x.trim(now.Add(time.Duration(i) * time.Minute))
		if got := x.read(now, x.start, 1, maxPageBytes).records[0]; string(got.data) != strconv.Itoa(i) {
			t.Fatalf("after %d minutes the first record is %s, want %d", i, got.data, i)
		}
	}
	for i, r := range p.records {
		if string(r.data) != strconv.Itoa(i) {
			t.Errorf("record %d of the old page became %s", i, r.data)
		}
	}
}
