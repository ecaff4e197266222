package dynamodb

import (
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/wire"
)

// row is a stored item, immutable.
type row struct {
	attrs fields
	size  int // in bytes, as the service counts them
}

func newRow(attrs fields) *row { return &row{attrs, attrs.size()} }

// item is a row's attributes; none for a row that does not exist.
func (r *row) item() fields {
	if r == nil {
		return nil
	}
	return r.attrs
}

func (r *row) bytes() int {
	if r == nil {
		return 0
	}
	return r.size
}

// keySchema names the one or two attributes that make up a key.
type keySchema struct {
	hash, sort         string // sort is empty if there is none
	hashKind, sortKind kind
}

// names are the key's attributes.
func (k keySchema) names() []string {
	if k.sort == "" {
		return []string{k.hash}
	}
	return []string{k.hash, k.sort}
}

// covers tells whether the item has all of the key's attributes.
func (k keySchema) covers(item fields) bool {
	return item.get(k.hash).exists() && (k.sort == "" || item.get(k.sort).exists())
}

// position is where an item stands in the order of its table: by hash of the hash key, then by sort key. The keys themselves
// follow, so that two positions are equal only if the keys are. Items that lack the key have no position.
func (k keySchema) position(item fields) string {
	var b strings.Builder
	writePartition(&b, item.get(k.hash))
	if k.sort != "" {
		writeOrdered(&b, item.get(k.sort))
	}
	return b.String()
}

// partition is what the positions of all items with this hash key begin with.
func partition(hash value) string {
	var b strings.Builder
	writePartition(&b, hash)
	return b.String()
}

func writePartition(b *strings.Builder, v value) {
	b.Grow(len(v.text) + 24)
	h := hashOf(v.text)
	for shift := 56; shift >= 0; shift -= 8 {
		b.WriteByte(byte(h >> shift))
	}
	writeOrdered(b, v)
}

// hashOf is FNV-1a with its bits mixed once more, since segments are ranges of the upper ones. It is the same in every
// process, so that a scan meets the items in the same order each time.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// segmentOf is the segment, of total, that a position falls into.
func segmentOf(position string, total int) int {
	h := uint64(position[0])<<24 | uint64(position[1])<<16 | uint64(position[2])<<8 | uint64(position[3])
	return int(h * uint64(total) >> 32)
}

// segmentStart is below all positions of a segment, and above those of the one before.
func segmentStart(segment, total int) string {
	h := (uint64(segment)<<32 + uint64(total) - 1) / uint64(total)
	return string([]byte{byte(h >> 24), byte(h >> 16), byte(h >> 8), byte(h)})
}

// writeOrdered writes bytes that order as the values do, and that are no prefix of another value's.
func writeOrdered(b *strings.Builder, v value) {
	s := v.text
	if v.kind == kindN {
		s = mustNumber(s).sortKey()
	}
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		b.WriteString("\x00\xff")
		s = s[i+1:]
	}
	b.WriteString(s)
	b.WriteString("\x00\x01")
}

// Sizes that the service allows.
const (
	maxHashKey = 2048
	maxSortKey = 1024
	maxItem    = 400 << 10
)

// checkKey refuses values that cannot be keys.
func (k keySchema) checkKey(item fields) *wire.Error {
	for _, name := range k.names() {
		v := item.get(name)
		if v.text == "" {
			return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s",
				strings.ToLower(longNames[v.kind]), name)
		}
		switch {
		case name == k.hash && len(v.text) > maxHashKey:
			return invalid("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")
		case name != k.hash && len(v.text) > maxSortKey:
			return invalid("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
		}
	}
	return nil
}

// keyOf checks the Key of a request, which must be the key and nothing else.
func (k keySchema) keyOf(key fields) *wire.Error {
	if len(key) != len(k.names()) || key.get(k.hash).kind != k.hashKind || k.sort != "" && key.get(k.sort).kind != k.sortKind {
		return invalid("The provided key element does not match the schema")
	}
	return k.checkKey(key)
}

// keyIn checks the key within a whole item.
func (k keySchema) keyIn(item fields) *wire.Error {
	for _, name := range k.names() {
		want := k.hashKind
		if name != k.hash {
			want = k.sortKind
		}
		switch v := item.get(name); {
		case !v.exists():
			return invalid("One or more parameter values were invalid: Missing the key %s in the item", name)
		case v.kind != want:
			return invalid("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", name, want, v.kind)
		}
	}
	return k.checkKey(item)
}

// table is a table with its items. States with a duration are times; status works them out.
type table struct {
	name, arn, id string
	keys          keySchema
	kinds         map[string]kind // AttributeDefinitions
	created       time.Time
	activeAt      time.Time // CREATING before
	updatedAt     time.Time // UPDATING before
	goneAt        time.Time // if set, DELETING, and gone from then on

	onDemand   bool
	throughput throughput
	protected  bool
	recovery   bool   // point-in-time recovery
	expiry     string // the attribute of UpdateTimeToLive, "" if off
	tags       map[string]string

	stream *stream // the last one, nil if there never was one

	rows    ordered
	bytes   int
	indexes []*index
	lag     time.Duration
	pending []change // to be shown by the indexes, oldest first
}

// change is what a write does to one place of a table: old and new are nil for an item that was or is not there.
type change struct {
	position string
	old, new *row
	due      time.Time // when the indexes show it
}

func (t *table) status(now time.Time) string {
	switch {
	case !t.goneAt.IsZero():
		return "DELETING"
	case now.Before(t.activeAt):
		return "CREATING"
	case now.Before(t.updatedAt):
		return "UPDATING"
	}
	return "ACTIVE"
}

// commit makes a change visible.
func (t *table) commit(now time.Time, c change) {
	if c.new == nil {
		t.rows.remove(c.position)
	} else {
		t.rows.put(c.position, c.new)
	}
	t.bytes += c.new.bytes() - c.old.bytes()
	if len(t.indexes) == 0 {
		return
	}
	c.due = now.Add(t.lag)
	t.pending = append(t.pending, c)
	t.showUntil(now)
}

// showUntil lets the indexes show the changes that are due.
func (t *table) showUntil(now time.Time) {
	n := 0
	for n < len(t.pending) && !t.pending[n].due.After(now) {
		for _, x := range t.indexes {
			x.apply(t.pending[n])
		}
		n++
	}
	if n == len(t.pending) {
		t.pending = t.pending[:0]
		return
	}
	t.pending = t.pending[n:]
}

// find returns the table of that name, or nil; one whose deletion is over is forgotten first.
func (d *DynamoDB) find(name string, now time.Time) *table {
	t := d.tables[name]
	if t != nil && !t.goneAt.IsZero() && !now.Before(t.goneAt) {
		delete(d.tables, name)
		return nil
	}
	return t
}

// described finds a table for a call that describes or changes it.
func (d *DynamoDB) described(name string, now time.Time) (*table, *wire.Error) {
	t := d.find(name, now)
	if t == nil {
		return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found: Table: %s not found", name)
	}
	return t, nil
}

// usable finds a table for a call that reads or writes items.
func (d *DynamoDB) usable(name string, now time.Time) (*table, *wire.Error) {
	t := d.find(name, now)
	if t == nil || !t.goneAt.IsZero() || now.Before(t.activeAt) {
		return nil, wire.Errorf("ResourceNotFoundException", "Requested resource not found")
	}
	return t, nil
}
