package dynamodb

import "time"

// Change is one write to one item as it took effect. Old or New does not exist where there was, or is, no item.
type Change struct {
	Client   string // who asked for it; see wire.WithClient
	Table    string
	At       time.Time
	Old, New Item
	// Of the stream's record of it, if there is one.
	Shard, SequenceNumber string
}

// Item is a stored item, or none. It never changes.
type Item struct{ row *row }

// Exists tells whether there is an item.
func (i Item) Exists() bool { return i.row != nil }

// Text is the value of an attribute, or of a member inside maps: of a string, number, binary or boolean as text; empty for
// anything else and where there is nothing.
func (i Item) Text(path ...string) string { return i.at(path).text }

// Members are those of a set, in order; the caller must not change them.
func (i Item) Members(path ...string) []string { return i.at(path).list }

// MarshalJSON writes the item as the wire has it; null if there is none.
func (i Item) MarshalJSON() ([]byte, error) {
	if i.row == nil {
		return []byte("null"), nil
	}
	return i.row.attrs.MarshalJSON()
}

func (i Item) at(path []string) (v value) {
	in := i.row.item()
	for n, name := range path {
		v = in.get(name)
		if n < len(path)-1 {
			if v.kind != kindM {
				return value{}
			}
			in = v.deep.fields
		}
	}
	return v
}

// commit makes a change visible and tells who watches, in the order in which changes take effect.
func (d *DynamoDB) commit(c *call, name string, t *table, ch change) {
	t.commit(c.now, ch)
	var shard, number string
	if t.stream != nil {
		shard, number = t.stream.note(c.now, ch)
	}
	if d.Changed != nil && (ch.old != nil || ch.new != nil) {
		d.Changed(Change{
			Client: c.client, Table: name, At: c.now, Old: Item{ch.old}, New: Item{ch.new}, Shard: shard, SequenceNumber: number,
		})
	}
}
