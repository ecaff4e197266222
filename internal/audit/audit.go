package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Evidence is what [Judge] judges.
type Evidence struct {
	Produced map[string]int64 // by key: records 1 to n of it were put
	// Doubtful are those of them of which nobody knows whether they were stored, as the answer to the put got lost. They need not
	// arrive, but if they do, in order.
	Doubtful map[string]map[int64]bool
	Arrivals []Arrival // of each worker in the order of its reports; kinds other than taken, batch, refused and ended are ignored
	Fates    []Fate    // what was done to workers, in the order of time
}

// The fates that [Verdict.PrintMoves] knows.
const (
	Killed  = "kill -9"
	Stopped = "graceful stop"
)

// Fate is something that was done to one worker, or to all.
type Fate struct {
	Worker string // "": all
	What   string // Killed, Stopped, or other words
	At     time.Duration
	Held   []string // the shards it was reading, if it is to be known what became of them
}

func (f Fate) String() string {
	if f.Worker == "" {
		return f.What
	}
	return f.What + " of " + f.Worker
}

// Verdict is the outcome of an audit.
type Verdict struct {
	Produced   int64            // without those in doubt that did not arrive
	Delivered  int64            // different records
	Lost       int64            // produced and never delivered
	Unknown    int64            // delivered and never produced
	Doubtful   int64            // put, perhaps stored, and never delivered
	Duplicates map[string]int64 // deliveries of a record after its first, by what caused them
	OutOfOrder int64
	Examples   []string // the first few of what must not be
	Moves      []Move
}

// OK tells that nothing happened that must not.
func (v Verdict) OK() bool { return v.Lost == 0 && v.OutOfOrder == 0 && v.Unknown == 0 }

// Repeated is how many deliveries were not a record's first.
func (v Verdict) Repeated() (n int64) {
	for _, d := range v.Duplicates {
		n += d
	}
	return n
}

