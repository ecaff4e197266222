package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardlease/shardlease/emulator"
	"github.com/shardlease/shardlease/hashkey"
)

// row is what the judge knows of a lease's row.
type row struct {
	item    emulator.Item
	nonce   string          // of the tenure that wrote last
	epoch   int64           // the counter of that tenure's first write
	since   time.Duration   // when that was
	retired map[string]bool // tenures that another one has followed
}

// changed judges a write that has just taken effect. It is called in the order of the writes, each tagged by itself with the
// tenure that made it: tenure.nonce, of which tenure.at says whether it is of this write.
func (j *judge) changed(c emulator.ItemChange) {
	key := c.New.Text("leaseKey")
	if !c.New.Exists() {
		key = c.Old.Text("leaseKey")
	}
	if !isLease(key) {
		return
	}
	j.add(c.Client, key, func() string { return describeChange(c) })
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.rows[key]
	switch {
	case !c.Old.Exists():
		if j.deleted[key] {
			j.violate("S6", c.Client, key, "a row that was deleted is made again: its counter begins anew, and a write of the former row could land")
		}
		if len(j.rows) == 0 && len(j.deleted) == 0 && c.New.Text("checkpoint") == "LATEST" {
			j.from = time.Since(j.began) // whoever made it has asked for the time before
		}
		j.rows[key] = &row{item: c.New, retired: map[string]bool{}}
		j.lived(key, c.New.Text("checkpoint"))
		j.covered = j.covered || j.hole() == ""
		return
	case !c.New.Exists():
		j.deletedRow(c.Client, key, c.Old)
	case c.Old.Text("leaseCounter") == c.New.Text("leaseCounter"):
		r.item = c.New
		j.sideWrite(c.Client, key, c)
	default:
		r.item = c.New
		j.tenureWrite(c.Client, key, r, c)
	}
	ended := c.New.Text("checkpoint") == shardEnd && c.Old.Text("checkpoint") != shardEnd
	// A shard whose children were resharded and trimmed before anybody saw them has heirs that nobody can name: they get their
	// leases from the other parents, or from the audit, and settle waits for them.
	if (ended || !c.New.Exists()) && j.covered && !j.may {
		if at := j.hole(); at != "" {
			j.violate("S5", c.Client, key, "after this write no lease that is not ended covers hash key %s", at)
		}
	}
}

// deletedRow judges a deletion (S6).
func (j *judge) deletedRow(client, key string, old emulator.Item) {
	delete(j.rows, key)
	j.deleted[key] = true
	if at := old.Text("checkpoint"); at != shardEnd {
		j.violate("S6", client, key, "deleted at checkpoint %s", at)
	}
	for _, parent := range old.Members("parentShardId") {
		if j.rows[kin(key, parent)] != nil {
			j.violate("S6", client, key, "deleted before its parent %s", parent)
		}
	}
	for _, child := range old.Members("childShardIds") {
		switch c := j.rows[kin(key, child)]; {
		case c == nil && !j.deleted[kin(key, child)]:
			j.violate("S6", client, key, "deleted although its child %s has no row", child)
		case c != nil && !j.may && compareNumbers(c.item.Text("checkpoint"), "LATEST") <= 0:
			j.violate("S6", client, key, "deleted although its child %s stands at %s", child, c.item.Text("checkpoint"))
		}
	}
}

// sideWrite judges a write that leaves the counter: it asks for a hand-off, or adds what is known of the shard.
func (j *judge) sideWrite(client, key string, c emulator.ItemChange) {
	if c.Old.Text("checkpoint") != c.New.Text("checkpoint") || c.Old.Text("checkpointSubSequenceNumber") != c.New.Text("checkpointSubSequenceNumber") {
		j.violate("S1", client, key, "the checkpoint changed from %s to %s without the counter", c.Old.Text("checkpoint"), c.New.Text("checkpoint"))
	}
	owner := c.New.Text("leaseOwner")
	if owner != c.Old.Text("leaseOwner") && (owner == "" || c.New.Text("handoffTo") != owner || c.New.Text("checkpointOwner") != c.Old.Text("leaseOwner")) {
		j.violate("S1", client, key, "the owner changed from %q to %q without the counter and without a hand-off", c.Old.Text("leaseOwner"), owner)
	}
	if c.Old.Text("tenure", "nonce") != c.New.Text("tenure", "nonce") {
		j.violate("S1", client, key, "the tenure changed without the counter")
	}
}

