package kpl

import (
	"errors"
	"fmt"
	"sync"

	"github.com/shardlease/shardlease/hashkey"
)

// tables are the tables of keys of a page's aggregates, and what is known of the keys. The values are lent out and used
// again: a page of aggregates needs memory for its result only.
type tables struct {
	shard    hashkey.Range
	all      bool    // every key is the shard's, or nothing is known
	keys     []entry // of all aggregates, one table after the other
	explicit []entry
	measured []measured
	users    int
	letters  []byte // of all keys, one after the other
	text     string // the same, once all aggregates were measured: one allocation, instead of one a key
}

// entry is a key: where it stands in the text, and whether it is the shard's, which is looked at once and only if a user
// record has it.
type entry struct {
	from, to int
	place    place
}

type place uint8

const (
	notLookedAt place = iota
	inside
	outside
)

// measured is an aggregate that has passed the first look.
type measured struct {
	record         int // its index in the page
	keys, explicit int // where its tables end; they begin where those before end
}

// mostKept is how many entries, or letters, may lie around between two pages: of a table that was larger the memory is let go.
const mostKept = 1 << 16

var spare = sync.Pool{New: func() any { return new(tables) }}

func borrow(shard hashkey.Range) *tables {
	t, _ := spare.Get().(*tables)
	t.shard, t.all = shard, !shard.Known || shard == hashkey.Full()
	return t
}

func (t *tables) giveBack() {
	*t = tables{keys: emptied(t.keys), explicit: emptied(t.explicit), measured: emptied(t.measured), letters: emptied(t.letters)}
	spare.Put(t)
}

func emptied[E any](e []E) []E {
	if cap(e) > mostKept {
		return nil
	}
	return e[:0]
}

// measure checks an aggregate's sum and fields, and takes note of its tables and of how many user records it has. That comes
// first, so that memory is asked for once, and only on behalf of what may really be there: a user record counts only if its
// length allows for one. The tables may stand anywhere, also after records that point into them.
func (t *tables) measure(record int, data []byte) error {
	m, err := message(data)
	if err != nil {
		return err
	}
	users, keys, explicit, letters := 0, len(t.keys), len(t.explicit), len(t.letters)
	for len(m) > 0 && err == nil {
		number, value, rest, bad := nextField(m)
		m, err = rest, bad
		if number == recordsField {
			if len(value) < shortest {
				err = fmt.Errorf("user record %d: %d bytes, want at least %d", users, len(value), shortest)
			}
			users++
			continue
		}
		if number == partitionKeyTable {
			t.keys = append(t.keys, t.entry(value))
		}
		if number == explicitHashKeyTable {
			t.explicit = append(t.explicit, t.entry(value))
		}
	}
	if err == nil && users == 0 {
		err = errors.New("it holds no user records")
	}
	if err != nil {
		t.keys, t.explicit, t.letters = t.keys[:keys], t.explicit[:explicit], t.letters[:letters]
		return err
	}
	t.users += users
	t.measured = append(t.measured, measured{record: record, keys: len(t.keys), explicit: len(t.explicit)})
	return nil
}

func (t *tables) entry(key []byte) entry {
	from := len(t.letters)
	t.letters = append(t.letters, key...)
	return entry{from: from, to: len(t.letters)}
}

// string is an entry's key.
func (t *tables) string(e *entry) string { return t.text[e.from:e.to] }

// inside reports whether a key is the shard's: an explicit one by its value, a partition key by its hash.
func (t *tables) inside(e *entry, explicit bool) (bool, error) {
	if e.place != notLookedAt {
		return e.place == inside, nil
	}
	var key hashkey.Key
	switch {
	case explicit:
		var err error
		if key, err = hashkey.Parse(t.string(e)); err != nil {
			return false, fmt.Errorf("its explicit %w", err)
		}
	case !t.all:
		key = hashkey.Of(t.string(e))
	}
	e.place = outside
	if t.all || t.shard.Contains(key) {
		e.place = inside
	}
	return e.place == inside, nil
}
