package dynamodb

import (
	"slices"
	"sort"
	"strings"
)

// blockSize bounds the entries of one block: an insertion moves at most this many.
const blockSize = 256

// ordered holds rows by key, in the order of the keys: blocks of sorted entries, found by their first key. With 100,000 rows
// an insertion looks at 17 keys and moves half a block.
type ordered struct {
	blocks []*block
	count  int
}

type block struct {
	keys []string
	rows []*row
}

// locate returns the block where key is or belongs, and its place there.
func (o *ordered) locate(key string) (b, i int, found bool) {
	b = sort.Search(len(o.blocks), func(n int) bool { return o.blocks[n].keys[0] > key }) - 1
	if b < 0 {
		return 0, 0, false
	}
	i, found = slices.BinarySearchFunc(o.blocks[b].keys, key, strings.Compare)
	return b, i, found
}

// get returns the row at key, or nil.
func (o *ordered) get(key string) *row {
	if b, i, found := o.locate(key); found {
		return o.blocks[b].rows[i]
	}
	return nil
}

// put stores the row at key in place of what was there.
func (o *ordered) put(key string, r *row) {
	if len(o.blocks) == 0 {
		o.blocks = []*block{{keys: []string{key}, rows: []*row{r}}}
		o.count = 1
		return
	}
	b, i, found := o.locate(key)
	at := o.blocks[b]
	if found {
		at.rows[i] = r
		return
	}
	at.keys = slices.Insert(at.keys, i, key)
	at.rows = slices.Insert(at.rows, i, r)
	o.count++
	if len(at.keys) > blockSize {
		half := len(at.keys) / 2
		right := &block{keys: slices.Clone(at.keys[half:]), rows: slices.Clone(at.rows[half:])}
		clear(at.keys[half:])
		clear(at.rows[half:])
		at.keys, at.rows = at.keys[:half], at.rows[:half]
		o.blocks = slices.Insert(o.blocks, b+1, right)
	}
}

// remove takes the row at key out, if there is one.
func (o *ordered) remove(key string) {
	b, i, found := o.locate(key)
	if !found {
		return
	}
	at := o.blocks[b]
	at.keys = slices.Delete(at.keys, i, i+1)
	at.rows = slices.Delete(at.rows, i, i+1)
	o.count--
	if len(at.keys) == 0 {
		o.blocks = slices.Delete(o.blocks, b, b+1)
	}
}

// ascend calls visit for the keys above after ("" for all) in order, until it returns false.
func (o *ordered) ascend(after string, visit func(key string, r *row) bool) {
	b, i, found := o.locate(after)
	if found {
		i++
	}
	for ; b < len(o.blocks); b, i = b+1, 0 {
		for ; i < len(o.blocks[b].keys); i++ {
			if !visit(o.blocks[b].keys[i], o.blocks[b].rows[i]) {
				return
			}
		}
	}
}

// descend calls visit for the keys below before, from the largest down, until it returns false.
func (o *ordered) descend(before string, visit func(key string, r *row) bool) {
	if len(o.blocks) == 0 {
		return
	}
	b, i, _ := o.locate(before)
	for i--; ; i-- {
		for i < 0 {
			if b--; b < 0 {
				return
			}
			i = len(o.blocks[b].keys) - 1
		}
		if !visit(o.blocks[b].keys[i], o.blocks[b].rows[i]) {
			return
		}
	}
}