func (v *Verdict) blame(format string, args ...any) {
	if len(v.Examples) < 5 {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// Move is how one shard came to its next owner after a fate.
type Move struct {
	Fate  Fate
	Shard string
	To    string        // empty: nobody took it
	Taken time.Duration // from the fate to the take; negative: never
	First time.Duration // from the fate to the new owner's first record; negative: there was none
	Gap   time.Duration // from the old owner's last record to the new owner's first; negative: one of them is missing
}

// tenure is what one worker delivered of one shard under one fencing token.
type tenure struct {
	shard   string
	token   int64
	worker  string
	from    time.Duration // of the first batch
	batches []given
}

// given is one batch.
type given struct {
	Arrival
	again bool // it is the batch before, whose checkpoint had failed
}

// Judge judges. Records of one key are ordered by the tenures that delivered them, not by when a report reached the parent
// (two pipes may be read in any order): a later tenure of a shard has the larger token, and Kinesis numbers a shard's
// children above it. Two things are out of order: a record that comes first after a later one of its key came, and, within
// one tenure, a record that comes again or after a later one, unless the whole batch comes again after its checkpoint failed.
// A later tenure may repeat what an earlier one delivered without a checkpoint; these, and repeated batches, are the duplicates.
func Judge(e Evidence) Verdict {
	v := Verdict{Duplicates: map[string]int64{}}
	tenures := tenuresOf(e.Arrivals)
	first := map[string][]*tenure{} // by key, at number-1: which tenure delivered it first
	for key, n := range e.Produced {
		first[key] = make([]*tenure, n)
	}
	highest := map[string]int64{}
	for _, t := range tenures {
		last := map[string]int64{}
		for _, b := range t.batches {
			for i, key := range b.Keys {
				n := b.Numbers[i]
				if n < 1 || n > int64(len(first[key])) {
					v.Unknown++
					v.blame("%s number %d, delivered by %s from %s, was never produced", key, n, t.worker, t.shard)
					continue
				}
				at := &first[key][n-1]
				switch {
				case b.again:
				case n <= last[key]:
					v.OutOfOrder++
					v.blame("%s number %d came after number %d, both from %s by %s in one tenure", key, n, last[key], t.shard, t.worker)
				case *at == nil && n < highest[key]:
					v.OutOfOrder++
					v.blame("%s number %d first came after number %d, from %s by %s", key, n, highest[key], t.shard, t.worker)
				}
				last[key] = max(last[key], n)
				if *at != nil {
					v.Duplicates[cause(*at, t, b, e.Fates)]++
					continue
				}
				*at = t
				v.Delivered++
				highest[key] = max(highest[key], n)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		for i, by := range first[key] {
			switch {
			case by != nil:
			case e.Doubtful[key][int64(i+1)]:
				v.Doubtful++
			default:
				v.Lost++
				v.blame("%s number %d was never delivered", key, i+1)
			}
		}
	}
	v.Produced = v.Delivered + v.Lost
	v.Moves = movesOf(e, tenures)
	return v
}

// tenuresOf groups batches, in the order in which the tenures must have followed each other.
func tenuresOf(arrivals []Arrival) []*tenure {
	type id struct {
		shard  string
		token  int64
		worker string
	}
	by := map[id]*tenure{}
	refused := map[id]bool{} // the checkpoint of the tenure's last batch
	var all []*tenure
	for _, a := range arrivals {
		k := id{a.Shard, a.Token, a.Worker}
		if a.Kind == Refused {
			refused[k] = true
		}
		if a.Kind != Batch {
			continue
		}
		t := by[k]
		if t == nil {
			t = &tenure{shard: a.Shard, token: a.Token, worker: a.Worker, from: a.At}
			by[k] = t
			all = append(all, t)
		}
		t.batches = append(t.batches, given{a, refused[k] && t.repeats(a)})
		delete(refused, k)
	}
	slices.SortStableFunc(all, func(a, b *tenure) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.token, b.token), cmp.Compare(a.from, b.from))
	})
	return all
}

// repeats tells whether a is the tenure's last batch.
func (t *tenure) repeats(a Arrival) bool {
	if len(t.batches) == 0 {
		return false
	}
	last := t.batches[len(t.batches)-1]
	return slices.Equal(last.Keys, a.Keys) && slices.Equal(last.Numbers, a.Numbers)
}

// cause names what made a record come again: the last thing that befell the worker that had it first.
func cause(was, is *tenure, b given, fates []Fate) string {
	switch {
	case b.again:
		return "a checkpoint that failed: the batch is repeated"
	case was == is:
		return "the same tenure"
	}
	for _, f := range slices.Backward(fates) {
		if (f.Worker == was.worker || f.Worker == "") && f.At <= is.from {
			return f.String()
		}
	}
	return fmt.Sprintf("move of a lease from %s to %s", was.worker, is.worker)
}

func endedBy(e Evidence, worker, shard string) bool {
	return slices.ContainsFunc(e.Arrivals, func(a Arrival) bool { return a.Kind == Ended && a.Shard == shard && a.Worker == worker })
}

// movesOf finds where the shards of each fate went.
func movesOf(e Evidence, tenures []*tenure) []Move {
	var moves []Move
	for _, f := range e.Fates {
		for _, shard := range f.Held {
			m := Move{Fate: f, Shard: shard, Taken: -1, First: -1, Gap: -1}
			for _, a := range e.Arrivals {
				if a.Kind == Taken && a.Shard == shard && a.Worker != f.Worker && a.At >= f.At && (m.Taken < 0 || a.At-f.At < m.Taken) {
					m.Taken, m.To = a.At-f.At, a.Worker
				}
			}
			old := time.Duration(-1)
			for _, t := range tenures {
				switch {
				case t.shard != shard:
				case t.worker == f.Worker:
					old = max(old, t.batches[len(t.batches)-1].At)
				case t.from >= f.At && (m.First < 0 || t.from-f.At < m.First):
					m.First = t.from - f.At
				}
			}
			if old >= 0 && m.First >= 0 {
				m.Gap = f.At + m.First - old
			}
			if m.To == "" && endedBy(e, f.Worker, shard) {
				continue // it had an end before it could have another owner
			}
			moves = append(moves, m)
		}
	}
	return moves
}
