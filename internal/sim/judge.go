package sim

import (
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
	failover time.Duration
	prefixes []string // of the keys of each stream's leases

	twins atomic.Int32 // pairs of processes with one worker id: see enter

	mu      sync.Mutex
	rows    map[string]*row
	deleted map[string]bool // keys of rows that were deleted
	covered bool            // the rows have once covered the whole ring
	moves   int             // how often a lease changed hands
	trimmed time.Duration   // since the start: what was put before is not there any more
	from    time.Duration   // since the start: what was put before need not be read

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
	number string // its sequence number
	at     time.Duration
}

func newJudge(h *history, failover time.Duration, prefixes []string) *judge {
	return &judge{
		history: h, failover: failover, prefixes: prefixes, rows: map[string]*row{}, deleted: map[string]bool{}, put: map[string][]putRecord{},
		checked: map[string]int{}, handled: map[record]bool{}, newest: map[string]int{},
	}
}

// produced notes a record that is in the stream.
func (j *judge) produced(shard, number, key string, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.put[shard] = append(j.put[shard], putRecord{record{key, n}, number, time.Since(j.began)})
	j.total++
}

// missing is how many records were not handled and are not lost by an announced trim, and some of them.
func (j *judge) missing() (n int, some []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for shard, put := range j.put {
		for _, p := range put {
			if !j.handled[p.record] && !j.gone(p) {
				if n++; len(some) < 5 {
					some = append(some, p.String()+" in "+shard)
				}
			}
		}
	}
	slices.Sort(some)
	return n, some
}

// gone reports whether a record was trimmed before anybody may have read it, or lies before the place where the application started.
func (j *judge) gone(p putRecord) bool { return p.at <= max(j.trimmed, j.from) }

// startsAt tells where the application starts: what was put before need not be read.
func (j *judge) startsAt(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.from = at.Sub(j.began)
}

// trim announces that everything put so far may be gone.
func (j *judge) trim() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trimmed = time.Since(j.began)
}

// unhandled returns a record of the shard up to a sequence number that nobody has handled.
func (j *judge) unhandled(shard, number string) (p putRecord, found bool) {
	put := j.put[shard]
	for i := j.checked[shard]; i < len(put) && compareNumbers(put[i].number, number) <= 0; i++ {
		if !j.handled[put[i].record] && !j.gone(put[i]) {
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