// tenureWrite judges a write that moves the counter: which tenure it is of (S1), and the checkpoint (S2, S3).
func (j *judge) tenureWrite(client, key string, r *row, c emulator.ItemChange) {
	before, after := counterOf(c.Old), counterOf(c.New)
	if after != before+1 {
		j.violate("S1", client, key, "the counter went from %d to %d", before, after)
	}
	nonce := c.New.Text("tenure", "nonce")
	if at := c.New.Text("tenure", "at"); at != c.New.Text("leaseCounter") {
		j.violate("S1", client, key, "a write moves the counter to %d, and its tenure says %s", after, at)
	}
	if r.retired[nonce] {
		j.violate("S1", client, key, "a write of tenure %s lands although tenure %s began with counter %d at %.3fs",
			shortNonce(nonce), shortNonce(r.nonce), r.epoch, r.since.Seconds())
	}
	from, to := c.Old.Text("checkpoint"), c.New.Text("checkpoint")
	moved := from != to || c.Old.Text("checkpointSubSequenceNumber") != c.New.Text("checkpointSubSequenceNumber")
	if nonce != r.nonce {
		if r.nonce != "" {
			r.retired[r.nonce] = true
		}
		r.nonce, r.epoch, r.since = nonce, after, time.Since(j.began)
		if from != shardEnd {
			j.moves++
		}
		if moved {
			j.violate("S1", client, key, "the first write of tenure %s is a checkpoint", shortNonce(nonce))
		}
	}
	if !moved {
		return
	}
	switch {
	case compareNumbers(to, from) < 0:
		j.violate("S2", client, key, "the checkpoint goes back from %s to %s", from, to)
	case to == from && number(c.New, "checkpointSubSequenceNumber") < number(c.Old, "checkpointSubSequenceNumber"):
		j.violate("S2", client, key, "the checkpoint goes back within %s", from)
	}
	j.lived(key, to)
	switch p, found := j.unhandled(key, to); {
	case found && j.past(&p):
		j.violate("O8", client, key, "the checkpoint %s covers %s (number %s), which has left the stream unread, and nobody told that", to, p, p.number)
	case found:
		j.violate("S3", client, key, "the checkpoint %s covers %s (number %s), which nobody has handled", to, p, p.number)
	}
	if to == shardEnd {
		j.finishedGone(client, key, r.since)
		children := c.New.Members("childShardIds")
		if len(children) == 0 && !j.may {
			j.violate("S5", client, key, "ended without children")
		}
		for _, child := range children {
			if j.rows[kin(key, child)] == nil && !j.deleted[kin(key, child)] {
				j.violate("S5", client, key, "ended before its child %s had a row", child)
			}
		}
	}
}

// isLease reports whether a row's key is one of a lease.
func isLease(key string) bool { return strings.Contains(key, "shardId-") }

// kin is the key of another shard's row of the same stream.
func kin(key, shard string) string { return key[:strings.LastIndexByte(key, ':')+1] + shard }

// hole returns a hash key of a stream that no lease covers which is not ended; empty if there is none.
func (j *judge) hole() string {
	for _, prefix := range j.prefixes {
		if at := j.holeOf(prefix); at != "" {
			return strings.TrimSpace(at + " " + prefix)
		}
	}
	return ""
}

func (j *judge) holeOf(prefix string) string {
	var ranges []hashkey.Range
	for key, r := range j.rows {
		if !strings.HasPrefix(key, prefix) || r.item.Text("checkpoint") == shardEnd {
			continue
		}
		if k, err := hashkey.ParseRange(r.item.Text("startingHashKey"), r.item.Text("endingHashKey")); err == nil && k.Known {
			ranges = append(ranges, k)
		}
	}
	slices.SortFunc(ranges, func(a, b hashkey.Range) int { return a.Start.Compare(b.Start) })
	next := hashkey.Key{}
	for _, r := range ranges {
		if next.Compare(r.Start) < 0 {
			return next.String()
		}
		if r.End.Compare(next) < 0 {
			continue
		}
		after, more := r.End.Next()
		if !more {
			return ""
		}
		next = after
	}
	return next.String()
}

