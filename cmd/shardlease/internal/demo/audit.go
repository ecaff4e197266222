package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// evidence is what an audit judges.
type evidence struct {
	produced map[string]int64 // by key: records 1 to n of it were stored
	arrivals []arrival        // of each worker in the order of its reports; kinds other than taken and batch are ignored
	fates    []fate           // what was done to workers
}

// fate is the end of one worker.
type fate struct {
	worker string
	what   string // "kill -9" or "graceful stop"
	at     time.Duration
	held   []string // the shards it was reading
}

func (f fate) String() string { return f.what + " of " + f.worker }

// verdict is the outcome of an audit.
type verdict struct {
	produced   int64
	delivered  int64            // different records
	lost       int64            // produced and never delivered
	unknown    int64            // delivered and never produced
	duplicates map[string]int64 // deliveries of a record after its first, by what caused them
	outOfOrder int64
	examples   []string // the first few of what must not be
	moves      []move
	table      *inventory // nil: not looked at
}

// ok tells that nothing happened that must not.
func (v verdict) ok() bool {
	return v.lost == 0 && v.outOfOrder == 0 && v.unknown == 0 && (v.table == nil || len(v.table.missing()) == 0)
}

func (v *verdict) blame(format string, args ...any) {
	if len(v.examples) < 5 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// move is how one shard came to its next owner after a fate.
type move struct {
	fate  fate
	shard string
	to    string        // empty: nobody took it
	taken time.Duration // from the fate to the take; negative: never
	first time.Duration // from the fate to the new owner's first record; negative: there was none
	gap   time.Duration // from the old owner's last record to the new owner's first; negative: one of them is missing
}

// tenure is what one worker delivered of one shard under one fencing token.
type tenure struct {
	shard   string
	token   int64
	worker  string
	from    time.Duration // of the first batch
	batches []arrival
}

// audit judges. Records of one key are ordered by the tenures that delivered them, not by when a report reached the parent
// (two pipes may be read in any order): a later tenure of a shard has the larger token, and the emulator numbers a shard's
// children above it. Two things are out of order: a record that comes first after a later one of its key came, and, within
// one tenure, a record that comes again or after a later one. A later tenure may repeat what an earlier one delivered
// without a checkpoint; these are the duplicates.
func audit(e evidence) verdict {
	v := verdict{duplicates: map[string]int64{}}
	tenures := tenuresOf(e.arrivals)
	first := map[string][]*tenure{} // by key, at number-1: which tenure delivered it first
	for key, n := range e.produced {
		v.produced += n
		first[key] = make([]*tenure, n)
	}
	highest := map[string]int64{}
	for _, t := range tenures {
		last := map[string]int64{}
		for _, b := range t.batches {
			for i, key := range b.Keys {
				n := b.Numbers[i]
				if n < 1 || n > int64(len(first[key])) {
					v.unknown++
					v.blame("%s number %d, delivered by %s from %s, was never produced", key, n, t.worker, t.shard)
					continue
				}
				at := &first[key][n-1]
				switch {
				case n <= last[key]:
					v.outOfOrder++
					v.blame("%s number %d came after number %d, both from %s by %s in one tenure", key, n, last[key], t.shard, t.worker)
				case *at == nil && n < highest[key]:
					v.outOfOrder++
					v.blame("%s number %d first came after number %d, from %s by %s", key, n, highest[key], t.shard, t.worker)
				}
				last[key] = max(last[key], n)
				if *at != nil {
					v.duplicates[cause(*at, t, e.fates)]++
					continue
				}
				*at = t
				v.delivered++
				highest[key] = max(highest[key], n)
			}
		}
	}
	v.lost = v.produced - v.delivered
	for _, key := range slices.Sorted(maps.Keys(first)) {
		for i, by := range first[key] {
			if by == nil {
				v.blame("%s number %d was never delivered", key, i+1)
			}
		}
	}
	v.moves = movesOf(e, tenures)
	return v
}

// tenuresOf groups batches, in the order in which the tenures must have followed each other.
func tenuresOf(arrivals []arrival) []*tenure {
	type id struct {
		shard  string
		token  int64
		worker string
	}
	by := map[id]*tenure{}
	var all []*tenure
	for _, a := range arrivals {
		if a.Kind != batch {
			continue
		}
		k := id{a.Shard, a.Token, a.worker}
		t := by[k]
		if t == nil {
			t = &tenure{shard: a.Shard, token: a.Token, worker: a.worker, from: a.at}
			by[k] = t
			all = append(all, t)
		}
		t.batches = append(t.batches, a)
	}
	slices.SortStableFunc(all, func(a, b *tenure) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.token, b.token), cmp.Compare(a.from, b.from))
	})
	return all
}

// cause names what made a record come again.
func cause(was, is *tenure, fates []fate) string {
	if was == is {
		return "the same tenure"
	}
	for _, f := range fates {
		if f.worker == was.worker && f.at <= is.from {
			return f.String()
		}
	}
	return fmt.Sprintf("move of a lease from %s to %s", was.worker, is.worker)
}

func endedBy(e evidence, worker, shard string) bool {
	return slices.ContainsFunc(e.arrivals, func(a arrival) bool { return a.Kind == ended && a.Shard == shard && a.worker == worker })
}

// movesOf finds where the shards of each fate went.
func movesOf(e evidence, tenures []*tenure) []move {
	var moves []move
	for _, f := range e.fates {
		for _, shard := range f.held {
			m := move{fate: f, shard: shard, taken: -1, first: -1, gap: -1}
			for _, a := range e.arrivals {
				if a.Kind == taken && a.Shard == shard && a.worker != f.worker && a.at >= f.at && (m.taken < 0 || a.at-f.at < m.taken) {
					m.taken, m.to = a.at-f.at, a.worker
				}
			}
			old := time.Duration(-1)
			for _, t := range tenures {
				switch {
				case t.shard != shard:
				case t.worker == f.worker:
					old = max(old, t.batches[len(t.batches)-1].at)
				case t.from >= f.at && (m.first < 0 || t.from-f.at < m.first):
					m.first = t.from - f.at
				}
			}
			if old >= 0 && m.first >= 0 {
				m.gap = f.at + m.first - old
			}
			if m.to == "" && endedBy(e, f.worker, shard) {
				continue // it had an end before it could have another owner
			}
			moves = append(moves, m)
		}
	}
	return moves
}
