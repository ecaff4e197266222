package kpl

import (
	"fmt"

	"github.com/shardlease/shardlease/hashkey"
	"github.com/shardlease/shardlease/processor"
)

// Page is what [Expand] has made of Kinesis records.
type Page struct {
	Records    []processor.Record
	Aggregates int   // taken apart
	Users      int   // user records among Records that were in them
	Outside    int   // user records in them that are other shards', and not among Records
	Damaged    int   // Records with Err
	Err        error // of the first of those
}

// Expand takes the aggregates of a page apart, which is Kinesis records of one shard in their order. User records take the
// place of their aggregate; they have its sequence number and time of arrival, their index in it as SubSequenceNumber, and
// keys of their own. Those whose explicit hash key, or else the hash of whose partition key, lies outside of the shard's
// range are left out, and the others keep their indexes; nothing is left out if the range is not known.
//
// A record that begins like an aggregate and cannot be taken apart stays as it is and gets an Err that tells why: a wrong MD5
// sum, bytes that are no AggregatedRecord, an index outside of a table, an explicit hash key that is no number, no user
// records at all. So does a user record that is an aggregate again: there is no place for a second index.
//
// The result may share memory with page, whose Err fields Expand may set; data is not copied. A page without aggregates comes
// back as it is, and costs a comparison a record. Expand is safe for concurrent use.
func Expand(page []processor.Record, shard hashkey.Range) Page {
	first := 0
	for first < len(page) && !isAggregate(page[first].Data) {
		first++
	}
	if first == len(page) {
		return Page{Records: page}
	}
	t := borrow(shard)
	defer t.giveBack()
	for i := first; i < len(page); i++ {
		if r := &page[i]; isAggregate(r.Data) {
			if err := t.measure(i, r.Data); err != nil {
				r.Err = damage(r, err)
			}
		}
	}

	out := Page{Records: make([]processor.Record, 0, len(page)-len(t.measured)+t.users)}
	t.text = string(t.letters)
	rest, from := 0, measured{}
	for _, to := range t.measured {
		out.keep(page[rest:to.record])
		rest = to.record + 1
		t.expand(&out, page, from, to)
		from = to
	}
	out.keep(page[rest:])
	return out
}

// keep appends records as they are.
func (p *Page) keep(records []processor.Record) {
	p.Records = append(p.Records, records...)
	for i := range records {
		if err := records[i].Err; err != nil {
			p.damaged(err)
		}
	}
}

func (p *Page) damaged(err error) {
	if p.Damaged++; p.Err == nil {
		p.Err = err
	}
}

func damage(r *processor.Record, cause error) error {
	return fmt.Errorf("take apart the aggregate of %d bytes at %s: %w", len(r.Data), r.SequenceNumber, cause)
}

// expand appends the user records of an aggregate, or the aggregate itself if it cannot be taken apart. Its tables are those
// from the end of one to the end of the other.
func (t *tables) expand(out *Page, page []processor.Record, from, to measured) {
	before := *out
	parent := &page[to.record]
	if err := t.split(out, parent, t.keys[from.keys:to.keys], t.explicit[from.explicit:to.explicit]); err != nil {
		*out = before
		parent.Err = damage(parent, err)
		out.keep(page[to.record : to.record+1])
		return
	}
	out.Aggregates++
}

// split appends the user records of an aggregate. If it fails it has appended some.
func (t *tables) split(out *Page, parent *processor.Record, keys, explicit []entry) error {
	m := body(parent.Data)
	for index := int64(0); len(m) > 0; {
		number, raw, rest, err := nextField(m)
		if err != nil {
			return err
		}
		if m = rest; number != recordsField {
			continue
		}
		u, err := parseRecord(raw)
		if err == nil {
			err = t.admit(out, parent, index, u, keys, explicit)
		}
		if err != nil {
			return fmt.Errorf("user record %d: %w", index, err)
		}
		index++
	}
	return nil
}

// admit appends one user record, if it is the shard's.
func (t *tables) admit(out *Page, parent *processor.Record, index int64, u userRecord, keys, explicit []entry) error {
	if u.key >= uint64(len(keys)) {
		return fmt.Errorf("its partition key has index %d, want less than %d", u.key, len(keys))
	}
	key, explicitKey := &keys[u.key], ""
	decides := key
	if u.hasExplicit {
		if u.explicit >= uint64(len(explicit)) {
			return fmt.Errorf("its explicit hash key has index %d, want less than %d", u.explicit, len(explicit))
		}
		// Some producers write an empty one where they have none.
		if e := &explicit[u.explicit]; e.to > e.from {
			decides, explicitKey = e, t.string(e)
		}
	}
	mine, err := t.inside(decides, decides != key)
	if err != nil {
		return err
	}
	if !mine {
		out.Outside++
		return nil
	}
	out.Users++
	// Field by field into the memory that Expand has made: to build a record and append it takes twice as long.
	n := len(out.Records)
	out.Records = out.Records[:n+1]
	r := &out.Records[n]
	r.SequenceNumber, r.SubSequenceNumber, r.ApproximateArrival = parent.SequenceNumber, index, parent.ApproximateArrival
	r.PartitionKey, r.ExplicitHashKey, r.Data, r.Err = t.string(key), explicitKey, u.data, nil
	if isAggregate(u.data) {
		if _, err := message(u.data); err == nil {
			r.Err = fmt.Errorf("user record %d of the aggregate at %s is an aggregate itself, want data", index, parent.SequenceNumber)
			out.damaged(r.Err)
		}
	}
	return nil
}
