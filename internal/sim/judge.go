package sim

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// judge watches the table and user code, and knows what was put. It is asked under the emulator's lock, so it never calls
// anybody.
type judge struct {
	*history
	prefixes []string // of the keys of each stream's leases

	twins atomic.Int32 // pairs of processes with one worker id: see enter

	mu      sync.Mutex
	rows    map[string]*row
	deleted map[string]bool // keys of rows that were deleted
	covered bool            // the rows have once covered the whole ring
	moves   int             // how often a lease changed hands
	from    time.Duration   // since the start: what was put before need not be read
	trims

	put     map[string][]putRecord // by lease, in order
	checked map[string]int         // by shard: so many of put were found handled under a checkpoint
	total   int
	handled map[record]bool
	newest  map[string]int // largest number of each key that was handled
	twice   int            // records handled again
}

// record is the n-th of its key.
type record struct {
	key string
	n   int
}

type putRecord struct {
	record
	lease  string // of its shard
	number string // its sequence number
	at     time.Duration
	told   bool // it lies in a gap that a Trimmed hook named
}

func newJudge(h *history, s Schedule) *judge {
	return &judge{
		history: h, prefixes: s.prefixes(), rows: map[string]*row{}, deleted: map[string]bool{}, put: map[string][]putRecord{},
		checked: map[string]int{}, handled: map[record]bool{}, newest: map[string]int{},
		trims: trims{
			retention: cmp.Or(s.Retention, day), may: s.Retention > 0, lives: map[string]*life{}, parents: map[string][]string{},
			closed: map[string]time.Duration{}, gone: map[string]bool{},
		},
	}
}

// produced notes a record that is in the stream.
func (j *judge) produced(shard, number, key string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.put[shard] = append(j.put[shard], putRecord{record: record{key, n}, lease: shard, number: number, at: time.Since(j.began)})
	j.total++
}

// countPut is how many records a shard got.
func (j *judge) countPut(shard string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.put[shard])
}

// missing is how many records were not handled and are still in the stream, or were a moment ago, and some of them.
func (j *judge) missing() (n int, some []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for shard, put := range j.put {
		for i := range put {
			if p := &put[i]; !j.handled[p.record] && !j.excused(p) && !j.past(p) {
				if n++; len(some) < 5 {
					some = append(some, p.String()+" in "+shard)
				}
			}
		}
	}
	slices.Sort(some)
	return n, some
}

// startsAt tells where the application starts: what was put before need not be read.
func (j *judge) startsAt(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.from = at.Sub(j.began)
}

// unhandled returns a record of the shard up to a sequence number that nobody has handled.
func (j *judge) unhandled(shard, number string) (p putRecord, found bool) {
	put := j.put[shard]
	for i := j.checked[shard]; i < len(put) && compareNumbers(put[i].number, number) <= 0; i++ {
		if !j.handled[put[i].record] && !j.excused(&put[i]) {
			return put[i], true
		}
		j.checked[shard] = i + 1
	}
	return putRecord{}, false
}

// covers tells a processor, as its own sink would, whether everything up to a place was handled.
func (j *judge) covers(shard, number string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, found := j.unhandled(shard, number)
	return !found
}

const shardEnd = "SHARD_END"

// compareNumbers orders sequence numbers and the words that stand for places, by their own rule and not the product's.
func compareNumbers(a, b string) int {
	rank := func(s string) int {
		switch s {
		case "", "AT_TIMESTAMP":
			return 0
		case "TRIM_HORIZON":
			return 1
		case "LATEST":
			return 2
		case shardEnd:
			return 4
		}
		return 3
	}
	if x, y := rank(a), rank(b); x != y || x != 3 {
		return x - y
	}
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