// owners are the owners of the rows whose shard is not ended, by key, those of them that are being handed over, and the ended
// rows that may be deleted.
func (j *judge) owners() (owner map[string]string, moving, removable []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	owner = map[string]string{}
	for key, r := range j.rows {
		if r.item.Text("checkpoint") != shardEnd {
			owner[key] = r.item.Text("leaseOwner")
			if r.item.Text("handoffTo") != "" {
				moving = append(moving, key)
			}
		} else if j.removable(r.item) {
			removable = append(removable, key)
		}
	}
	slices.Sort(removable)
	return owner, moving, removable
}

// removable reports whether an ended row may be deleted: its parents are gone, and its children have begun, which those of a
// processor that never checkpoints do not.
func (j *judge) removable(i emulator.Item) bool {
	for _, parent := range i.Members("parentShardId") {
		if j.rows[kin(i.Text("leaseKey"), parent)] != nil {
			return false
		}
	}
	for _, child := range i.Members("childShardIds") {
		if c := j.rows[kin(i.Text("leaseKey"), child)]; c != nil && compareNumbers(c.item.Text("checkpoint"), "LATEST") <= 0 {
			return false
		}
	}
	return true
}

// stillOwned are the keys of rows that have an owner.
func (j *judge) stillOwned() (keys []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, r := range j.rows {
		if owner := r.item.Text("leaseOwner"); owner != "" {
			keys = append(keys, fmt.Sprintf("%s by %s", key, owner))
		}
	}
	slices.Sort(keys)
	return keys
}

func (j *judge) countRows() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.rows)
}

func (j *judge) countMoves() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moves
}

func counterOf(i emulator.Item) int64 { return number(i, "leaseCounter") }

func number(i emulator.Item, name string) int64 {
	n, _ := strconv.ParseInt(i.Text(name), 10, 64)
	return n
}

// shortNonce is the random part of a nonce, cut, and its sequence.
func shortNonce(nonce string) string {
	parts := strings.Split(nonce, "/")
	if n := len(parts); n >= 2 {
		return parts[n-2][:min(4, len(parts[n-2]))] + "/" + parts[n-1]
	}
	return cmp.Or(nonce, "none")
}

// describeChange is a write for people.
func describeChange(c emulator.ItemChange) string {
	if !c.New.Exists() {
		return "DELETE the row, counter " + c.Old.Text("leaseCounter") + ", checkpoint " + c.Old.Text("checkpoint")
	}
	var what []string
	for _, name := range []string{"leaseOwner", "checkpointOwner", "handoffTo", "checkpoint", "pendingCheckpoint"} {
		if a, b := c.Old.Text(name), c.New.Text(name); a != b {
			what = append(what, fmt.Sprintf("%s %s→%s", name, shortNumber(cmp.Or(a, "-")), shortNumber(cmp.Or(b, "-"))))
		}
	}
	if a, b := c.Old.Members("childShardIds"), c.New.Members("childShardIds"); len(a) != len(b) {
		what = append(what, fmt.Sprintf("childShardIds %v", b))
	}
	if c.New.Text("tenure", "leaving") != c.Old.Text("tenure", "leaving") {
		what = append(what, "leaving "+cmp.Or(c.New.Text("tenure", "leaving"), "no more"))
	}
	switch {
	case !c.Old.Exists():
		return fmt.Sprintf("CREATE the row at %s, parents %v", c.New.Text("checkpoint"), c.New.Members("parentShardId"))
	case c.Old.Text("leaseCounter") == c.New.Text("leaseCounter"):
		return "WRITE besides counter " + c.New.Text("leaseCounter") + ": " + strings.Join(what, ", ")
	case len(what) == 0:
		what = []string{"renewed"}
	}
	return fmt.Sprintf("WRITE counter %s→%s by tenure %s: %s", c.Old.Text("leaseCounter"), c.New.Text("leaseCounter"),
		shortNonce(c.New.Text("tenure", "nonce")), strings.Join(what, ", "))
}

// shortNumber keeps of the emulator's sequence numbers the count within the shard, of a table's stream within that, which is all that differs.
func shortNumber(s string) string {
	if len(s) == 56 && strings.Trim(s, "0123456789") == "" {
		return "#" + cmp.Or(strings.TrimLeft(s[22:36], "0"), "0")
	}
	if len(s) == 25 && s[0] == '1' && s[20:] == "00007" { // of a table's stream
		return "#" + cmp.Or(strings.TrimLeft(s[1:20], "0"), "0")
	}
	return s
}
