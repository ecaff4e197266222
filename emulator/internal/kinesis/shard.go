package kinesis

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// record is what a producer put. It never changes.
type record struct {
	count uint64 // its sequence number
	at    int64  // arrival, Unix milliseconds
	key   string
	data  []byte
}

func (r *record) size() int { return len(r.data) + len(r.key) }

type shard struct {
	stream           *stream
	index            int
	id               string
	parent, adjacent *shard
	children         []*shard // those that took over its hash keys
	lo, hi           hash     // inclusive
	start, end       uint64   // counts; end is 0 while the shard is open
	tail             string   // of its sequence numbers
	born, closedAt   time.Time

	records []record
	first   int // records before it are trimmed
	// changed is closed, and forgotten, when a waiting subscription has to look again; nil while none waits.
	changed chan struct{}
}

func shardID(index int) string { return fmt.Sprintf("shardId-%012d", index) }

// shardIndex is the inverse of shardID.
func shardIndex(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, "shardId-")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && len(digits) == 12
}

func (x *shard) closed() bool { return x.end != 0 }

// append stores a record and returns its count. Arrival times never fall, whatever the clock does, so that they can be
// searched.
func (x *shard) append(now time.Time, key string, data []byte) uint64 {
	at := now.UnixMilli()
	if n := len(x.records); n > 0 {
		at = max(at, x.records[n-1].at)
	}
	count := x.stream.next()
	x.records = append(x.records, record{count: count, at: at, key: key, data: data})
	x.signal()
	return count
}

// wait returns the channel that is closed at the shard's next change.
func (x *shard) wait() <-chan struct{} {
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	return x.changed
}

func (x *shard) signal() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// trim forgets the records from before the horizon.
func (x *shard) trim(horizon time.Time) {
	live := x.records[x.first:]
	old := horizon.UnixMilli()
	if len(live) == 0 || live[0].at >= old {
		return
	}
	x.first += sort.Search(len(live), func(i int) bool { return live[i].at >= old })
	if x.first > len(x.records)/2 { // a copy: pages that are being encoded still use the old array
		x.records, x.first = slices.Clone(x.records[x.first:]), 0
	}
}

// page is what one read gives.
type page struct {
	records []record
	next    uint64 // where the next read starts
	behind  int64  // milliseconds behind the tip
	atEnd   bool   // nothing will ever follow
}

// read gives the records at and after from: at most limit of them, and at least one, however large, but otherwise no more
// than maxBytes.
func (x *shard) read(now time.Time, from uint64, limit, maxBytes int) page {
	live := x.records[x.first:]
	i := sort.Search(len(live), func(i int) bool { return live[i].count >= from })
	end, size := i, 0
	for end < len(live) && end-i < limit {
		size += live[end].size()
		if size > maxBytes && end > i {
			break
		}
		end++
	}
	p := page{records: live[i:end:end], next: from}
	if end > i {
		p.next = live[end-1].count + 1
	}
	if end < len(live) {
		// How old is the newest record that the reader has, or the next one if this page brings none? At least 1:
		// 0 says that nothing is left.
		p.behind = max(1, now.UnixMilli()-live[max(i, end-1)].at)
	}
	p.atEnd = x.closed() && end == len(live)
	return p
}

// since is the count from which records that arrived at or after t are found.
func (x *shard) since(t time.Time) uint64 {
	live := x.records[x.first:]
	i := sort.Search(len(live), func(i int) bool { return live[i].at >= t.UnixMilli() })
	if i == len(live) {
		return x.stream.count + 1
	}
	return live[i].count
}
