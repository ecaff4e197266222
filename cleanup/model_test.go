package cleanup

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/config"
	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/leases"
)

// history is a stream with all shards that it ever had, and the truth about them.
type history struct {
	shards []*past
	byID   map[string]*past
}

type past struct {
	Shard
	children []string
	gone     bool // forgotten by the service
}

func (s *past) open() bool { return len(s.children) == 0 }

// keysOf is a range by the upper words of its ends.
func keysOf(from, to uint64) hashkey.Range {
	return hashkey.Range{Start: hashkey.Key{Hi: from}, End: hashkey.Key{Hi: to, Lo: math.MaxUint64}, Known: true}
}

func newHistory(shards int) *history {
	h := &history{byID: map[string]*past{}}
	width := math.MaxUint64/uint64(shards) + 1
	for i := range uint64(shards) {
		to := (i+1)*width - 1
		if int(i) == shards-1 {
			to = math.MaxUint64
		}
		h.add(keysOf(i*width, to))
	}
	return h
}

func (h *history) add(keys hashkey.Range, parents ...*past) {
	s := &past{Shard: Shard{ID: fmt.Sprintf("s%03d", len(h.shards)), HashKeyRange: keys}}
	for _, p := range parents {
		s.ParentIDs = append(s.ParentIDs, p.ID)
		p.children = append(p.children, s.ID)
	}
	h.shards = append(h.shards, s)
	h.byID[s.ID] = s
}

func (h *history) get(id string) *past {
	return h.byID[id]
}

func (h *history) openShards() (open []*past) {
	for _, s := range h.shards {
		if s.open() {
			open = append(open, s)
		}
	}
	slices.SortFunc(open, func(a, b *past) int { return a.HashKeyRange.Compare(b.HashKeyRange) })
	return open
}

// reshard splits or merges at random.
func (h *history) reshard(rng *rand.Rand) {
	open := h.openShards()
	i := rng.IntN(len(open))
	s := open[i]
	if i+1 < len(open) && rng.IntN(2) == 0 {
		next := open[i+1]
		h.add(hashkey.Range{Start: s.HashKeyRange.Start, End: next.HashKeyRange.End, Known: true}, s, next)
		return
	}
	from, to := s.HashKeyRange.Start.Hi, s.HashKeyRange.End.Hi
	if to-from < 2 {
		return
	}
	middle := from + (to-from)/2
	h.add(keysOf(from, middle), s)
	h.add(keysOf(middle+1, to), s)
}

// together is the range of neighbours together.
func together(shards []*past) hashkey.Range {
	return hashkey.Range{Start: shards[0].HashKeyRange.Start, End: shards[len(shards)-1].HashKeyRange.End, Known: true}
}

// forget makes the service forget the n oldest shards, as far as they are closed.
func (h *history) forget(n int) {
	for _, s := range h.shards[:min(n, len(h.shards))] {
		s.gone = !s.open()
	}
}

func (h *history) list(context.Context) ([]Shard, error) {
	var listed []Shard
	for _, s := range h.shards {
		if !s.gone {
			listed = append(listed, s.Shard)
		}
	}
	return listed, nil
}

func (h *history) lease(s *past, at checkpoint.ExtendedSequenceNumber) leases.Lease {
	return leases.Lease{Key: s.ID, Checkpoint: at, ParentShardIDs: s.ParentIDs, HashKeyRange: s.HashKeyRange}
}

// memTable is a lease table of which every call happens at one moment.
type memTable struct {
	mu      sync.Mutex
	rows    map[string]leases.Lease
	deleted []string
	check   func(l leases.Lease) // before a row goes; the rows are as they are
}

func newMemTable(rows ...leases.Lease) *memTable {
	t := &memTable{rows: map[string]leases.Lease{}}
	for _, l := range rows {
		t.rows[l.Key] = l
	}
	return t
}

func (t *memTable) Get(_ context.Context, key string) (leases.Lease, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, there := t.rows[key]
	return l, there, nil
}

func (t *memTable) Delete(_ context.Context, seen leases.Lease) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, there := t.rows[seen.Key]
	switch {
	case !there:
		return nil
	case l.Counter != seen.Counter || l.Checkpoint != seen.Checkpoint:
		return fmt.Errorf("delete lease %s: %w", seen.Key, leases.ErrLeaseLost)
	}
	if t.check != nil {
		t.check(l)
	}
	delete(t.rows, seen.Key)
	t.deleted = append(t.deleted, seen.Key)
	return nil
}

