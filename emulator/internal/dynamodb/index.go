package dynamodb

import (
	"maps"
	"slices"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// index is a global secondary index: the rows that have its key, in the order of it.
type index struct {
	name       string
	keys       keySchema
	projection string   // ALL, KEYS_ONLY, INCLUDE
	extra      []string // the attributes of INCLUDE
	readyAt    time.Time
	goneAt     time.Time // if set, DELETING, and gone from then on
	throughput throughput
	rows       ordered
	bytes      int
}

func (x *index) status(now time.Time) string {
	switch {
	case !x.goneAt.IsZero():
		return "DELETING"
	case now.Before(x.readyAt):
		return "CREATING"
	}
	return "ACTIVE"
}

// position is where a row stands in the index. The row's place in the table goes last, since index keys need not be unique.
func (x *index) position(inTable string, r *row) string {
	return x.keys.position(r.attrs) + inTable
}

// apply shows a change of the table.
func (x *index) apply(c change) {
	before, after := "", ""
	if c.old != nil && x.keys.covers(c.old.attrs) {
		before = x.position(c.position, c.old)
		x.bytes -= c.old.size
	}
	if c.new != nil && x.keys.covers(c.new.attrs) {
		after = x.position(c.position, c.new)
		x.bytes += c.new.size
	}
	if before != "" && before != after {
		x.rows.remove(before)
	}
	if after != "" {
		x.rows.put(after, c.new)
	}
}

// fill builds the index from the table's rows.
func (x *index) fill(t *table) {
	t.rows.ascend("", func(position string, r *row) bool {
		x.apply(change{position: position, new: r})
		return true
	})
}

// projected is what the index holds of an item.
func (x *index) projected(t *table, item fields) fields {
	if x.projection == "ALL" {
		return item
	}
	return item.only(slices.Concat(t.keys.names(), x.keys.names(), x.extra)...)
}

// holds tells whether the index has the attribute of that name, where items have it.
func (x *index) holds(t *table, name string) bool {
	return x.projection == "ALL" || slices.Contains(slices.Concat(t.keys.names(), x.keys.names(), x.extra), name)
}

// checkItem refuses an item that cannot stand in the index because its key has the wrong type or is empty.
func (x *index) checkItem(item fields) *wire.Error {
	for _, name := range x.keys.names() {
		want := x.keys.hashKind
		if name != x.keys.hash {
			want = x.keys.sortKind
		}
		switch v := item.get(name); {
		case !v.exists():
		case v.kind != want:
			return invalid("One or more parameter values were invalid: Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s", name, want, v.kind, x.name)
		case v.text == "":
			return invalid("One or more parameter values are not valid. A value specified for a secondary index key is not supported. The AttributeValue for a key attribute cannot contain an empty value. IndexName: %s, IndexKey: %s", x.name, name)
		}
	}
	return nil
}

// writeUnits is what a change costs the index.
func (x *index) writeUnits(t *table, c change) float64 {
	var old, new fields
	if c.old != nil && x.keys.covers(c.old.attrs) {
		old = x.projected(t, c.old.attrs)
	}
	if c.new != nil && x.keys.covers(c.new.attrs) {
		new = x.projected(t, c.new.attrs)
	}
	switch {
	case old == nil && new == nil, mapValue(old).equal(mapValue(new)):
		return 0
	case old != nil && new != nil && x.keys.position(old) != x.keys.position(new):
		return writeUnits(old.size()) + writeUnits(new.size()) // moves: one deletion, one insertion
	}
	return writeUnits(max(old.size(), new.size()))
}

// index finds an index that may be read.
func (t *table) index(name string, now time.Time) (*index, *wire.Error) {
	t.dropIndexes(now)
	for _, x := range t.indexes {
		if x.name != name {
			continue
		}
		if x.status(now) == "CREATING" {
			return nil, invalid("Cannot read from backfilling global secondary index: %s", name)
		}
		return x, nil
	}
	return nil, invalid("The table does not have the specified index: %s", name)
}

// dropIndexes forgets the indexes whose deletion is over, and the attribute definitions that only they used.
func (t *table) dropIndexes(now time.Time) {
	over := func(x *index) bool { return !x.goneAt.IsZero() && !now.Before(x.goneAt) }
	if !slices.ContainsFunc(t.indexes, over) {
		return
	}
	t.indexes = slices.DeleteFunc(t.indexes, over)
	used := t.usedNames()
	maps.DeleteFunc(t.kinds, func(name string, _ kind) bool { return !slices.Contains(used, name) })
}
