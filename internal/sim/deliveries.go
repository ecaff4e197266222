package sim

import (
	"fmt"

	"github.com/shardlease/shardlease/processor"
)

// tenure is one processor: user code under one tenure of a lease. It is guarded by the judge's mutex.
type tenure struct {
	process *process
	lease   string
	shard   processor.Shard
	token   int64
	calling string // the method that runs
	begun   bool   // Initialize returned nil
	ended   string // the method after which nothing but LeaseLost may be called
	over    bool   // LeaseLost was called
	failed  bool   // the last ProcessRecords failed: the same records come again
	first   string // sequence number of the first record of the batch in hand
	next    string // after a failure: the batch must begin here
	last    map[string]int
}

func (r record) String() string { return fmt.Sprintf("%s:%d", r.key, r.n) }

// enter judges the begin of a call of user code. It is asked before the gate: what a process was about to call when it was
// stopped, it had begun.
func (j *judge) enter(t *tenure, method string, token int64, first string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.process.dead.Load() {
		return
	}
	name := t.process.name
	if t.calling != "" {
		j.violate("S8", name, t.lease, "%s is called while %s runs", method, t.calling)
	}
	t.calling, t.first = method, first
	switch {
	case t.over:
		j.violate("S8", name, t.lease, "%s is called after LeaseLost", method)
	case t.ended != "" && method != "LeaseLost":
		j.violate("S8", name, t.lease, "%s is called after %s", method, t.ended)
	}
	if method == "LeaseLost" {
		t.over = true
		return
	}
	t.token = token
	other := t.process.tenures[t.lease]
	if other != nil && other != t && (other.calling != "" || other.begun && other.ended == "" && !other.over) {
		j.violate("S8", name, t.lease, "%s is called under token %d while the processor of token %d has not ended", method, token, other.token)
	}
	t.process.tenures[t.lease] = t
	r := j.rows[t.lease]
	if r == nil {
		j.violate("O4", name, t.lease, "%s is called without a row", method)
		return
	}
	// A process that starts with the id of another takes its leases at once, and the other, when it goes on, what the first has
	// just asked for: that other is supposed to be gone. Only fencing is promised then.
	if r.epoch > token && !t.process.outOfBounds.Load() && j.twins.Load() == 0 {
		j.violate("O4", name, t.lease, "%s is called under token %d although tenure %s, of token %d, began at %.3fs",
			method, token, shortNonce(r.nonce), r.epoch, r.since.Seconds())
	}
	if method != "ProcessRecords" {
		return
	}
	if !t.begun {
		j.violate("S8", name, t.lease, "ProcessRecords is called before Initialize has returned nil")
	}
	if t.failed && first != t.next {
		j.violate("S3", name, t.lease, "after a batch that began at %s failed comes one that begins at %s", shortNumber(t.next), shortNumber(first))
	}
	for _, parent := range r.item.Members("parentShardId") {
		if p := j.rows[kin(t.lease, parent)]; p != nil && p.item.Text("checkpoint") != shardEnd {
			j.violate("S4", name, t.lease, "records are given while the parent %s stands at %s", parent, p.item.Text("checkpoint"))
		}
	}
}

// leave notes the end of a call.
func (j *judge) leave(t *tenure, method string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t.calling = ""
	switch method {
	case "Initialize":
		t.begun = t.begun || err == nil
	case "ProcessRecords":
		t.failed, t.next = err != nil, t.first
	case "ShutdownRequested":
		t.ended = method
	case "ShardEnded":
		if r := j.rows[t.lease]; r == nil || r.item.Text("checkpoint") == shardEnd {
			t.ended = method
		}
	}
}

// handle notes that a processor has done what a record asks for. It reports whether that counts: what a dead process does,
// nobody sees.
func (j *judge) handle(t *tenure, rec record) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.process.dead.Load() {
		return false
	}
	name := t.process.name
	if last, ok := t.last[rec.key]; ok {
		switch {
		case rec.n > last+1 && !j.between(rec.key, last, rec.n, j.excused):
			j.violate("S3", name, t.lease, "%s is given after %s:%d under one token", rec, rec.key, last)
		case rec.n <= last && !t.failed:
			j.violate("O2", name, t.lease, "%s is given after %s:%d under one token, and no batch had failed", rec, rec.key, last)
		}
	}
	t.last[rec.key] = rec.n
	if j.handled[rec] {
		j.twice++
		return true
	}
	j.handled[rec] = true
	newest, ok := j.newest[rec.key]
	if !ok {
		newest = -1
	}
	// What has left the stream may be told later, by who holds the lease of a shard that came before: O8 sees to that.
	left := func(p *putRecord) bool { return j.excused(p) || j.past(p) }
	if rec.n != newest+1 && !j.between(rec.key, newest, rec.n, left) {
		j.violate("O3", name, t.lease, "%s is given for the first time after %s:%d", rec, rec.key, newest)
	}
	j.newest[rec.key] = max(newest, rec.n)
	return true
}

// between reports whether all records of a key after one and before another are excused.
func (j *judge) between(key string, after, before int, excused func(*putRecord) bool) bool {
	if !j.may && j.from == 0 || before <= after {
		return false
	}
	for _, put := range j.put {
		for i := range put {
			if p := &put[i]; p.key == key && p.n > after && p.n < before && !excused(p) {
				return false
			}
		}
	}
	return true
}
