package producer

// Limits of one PutRecords call and of one record, as the service documents them.
const (
	MaxRecordBytes  = 1 << 20 // data and partition key together
	MaxCallRecords  = 500
	MaxCallBytes    = 5 << 20 // data and partition keys together
	MaxKeyRunes     = 256
	bufferedRecords = 20 * MaxCallRecords
	bufferedBytes   = 8 * MaxCallBytes
)

// Record is one record to put.
type Record struct {
	Key  string // 1 to 256 characters
	Data []byte
}

func (r Record) size() int { return len(r.Key) + len(r.Data) }

// lane holds records that must go one after another. Only the head of a lane is ever under way:
//
//  1. A call holds n=1 and n=2 of one key.
//  2. The service refuses n=1, whose shard was busy for a moment, and takes n=2.
//  3. Whenever n=1 is sent again, it comes after n=2.
//
// The service's answer comes too late to mend that, so that one call never holds two records of one lane.
type lane struct {
	key     string
	records []Record
}

// lanes is what waits to be sent. It belongs to one goroutine.
type lanes struct {
	ordered bool // one lane per key; else one per record
	byKey   map[string]*lane
	ready   []*lane // with a head that is not under way, the one that waited longest first
	records int     // in all lanes, also those under way
	bytes   int
}

func (l *lanes) add(r Record) {
	l.records++
	l.bytes += r.size()
	if !l.ordered {
		l.ready = append(l.ready, &lane{records: []Record{r}})
		return
	}
	if have := l.byKey[r.Key]; have != nil {
		have.records = append(have.records, r)
		return
	}
	fresh := &lane{key: r.Key, records: []Record{r}}
	l.byKey[r.Key] = fresh
	l.ready = append(l.ready, fresh)
}

// full tells that no more is to be read for now.
func (l *lanes) full() bool { return l.records >= bufferedRecords || l.bytes >= bufferedBytes }

// take picks the lanes whose heads make up the next call. whole tells that no further record could have joined them.
func (l *lanes) take() (batch []*lane, whole bool) {
	bytes := 0
	for i, next := range l.ready {
		bytes += next.records[0].size()
		if i == MaxCallRecords || bytes > MaxCallBytes {
			return l.ready[:i:i], true
		}
	}
	return l.ready, len(l.ready) == MaxCallRecords
}

// sent marks a batch from take as under way.
func (l *lanes) sent(batch []*lane) { l.ready = l.ready[len(batch):] }

// settle gives a batch back: where taken is true the head is done with, where it is false it goes first in the next call.
func (l *lanes) settle(batch []*lane, taken func(i int) bool) {
	var again, behind []*lane
	for i, b := range batch {
		if !taken(i) {
			again = append(again, b)
			continue
		}
		l.records--
		l.bytes -= b.records[0].size()
		b.records[0] = Record{} // let go of the data
		b.records = b.records[1:]
		if len(b.records) > 0 {
			behind = append(behind, b)
		} else if l.ordered {
			delete(l.byKey, b.key)
		}
	}
	l.ready = append(append(again, l.ready...), behind...)
}