func (t *memTable) list() []leases.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.rows), func(a, b leases.Lease) int { return strings.Compare(a.Key, b.Key) })
}

func (t *memTable) keys() string {
	var keys []string
	for _, l := range t.list() {
		keys = append(keys, l.Key)
	}
	return strings.Join(keys, " ")
}

// live lets the world go on by one step that workers can take: a renewal, a checkpoint, or the end of a closed shard, its
// children's rows first.
func (t *memTable) live(h *history, rng *rand.Rand) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, there := t.rows[h.shards[rng.IntN(len(h.shards))].ID]
	if !there {
		return
	}
	l.Counter++
	waits := slices.ContainsFunc(l.ParentShardIDs, func(id string) bool {
		p, there := t.rows[id]
		return there && !p.Finished()
	})
	if !l.Finished() && !waits {
		switch s := h.get(l.Key); {
		case s.open() || rng.IntN(3) == 0:
			l.Checkpoint = at(strconv.FormatInt(l.Counter+1, 10))
		case rng.IntN(2) == 0:
			t.end(h, &l)
		}
	}
	t.rows[l.Key] = l
}

// end does nothing while the other parent of a merge has not been reached, as shard sync does, nor where the table is one that
// no worker makes: a child was finished first, or has no row although shards after it have.
func (t *memTable) end(h *history, l *leases.Lease) {
	s := h.get(l.Key)
	for _, id := range s.children {
		if c, there := t.rows[id]; there {
			if c.Finished() {
				return
			}
			continue
		}
		for _, p := range h.get(id).ParentIDs {
			if _, there := t.rows[p]; !there {
				return
			}
		}
		if t.leasedAfter(h, id) {
			return
		}
	}
	for _, id := range s.children {
		if _, there := t.rows[id]; !there {
			t.rows[id] = h.lease(h.get(id), checkpoint.TrimHorizon)
		}
	}
	l.ChildShardIDs = s.children
	l.Checkpoint = checkpoint.ShardEnd
}

// leasedAfter reports whether a descendant of a shard has a row.
func (t *memTable) leasedAfter(h *history, id string) bool {
	return slices.ContainsFunc(h.get(id).children, func(child string) bool {
		_, there := t.rows[child]
		return there || t.leasedAfter(h, child)
	})
}

// mayGo says what is wrong with deleting l now, by the truth about its shard; empty if nothing is.
func (t *memTable) mayGo(h *history, l leases.Lease) string {
	s := h.get(l.Key)
	if !l.Finished() {
		return "it is not finished"
	}
	for _, id := range s.ParentIDs {
		if _, there := t.rows[id]; there {
			return "its parent " + id + " has a row"
		}
	}
	wrong := ""
	if len(s.children) == 0 {
		wrong = "its shard is open"
	}
	for _, id := range s.children {
		c, there := t.rows[id]
		if !there || c.Checkpoint == checkpoint.TrimHorizon || c.Checkpoint == checkpoint.AtTimestamp ||
			c.Checkpoint == checkpoint.Latest && c.StartAtMillis == 0 {
			wrong = "its child " + id + " has not begun"
		}
	}
	if wrong == "" || !s.gone {
		return wrong
	}
	var open []hashkey.Range // as they are, also where a row does not say
	for _, c := range t.rows {
		if !c.Finished() {
			open = append(open, h.get(c.Key).HashKeyRange)
		}
	}
	if !union(open).cover(s.HashKeyRange) {
		return wrong + " and its keys are not covered"
	}
	return ""
}

// newManager is one that does one thing after the other, in a known order.
func newManager(t leaseTable, h *history, rows func() []leases.Lease, hooks *config.Hooks) *LeaseCleanupManager {
	m := NewLeaseCleanupManager(t, config.LeaseCleanupConfig{}, Options{
		Worker: "w", Rows: rows, IsLeader: func() bool { return true }, Shards: h.list, Hooks: hooks,
	})
	m.atOnce = 1
	return m
}

// mustPass makes a pass that must not fail.
func mustPass(tb testing.TB, m *LeaseCleanupManager) Result {
	tb.Helper()
	res, err := m.Pass(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return res
}
