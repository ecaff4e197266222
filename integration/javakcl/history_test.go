//go:build unix

package javakcl

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardlease/shardlease/checkpoint"
	"github.com/shardlease/shardlease/emulator"
)

// history is what was written to the lease table, in the order in which it took effect.
type history struct {
	table string
	taken func(key, owner, from string) // a lease has a new owner

	mu      sync.Mutex
	rows    map[string]lease
	moves   []move
	wrote   map[string]time.Time // by key: when its owner, or who made it so, last did
	writes  map[string]int       // of leases, by who wrote
	regress []string             // checkpoints that went back, and rows that came back
	gone    map[string]bool
}

// lease is the row of one.
type lease struct {
	owner      string // who reads it
	checkpoint string
}

func (l lease) finished() bool { return l.checkpoint == checkpoint.ShardEnd.SequenceNumber }

// move is a change of owner, none included.
type move struct {
	at            time.Time
	key, from, to string
	by            string        // who wrote it
	idle          time.Duration // how long nobody had written to the row; more than FailoverTime, and it was free to be taken
}

func (m move) String() string {
	return fmt.Sprintf("%s %s: %q to %q by %s, %.1f s after the last write", m.at.Format("15:04:05.000"), m.key, m.from, m.to, m.by, m.idle.Seconds())
}

// isLease tells leases from the rows of KCL 3.5 for other things.
func isLease(i emulator.Item) bool {
	entity := i.Text("entityType")
	return i.Exists() && (entity == "" || entity == "LEASE")
}

func leaseOf(i emulator.Item) lease {
	l := lease{owner: i.Text("leaseOwner"), checkpoint: i.Text("checkpoint")}
	if old := i.Text("checkpointOwner"); old != "" {
		l.owner = old // until it has handed over
	}
	return l
}

// observe is called by the emulator for each write.
func (h *history) observe(c emulator.ItemChange) {
	if c.Table != h.table || !isLease(c.Old) && !isLease(c.New) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[c.Client]++
	old, is := leaseOf(c.Old), leaseOf(c.New)
	key := c.New.Text("leaseKey")
	switch {
	case !c.New.Exists():
		key = c.Old.Text("leaseKey")
		delete(h.rows, key)
		h.gone[key] = true
		return
	case !c.Old.Exists():
		if h.gone[key] {
			h.regress = append(h.regress, fmt.Sprintf("%s: deleted, and made again at %s by %s", key, is.checkpoint, c.Client))
		}
	default:
		before, err1 := checkpoint.Parse(old.checkpoint)
		after, err2 := checkpoint.Parse(is.checkpoint)
		if err1 != nil || err2 != nil || after.Compare(before) < 0 {
			h.regress = append(h.regress, fmt.Sprintf("%s: from %s to %s by %s", key, old.checkpoint, is.checkpoint, c.Client))
		}
	}
	h.rows[key] = is
	idle := c.At.Sub(h.wrote[key])
	h.wrote[key] = c.At
	if is.owner != old.owner {
		h.moves = append(h.moves, move{c.At, key, old.owner, is.owner, c.Client, idle})
		if is.owner != "" {
			h.taken(key, is.owner, old.owner)
		}
	}
}

// shares counts the unfinished leases of each worker; "" has those of nobody.
func (h *history) shares() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	shares := map[string]int{}
	for _, l := range h.rows {
		if !l.finished() {
			shares[l.owner]++
		}
	}
	return shares
}

// keysOf are the unfinished leases of a worker.
func (h *history) keysOf(owner string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var keys []string
	for key, l := range h.rows {
		if l.owner == owner && !l.finished() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// ownerOf is who reads a lease.
func (h *history) ownerOf(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows[key].owner
}

// movesSince are those of unfinished leases and finished ones alike.
func (h *history) movesSince(at time.Time) []move {
	h.mu.Lock()
	defer h.mu.Unlock()
	var since []move
	for _, m := range h.moves {
		if m.at.After(at) {
			since = append(since, m)
		}
	}
	return since
}

// ended tells whether a lease is finished, or was and is gone.
func (h *history) ended(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone[key] || h.rows[key].finished()
}

// read tells whether a lease has an owner, and has left the position that it was made at.
func (h *history) read(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, err := checkpoint.Parse(h.rows[key].checkpoint)
	return h.gone[key] || err == nil && h.rows[key].owner != "" && at.Compare(checkpoint.Latest) > 0
}

func (h *history) writers() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.writes)
}
