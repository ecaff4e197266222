package emulator

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlease/shardlease/emulator/internal/dynamodb"
)

// ItemChange is one write to one item of a table as it took effect, as [Server.ObserveItems] hands it out. A write whose
// reply a fault drops is among them, one that was refused is not.
type ItemChange struct {
	Client   string // see ClientConfig
	Table    string
	At       time.Time
	Old, New Item // Old does not exist if the write made the item, New if it removed it
	// Shard and SequenceNumber are of the record that the table's stream has of the write; empty if it has none, because it is not
	// enabled, or the write left the item as it was.
	Shard, SequenceNumber string
}

// Item is an item of a table, or none. It never changes, and may be kept.
type Item struct{ item dynamodb.Item }

// Exists tells whether there is an item.
func (i Item) Exists() bool { return i.item.Exists() }

// Text is an attribute's value, or that of a member inside maps, as Text("tenure", "nonce"): of a string, number, binary or
// boolean as text. It is empty for other types, and where there is nothing.
func (i Item) Text(path ...string) string { return i.item.Text(path...) }

// Members are those of a set, in order; none for other types. They must not be changed.
func (i Item) Members(path ...string) []string { return i.item.Members(path...) }

// MarshalJSON writes the item as DynamoDB sends it; null if there is none.
func (i Item) MarshalJSON() ([]byte, error) { return i.item.MarshalJSON() }

type itemObservers struct {
	mu   sync.Mutex // serialises changes
	list atomic.Pointer[[]*func(ItemChange)]
}

func (o *itemObservers) notify(c dynamodb.Change) {
	if list := o.list.Load(); list != nil {
		for _, f := range *list {
			(*f)(ItemChange{
				Client: c.Client, Table: c.Table, At: c.At, Old: Item{c.Old}, New: Item{c.New},
				Shard: c.Shard, SequenceNumber: c.SequenceNumber,
			})
		}
	}
}

// ObserveItems calls f with each change of an item, in the order in which the changes take effect, before the next one does.
// f must not wait, nor call the server. The function that it returns ends it; a call of f may then still be under way.
func (s *Server) ObserveItems(f func(ItemChange)) (remove func()) {
	o, p := &s.items, &f
	o.change(func(list []*func(ItemChange)) []*func(ItemChange) { return append(list, p) })
	return func() {
		o.change(func(list []*func(ItemChange)) []*func(ItemChange) {
			var kept []*func(ItemChange)
			for _, have := range list {
				if have != p {
					kept = append(kept, have)
				}
			}
			return kept
		})
	}
}

func (o *itemObservers) change(f func(copied []*func(ItemChange)) []*func(ItemChange)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*func(ItemChange)
	if old := o.list.Load(); old != nil {
		list = append(list, *old...)
	}
	list = f(list)
	o.list.Store(&list)
}
