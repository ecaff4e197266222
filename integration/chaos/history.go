//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/shardlease/shardlease/checkpoint"
)

// history is what was written to the rows of the lease table, as the links saw the server answer. It is safe for concurrent use.
type history struct {
	mu   sync.Mutex
	rows map[string][]written
}

// written is a row after a write.
type written struct {
	counter  int64
	position checkpoint.ExtendedSequenceNumber
	owner    string
	nonce    string // of the tenure that has written this counter
}

func newHistory() *history { return &history{rows: map[string][]written{}} }

// item is what is read of an answer to UpdateItem: each of our writes has the row returned.
type item struct {
	Attributes struct {
		LeaseKey     struct{ S string }
		LeaseOwner   struct{ S string }
		LeaseCounter struct{ N string }
		Checkpoint   struct{ S string }
		Sub          struct{ N string } `json:"checkpointSubSequenceNumber"`
		Tenure       struct {
			M struct {
				Nonce struct{ S string }
				At    struct{ N string }
			}
		}
	}
}

// see takes an answer of the table's server in; requests other than writes of rows are ignored.
func (h *history) see(_, answer []byte) {
	var i item
	if json.Unmarshal(answer, &i) != nil || i.Attributes.LeaseKey.S == "" {
		return
	}
	a := i.Attributes
	w := written{owner: a.LeaseOwner.S}
	w.counter, _ = strconv.ParseInt(a.LeaseCounter.N, 10, 64)
	if a.Tenure.M.At.N == a.LeaseCounter.N {
		w.nonce = a.Tenure.M.Nonce.S
	}
	position, err := checkpoint.Parse(a.Checkpoint.S)
	if err != nil {
		return // a row of another kind
	}
	position.SubSequenceNumber, _ = strconv.ParseInt(a.Sub.N, 10, 64)
	w.position = position
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows[a.LeaseKey.S] = append(h.rows[a.LeaseKey.S], w)
}

// broken are the writes that must not have been, and how many writes there were. The counter orders the writes of a row: each that
// moves a checkpoint moves it, too. So a checkpoint must not lie before that of a smaller counter; and no counter may be written twice: the
// second of two such writes came from somebody who had not seen the first, and undid it.
func (h *history) broken() (writes int, found []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(h.rows)) {
		row := slices.Clone(h.rows[key])
		writes += len(row)
		slices.SortStableFunc(row, func(a, b written) int { return cmp.Compare(a.counter, b.counter) })
		for i := 1; i < len(row); i++ {
			was, is := row[i-1], row[i]
			switch {
			case is.position.Compare(was.position) < 0:
				found = append(found, fmt.Sprintf("%s: checkpoint %v of counter %d, by %s, lies before %v of counter %d, by %s",
					key, is.position, is.counter, is.owner, was.position, was.counter, was.owner))
			case is.counter == was.counter && (is.nonce != was.nonce || is.position != was.position):
				found = append(found, fmt.Sprintf("%s: counter %d was written twice, with checkpoint %v by %s and with %v by %s",
					key, is.counter, was.position, was.owner, is.position, is.owner))
			}
		}
	}
	return writes, found
}
