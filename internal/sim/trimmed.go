package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/shardlease/shardlease/config"
)

// What retention takes from a fleet before it was read is lost, and config.Hooks.Trimmed is to tell it (O8). Demanded is:
//
//   - a record that nobody handled, and that the stream does not keep any more, lies in a gap that a worker named before it handed over, or
//     checkpointed, what comes after it. Excused is what nobody can know of: what a lease had not begun to checkpoint when it was trimmed, since it
//     reads whatever the stream has; and in a shard that is gone and never had a lease, since only its ancestor's end can be told, which has to be;
//   - a gap is one: the record at its begin and all within it have left the stream, and the one at its end is one of the shard;
//   - whoever finishes a shard that was gone before it was opened has said so.
//
// A gap in which there was nothing may be named: where the last record that was handled is trimmed, nobody can tell.

// day is how long streams keep their records, unless they are told otherwise.
const day = 24 * time.Hour

// trims reports whether records may leave the stream before they are read.
func (s Schedule) trims() bool { return s.has(Night) || s.Retention > 0 }

// life is what became of a lease: when it got a row, and when that had a sequence number. Unlike the row it stays.
type life struct{ made, numbered time.Duration }

// trims is what the judge knows of records that leave the stream. It is guarded by the judge's mutex.
type trims struct {
	retention time.Duration
	may       bool // records may have left the stream before they were read
	lives     map[string]*life
	parents   map[string][]string      // of each shard that was listed
	closed    map[string]time.Duration // when a shard was closed, of those that a schedule closes
	gaps      int                      // that were told
	gone      map[string]bool          // leases of which everything behind the position was told to be lost
}

// past reports whether a record has left the stream.
func (j *judge) past(p *putRecord) bool { return j.may && p.at+j.retention <= time.Since(j.began) }

// excused reports whether nobody needs to handle a record.
func (j *judge) excused(p *putRecord) bool {
	return p.at <= j.from || p.told || j.past(p) && !j.mustBeTold(p)
}

// mustBeTold reports whether the loss of a record that has left the stream has to lie in a gap of its shard.
func (j *judge) mustBeTold(p *putRecord) bool {
	l := j.lives[p.lease]
	return l != nil && l.numbered > 0 && l.numbered <= p.at+j.retention
}

// heard notes what a Trimmed hook says, and judges it.
func (j *judge) heard(x *process, e config.TrimmedEvent) {
	if x.dead.Load() {
		return
	}
	j.add(x.name, e.LeaseKey, func() string {
		return "tells that what came after " + shortPosition(e.Position) + " and before " + shortNumber(e.First) + " may be lost"
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gaps++
	after, _, _ := strings.Cut(e.Position, "/")
	begins := compareNumbers(after, "LATEST") <= 0 // at no record
	if e.First == "" {
		j.gone[e.LeaseKey] = true
	}
	found, ends := begins && e.Gone, e.First == ""
	for i := range j.put[e.LeaseKey] {
		p := &j.put[e.LeaseKey][i]
		switch {
		case p.number == e.First:
			ends = true
		case p.number == after:
			found = true
			if !j.past(p) {
				j.violate("O8", x.name, e.LeaseKey, "%s (number %s) is told to be lost with what follows, and the stream keeps it", p, p.number)
			}
		case compareNumbers(p.number, after) > 0 && (e.First == "" || compareNumbers(p.number, e.First) < 0):
			if p.told = true; !j.past(p) {
				j.violate("O8", x.name, e.LeaseKey, "%s (number %s) is told to be lost, and the stream keeps it", p, p.number)
			}
		}
	}
	if !found || !ends {
		j.violate("O8", x.name, e.LeaseKey, "a gap is told from %s to %s, which are not both records of the shard (gone %t)", e.Position, e.First, e.Gone)
	}
}

// lived notes what becomes of a lease's row.
func (j *judge) lived(key, at string) {
	l := j.lives[key]
	if l == nil {
		l = &life{made: time.Since(j.began)}
		j.lives[key] = l
	}
	if l.numbered == 0 && compareNumbers(at, "LATEST") > 0 {
		l.numbered = time.Since(j.began)
	}
}

// finishedGone judges the end of a lease whose tenure began when its shard had left the stream.
func (j *judge) finishedGone(client, key string, since time.Duration) {
	if closed, known := j.closed[key]; known && j.may && since > closed+j.retention && !j.gone[key] {
		j.violate("O8", client, key, "ended, by a tenure that began at %.3fs, when the shard had left the stream, and nobody told that", since.Seconds())
	}
}

// untold is a record whose loss nobody has told who should have, once everything that is left was read.
func (j *judge) untold() (p putRecord, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for lease, put := range j.put {
		for i := range put {
			if p := &put[i]; !j.handled[p.record] && p.at > j.from && !p.told && j.past(p) && (j.mustBeTold(p) || !j.endTold(lease, p)) {
				return *p, true
			}
		}
	}
	return putRecord{}, false
}

// endTold reports whether the loss of a record in a shard without a lease was told with an ancestor's, or need not be. A shard that has
// a lease, be it made after the loss, stood at no record and was read from whatever the stream had; of one that was gone by then see
// finishedGone.
func (j *judge) endTold(lease string, p *putRecord) bool {
	if j.lives[lease] != nil {
		return true
	}
	nearest := j.nearest(lease, nil)
	return len(nearest) == 0 || slices.ContainsFunc(nearest, func(a string) bool {
		return j.gone[a] || j.lives[a].made > p.at+j.retention
	})
}

// nearest are the ancestors of a shard that have, or had, leases and below which none has.
func (j *judge) nearest(lease string, all []string) []string {
	for _, parent := range j.parents[lease] {
		if j.lives[parent] != nil {
			all = append(all, parent)
		} else {
			all = j.nearest(parent, all)
		}
	}
	return all
}

// lost is how many gaps were told, and how many records nobody handled that lie in them.
func (j *judge) lost() (gaps, records int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, put := range j.put {
		for i := range put {
			if put[i].told && !j.handled[put[i].record] {
				records++
			}
		}
	}
	return j.gaps, records
}

// closes notes when a shard is closed.
func (j *judge) closes(at time.Duration, leases ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range leases {
		j.closed[l] = at
	}
}

// descend notes the parents of a shard.
func (j *judge) descend(lease string, parents ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range parents {
		if p != "" && !slices.Contains(j.parents[lease], p) {
			j.parents[lease] = append(j.parents[lease], p)
		}
	}
}

// trim announces that a day has passed: everything put so far has left the stream.
func (j *judge) trim() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.may = true
}

// shortPosition is a record's number, with what follows it in an aggregate.
func shortPosition(at string) string {
	number, sub, cut := strings.Cut(at, "/")
	if cut {
		return shortNumber(number) + "/" + sub
	}
	return shortNumber(number)
}
